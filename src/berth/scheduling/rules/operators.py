"""The operators of extra specs (nova-behaviour.md 2.6).

The first word of a requirement is the operator, and the rest is its operand; a requirement without
a known operator must equal the value. `=` means "at least", as in Nova. A numeric operator never
matches text that is not a number: the host is removed with a reason, but the request is not
rejected.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import cast

# `=` means "at least" in Nova, and existing flavors rely on it.
_NUMERIC: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}
_IN = "<in>"
_ALL_IN = "<all-in>"
_OR = "<or>"
_OPERATORS = frozenset((*_NUMERIC, *_TEXT, _IN, _ALL_IN, _OR))
_LIKE_AN_OPERATOR = re.compile(r"s?[<>=!]")


def matches(value: object, requirement: str) -> bool:
    """Return whether a value satisfies a requirement.

    Args:
        value: the host's value: a string, a number, or a list of strings; None never matches.
        requirement: `>= 4`, `<or> a <or> b`, `plain text`, ...
    """
    if value is None:
        return False
    words = requirement.split()
    if not words or words[0] not in _OPERATORS:
        return requirement == _text(value)
    operand = words[1:]
    if not operand:
        return False
    if words[0] in _NUMERIC:
        return _matches_number(words[0], value, operand[0])
    if words[0] in _TEXT:
        return _TEXT[words[0]](_text(value), operand[0])
    return _matches_words(words[0], value, operand)


def _matches_number(name: str, value: object, operand: str) -> bool:
    have, want = number_of(value), number_of(operand)
    return have is not None and want is not None and _NUMERIC[name](have, want)


def _matches_words(name: str, value: object, operand: list[str]) -> bool:
    if name == _IN:
        return _contains(value, operand[0])
    if name == _ALL_IN:
        return all(_contains(value, word) for word in operand)
    # In `<or> a <or> b`, every second word after the first `<or>` is another `<or>`.
    return any(_text(value) == word for word in operand[::2])


def _contains(value: object, word: str) -> bool:
    if isinstance(value, list | tuple | set | frozenset | dict):
        return any(_text(item) == word for item in cast("Iterable[object]", value))
    return word in _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def flaw_of(requirement: str) -> str:
    """Return the reason why no value satisfies a requirement; empty if some value may."""
    words = requirement.split()
    if not words or words[0] not in _OPERATORS:
        return ""
    if len(words) == 1:
        return f"{words[0]} has no operand"
    if words[0] in _NUMERIC and number_of(words[1]) is None:
        return f"{words[1]!r} is not a number"
    return ""


def is_mistaken(requirement: str) -> bool:
    """Return whether a requirement seems to begin with an operator that does not exist (`> 4`)."""
    words = requirement.split()
    return bool(words) and words[0] not in _OPERATORS and bool(_LIKE_AN_OPERATOR.match(requirement))


def contradict(one: str, other: str) -> bool:
    """Return whether two requirements certainly exclude each other.

    If the result is True, no text or number satisfies both; if it is False, some value may.
    """
    for first, second in ((one, other), (other, one)):
        texts = _only(first)
        if texts is not None:
            return not any(matches(text, second) for text in texts)
    (low, high), (also_low, also_high) = _bounds(one), _bounds(other)
    return max(low, also_low) > min(high, also_high)


def _only(requirement: str) -> list[str] | None:
    """Return the only texts that satisfy a requirement, or None if there may be others."""
    words = requirement.split()
    if not words or words[0] not in _OPERATORS:
        return [requirement]
    if words[0] == "s==":
        return words[1:2]
    return words[1::2] if words[0] == _OR else None


def _bounds(requirement: str) -> tuple[float, float]:
    """Return the least and the greatest number that can satisfy a requirement."""
    name, *operand = requirement.split() or [""]
    number = number_of(operand[0]) if operand else None
    if name not in _NUMERIC or name == "!=" or number is None:
        return -math.inf, math.inf
    return (
        -math.inf if name == "<=" else number,
        number if name in {"<=", "=="} else math.inf,
    )


def number_of(value: object) -> float | None:
    """Return a value as a finite number, or None if it is not one."""
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
