"""Regular expressions that match in bounded time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.regex import matcher_of
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("web", "my-web-1", True),
        ("web", "my-w-eb", False),
        ("^web", "my-web", False),
        ("1$", "web-12", False),
        ("^web-[0-9]+$", "web-13", True),
        ("^web-[0-9]+$", "web-a", False),
        ("^$", "", True),
        ("WEB", "web", True),
        ("^[A-C]x", "bX", True),
        ("[^a-c]", "ABC", False),
        ("[^a-c]", "ABD", True),
        ("^a.*z$", "az", True),
        ("^ab.*ba$", "aba", False),
        (r"^web\.1$", "web.1", True),
        (r"^web\.1$", "web-1", False),
        ("web.1", "web-1", True),
        (r"\$5", "has $5", True),
        ("(a+)+$", "a" * 30 + "b", False),
        ("^(db|web)-(1|2)$", "web-2", True),
        ("^(db|web)-(1|2)$", "webb-2", False),
        ("^(?:ab){2,3}$", "abab", True),
        ("^(?:ab){2,3}$", "abababab", False),
        (r"^\d{4}$", "2026", True),
        (r"^\w+\s\W$", "web_1 -", True),
        (r"^[\d-]+$", "1-2", True),
        ("a{,2}", "a{,2}", True),
        ("^[]x]+$", "]x", True),
        ("straße", "STRASSE", True),
        ("x|", "", True),
        ("^a*?b$", "aab", True),
    ],
)
def test_examples(pattern: str, name: str, expected: bool) -> None:
    """The common syntax is read, and case is ignored."""
    assert matcher_of(pattern, "name")(name) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "(a",
        "[a",
        "*",
        "a**",
        "a|*",
        "c++",
        "\\",
        "[z-a]",
        "a{3,2}",
        "a{256}",
        "(?=a)",
        "(?P<x>a)",
        "(a)\\1",
        "\\b",
        "[[:alpha:]]",
        "^*",
        "((a{200}){200}){200}",
        "(" * 100 + ")" * 100,
        "a." * 200,
    ],
)
def test_what_cannot_be_used(pattern: str) -> None:
    """A malformed pattern, or one with syntax that Berth lacks, is refused."""
    with pytest.raises(InvalidInputError) as refused:
        matcher_of(pattern, "name")
    assert refused.value.field == "name"


ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "[a-b-]", r"\w", r"\D", r"\."])
PATTERNS = st.recursive(
    ATOMS | st.sampled_from(["^", "$", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=8,
)


@given(pattern=PATTERNS, name=st.text(alphabet="abAB-. 1", max_size=8))
def test_it_says_what_python_says(pattern: str, name: str) -> None:
    """A pattern matches a name exactly if it does in Python's engine."""
    # The flag ASCII makes no difference to these names, and has Python fold case as Berth does.
    expected = bool(re.search(pattern, name, re.IGNORECASE))
    assert matcher_of(pattern, "name")(name) is expected, (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("(a+)+$", "a" * 250 + "b"),
        ("(a|aa)+$", "a" * 250 + "b"),
        ("^(a*)*(a*)*(a*)*$", "a" * 250 + "b"),
        (".*".join("a" * 80) + "b", "a" * 255),
        ("(.{1,30}){1,30}x", "ab" * 120),
        ("[ab]*a[ab]{100}c", "ab" * 127),
    ],
)
def test_no_pattern_is_slow(pattern: str, name: str) -> None:
    """Patterns that take a backtracking engine years are matched, or refused, in bounded time."""
    began_s = time.process_time()
    try:
        matches = matcher_of(pattern, "name")
        for number in range(1000):
            assert not matches(f"{number}-{name}")
    except InvalidInputError:
        pass
    assert time.process_time() - began_s < 5.0
