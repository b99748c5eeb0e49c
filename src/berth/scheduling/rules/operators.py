"""The operators of extra specs (nova-behaviour.md 2.6).

The first word of a requirement is the operator, the rest its operand; a text with no known
operator must equal the value. `=` means "at least", as it always has in Nova. Numbers that
cannot be read never match: they refuse the host with a reason and do not fail the request.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import cast

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
    """Tell whether a value satisfies a requirement.

    Args:
        value: what the host has: text, a number, or a list of texts; None never matches.
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
    return any(_text(value) == word for word in operand[::2])


def _contains(value: object, word: str) -> bool:
    if isinstance(value, list | tuple | set | frozenset | dict):
        return any(_text(item) == word for item in cast("Iterable[object]", value))
    return word in _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def flaw_of(requirement: str) -> str:
    """Say why no value at all satisfies a requirement; nothing when some value may."""
    words = requirement.split()
    if not words or words[0] not in _OPERATORS:
        return ""
    if len(words) == 1:
        return f"{words[0]} has nothing to compare with"
    if words[0] in _NUMERIC and number_of(words[1]) is None:
        return f"{words[1]!r} is no number"
    return ""


def is_mistaken(requirement: str) -> bool:
    """Tell whether a requirement begins like an operator, but with none that there is (`> 4`)."""
    words = requirement.split()
    return bool(words) and words[0] not in _OPERATORS and bool(_LIKE_AN_OPERATOR.match(requirement))


def contradict(one: str, other: str) -> bool:
    """Tell whether no text or number can satisfy both of two requirements.

    False when that cannot be seen from the requirements alone.
    """
    for first, second in ((one, other), (other, one)):
        texts = _only(first)
        if texts is not None:
            return not any(matches(text, second) for text in texts)
    (low, high), (also_low, also_high) = _bounds(one), _bounds(other)
    return max(low, also_low) > min(high, also_high)


def _only(requirement: str) -> list[str] | None:
    """Return the few texts that satisfy a requirement; None when there may be more."""
    words = requirement.split()
    if not words or words[0] not in _OPERATORS:
        return [requirement]
    if words[0] == "s==":
        return words[1:2]
    return words[1::2] if words[0] == _OR else None


def _bounds(requirement: str) -> tuple[float, float]:
    """Return the least and the greatest number that satisfy a requirement."""
    name, *operand = requirement.split() or [""]
    number = number_of(operand[0]) if operand else None
    if name not in _NUMERIC or name == "!=" or number is None:
        return -math.inf, math.inf
    return (
        -math.inf if name == "<=" else number,
        number if name in {"<=", "=="} else math.inf,
    )


def number_of(value: object) -> float | None:
    """Read a finite number, or None when it is none."""
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
