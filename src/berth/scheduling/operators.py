"""The operators of extra specs (nova.md 2.6).

The first word of a requirement is the operator, the rest its operand; a text with no known
operator must equal the value. `=` means "at least", as it always has in Nova. Numbers that
cannot be read never match: they refuse the host with a reason and do not fail the request.
"""

import math
import operator
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


def matches(value: object, requirement: str) -> bool:
    """Tell whether a value satisfies a requirement.

    Args:
        value: what the host has: text, a number, or a list of texts; None never matches.
        requirement: `>= 4`, `<or> a <or> b`, `plain text`, ...
    """
    if value is None:
        return False
    words = requirement.split()
    known = bool(words) and (
        words[0] in _NUMERIC or words[0] in _TEXT or words[0] in (_IN, _ALL_IN, _OR)
    )
    if not known:
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


def number_of(value: object) -> float | None:
    """Read a finite number, or None when it is none."""
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
