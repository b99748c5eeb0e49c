"""The operators of extra specs, each with its odd inputs."""

import math

import pytest

from berth.scheduling.operators import matches, number_of

TRUE = [
    ("4", "= 4"),
    ("5", "= 4"),
    ("4.5", "= 4"),
    ("4", "== 4.0"),
    ("4", "!= 5"),
    ("4", ">= 4"),
    ("4", "<= 4"),
    ("1e3", "== 1000"),
    (4, "= 3"),
    (4.5, "<= 4.5"),
    ("x", "s== x"),
    ("x", "s!= y"),
    ("a", "s< b"),
    ("a", "s<= a"),
    ("b", "s> a"),
    ("b", "s>= b"),
    ("10", "s< 9"),
    ("linux-x86", "<in> x86"),
    ("abc", "<in> b"),
    (["a", "b"], "<in> b"),
    ("avx vmx sse", "<all-in> avx sse"),
    (("avx", "vmx"), "<all-in> avx"),
    ("b", "<or> a <or> b"),
    ("a", "<or> a"),
    ("a", "<or> a <or>"),
    ("plain", "plain"),
    ("two words", "two words"),
    ("", ""),
    ("> 3", "> 3"),
    ("=4", "=4"),
    (4, "4"),
]
FALSE = [
    ("3", "= 4"),
    ("3", "== 4"),
    ("4", "!= 4.0"),
    ("3.9", ">= 4"),
    ("4.1", "<= 4"),
    ("x", "s== y"),
    ("x", "s!= x"),
    ("b", "s< b"),
    ("b", "s<= a"),
    ("a", "s> a"),
    ("a", "s>= b"),
    ("abc", "<in> d"),
    (["abc"], "<in> b"),
    ("avx", "<all-in> avx vmx"),
    (["avx"], "<all-in> avx vmx"),
    ("c", "<or> a <or> b"),
    ("<or>", "<or> a <or> b"),
    ("a b", "<or> a b"),
    ("plain", "plain "),
    ("4", "> 3"),
    ("2", "< 3"),
    ("4", "4.0"),
    ("true", "True"),
]


@pytest.mark.parametrize(("value", "requirement"), TRUE)
def test_it_matches(value: object, requirement: str) -> None:
    """The first word is the operator; without one both texts have to be equal."""
    assert matches(value, requirement)


@pytest.mark.parametrize(("value", "requirement"), FALSE)
def test_it_does_not_match(value: object, requirement: str) -> None:
    """There is no numeric < or >, and a list holds words, not parts of them."""
    assert not matches(value, requirement)


OPERATORS = ["=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>="]
SETS = ["<in>", "<all-in>", "<or>"]


@pytest.mark.parametrize("sign", [*OPERATORS, *SETS])
def test_an_operator_without_operand_never_matches(sign: str) -> None:
    """Not even a value that is the operator itself."""
    assert not matches(sign, sign)
    assert not matches("", f" {sign} ")


@pytest.mark.parametrize("sign", [*OPERATORS, *SETS, ""])
def test_no_value_never_matches(sign: str) -> None:
    """An attribute that is not there meets nothing."""
    assert not matches(None, f"{sign} None".strip())


@pytest.mark.parametrize("sign", ["=", "==", "!=", ">=", "<="])
@pytest.mark.parametrize("odd", ["x", "", "nan", "inf", "-inf", "1e999", "1,5", "0x10", "٣x"])
def test_a_number_that_cannot_be_read_never_matches(sign: str, odd: str) -> None:
    """Neither as value nor as operand, and nothing is raised."""
    assert not matches(odd, f"{sign} 1")
    assert not matches("1", f"{sign} {odd}")


@pytest.mark.parametrize("blanks", ["  >=   4  ", "\t>=\n4", ">= 4 and more"])
def test_blanks_do_not_matter_and_the_second_word_is_the_operand(blanks: str) -> None:
    """As Nova splits at blanks."""
    assert matches("4", blanks)


@pytest.mark.parametrize(
    ("value", "number"),
    [("1", 1.0), (" 2 ", 2.0), (3, 3.0), (True, 1.0), ("x", None), (None, None), ([], None)],
)
def test_numbers_are_finite_or_none(value: object, number: float | None) -> None:
    """What is no number is None."""
    assert number_of(value) == number


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, "9" * 400])
def test_numbers_beyond_all_bounds_are_none(value: object) -> None:
    """Comparing them would say nothing."""
    assert number_of(value) is None
