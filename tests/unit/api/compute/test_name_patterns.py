"""Patterns for names of servers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.compute.handlers.name_patterns import pattern_of


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("web", "my-web-1", True),
        ("web", "my-w-eb", False),
        ("^web", "web-1", True),
        ("^web", "my-web", False),
        ("1$", "web-1", True),
        ("1$", "web-12", False),
        ("^web$", "web", True),
        ("^web$", "webs", False),
        ("^$", "", True),
        ("WEB", "web", True),
        ("^a.*z$", "abcz", True),
        ("^a.*z$", "az", True),
        ("^ab.*ba$", "aba", False),
        ("a.*b.*c", "xaxbxcx", True),
        ("a.*b.*c", "xcxbxax", False),
        (r"^web\.1$", "web.1", True),
        ("web.1", "web-1", False),
        (r"\$5", "has $5", True),
        ("(a+)+$", "a" * 30, False),
        ("\\", "back\\slash", True),
    ],
)
def test_examples(pattern: str, name: str, expected: bool) -> None:
    """Anchors, wildcards and escapes are read; any other character stands for itself."""
    assert pattern_of(pattern)(name) is expected


@given(
    parts=st.lists(st.text(alphabet="ab.x", max_size=3), min_size=1, max_size=4),
    start=st.booleans(),
    end=st.booleans(),
    name=st.text(alphabet="ab.x", max_size=12),
)
def test_it_is_what_a_regular_expression_would_say(
    parts: list[str], start: bool, end: bool, name: str
) -> None:
    """A pattern within the supported subset matches like a regular expression."""
    regex = ".*".join(re.escape(part) for part in parts)
    pattern = "^" * start + regex + "$" * end
    assert pattern_of(pattern)(name) is bool(re.search(pattern, name))


def test_no_pattern_is_slow() -> None:
    """A pattern that would make a backtracking engine take years is matched."""
    assert not pattern_of(".*".join("a" * 500) + "b")("a" * 5000)
