"""Tests for the operators of extra specs."""

import itertools
import math

import pytest

from berth.scheduling.rules.operators import contradict, flaw_of, is_mistaken, matches, number_of

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
    """The first word is the operator; without one, both texts must be equal."""
    assert matches(value, requirement)


@pytest.mark.parametrize(("value", "requirement"), FALSE)
def test_it_does_not_match(value: object, requirement: str) -> None:
    """Values that differ, numeric < and >, and parts of list entries do not match."""
    assert not matches(value, requirement)


OPERATORS = ["=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>="]
SETS = ["<in>", "<all-in>", "<or>"]


@pytest.mark.parametrize("sign", [*OPERATORS, *SETS])
def test_an_operator_without_operand_never_matches(sign: str) -> None:
    """An operator without an operand matches nothing, not even itself."""
    assert not matches(sign, sign)
    assert not matches("", f" {sign} ")


@pytest.mark.parametrize("sign", [*OPERATORS, *SETS, ""])
def test_no_value_never_matches(sign: str) -> None:
    """A missing value matches nothing."""
    assert not matches(None, f"{sign} None".strip())


@pytest.mark.parametrize("sign", ["=", "==", "!=", ">=", "<="])
@pytest.mark.parametrize("odd", ["x", "", "nan", "inf", "-inf", "1e999", "1,5", "0x10", "٣x"])
def test_a_number_that_cannot_be_read_never_matches(sign: str, odd: str) -> None:
    """An unreadable number never matches as a value or as an operand."""
    assert not matches(odd, f"{sign} 1")
    assert not matches("1", f"{sign} {odd}")


@pytest.mark.parametrize("blanks", ["  >=   4  ", "\t>=\n4", ">= 4 and more"])
def test_blanks_do_not_matter_and_the_second_word_is_the_operand(blanks: str) -> None:
    """Blanks are ignored and the second word is the operand, as in Nova."""
    assert matches("4", blanks)


@pytest.mark.parametrize(
    ("value", "number"),
    [("1", 1.0), (" 2 ", 2.0), (3, 3.0), (True, 1.0), ("x", None), (None, None), ([], None)],
)
def test_numbers_are_finite_or_none(value: object, number: float | None) -> None:
    """A value that is not a number gives None."""
    assert number_of(value) == number


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, "9" * 400])
def test_numbers_beyond_all_bounds_are_none(value: object) -> None:
    """Numbers that are not finite give None."""
    assert number_of(value) is None


@pytest.mark.parametrize(
    ("requirement", "flaw"),
    [
        ("plain", ""),
        ("", ""),
        (">= 4", ""),
        ("<or> a", ""),
        ("s== abc", ""),
        (">= abc", "'abc' is not a number"),
        ("== nan", "'nan' is not a number"),
        ("<all-in>", "<all-in> has no operand"),
    ],
)
def test_what_no_value_satisfies_is_told(requirement: str, flaw: str) -> None:
    """An invalid requirement is reported with its flaw and matches nothing."""
    assert flaw_of(requirement) == flaw
    if flaw:
        assert not any(matches(value, requirement) for value in ("", "abc", "4", 4, ["abc"]))


def test_what_looks_like_an_operator_and_is_none_is_told() -> None:
    """Texts that begin like an operator but have none are reported."""
    assert all(is_mistaken(text) for text in ("> 4", "< 4", "=4", "s=a", "<all_in> a", "!x"))
    assert not any(is_mistaken(text) for text in ("", "4", "sse", "a > b", ">= 4", "<in> a"))


REQUIREMENTS = (
    *(f"{name} {number}" for name in ("=", "==", "!=", ">=", "<=") for number in (3, 4)),
    *(f"{name} b" for name in ("s==", "s!=", "s<", "s>", "<in>", "<all-in>")),
    *("b", "a", "4", "4.0", "<or> a <or> 4", "<or> b"),
)
VALUES = ("a", "b", "ab", "3", "4", "4.0", "3.5", 3, 4, 5.0)


def test_requirements_that_contradict_have_no_value_in_common() -> None:
    """No value satisfies two requirements that are reported as contradictory."""
    said = 0
    for one, other in itertools.product(REQUIREMENTS, repeat=2):
        assert contradict(one, other) is contradict(other, one)
        if contradict(one, other):
            said += 1
            assert not any(matches(value, one) and matches(value, other) for value in VALUES)
    assert said > len(REQUIREMENTS)
    assert contradict(">= 4", "<= 3")
    assert not contradict(">= 3", "<= 4")
