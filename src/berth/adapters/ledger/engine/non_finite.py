"""Damage: numbers of a record that JSON has no words for.

JSON has no infinity and no NaN: msgspec writes null for them. Reading a text back would tell for
sure, but takes as long as writing it; here most records are known to be sound by a look at them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from operator import attrgetter
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from berth.domain.ledger.change import Event

_NULL: Final = "null"


class _FloatReaders(NamedTuple):
    """Where a type has floats.

    `numbers` reads those that are always there: fields, or fields of fields. `others` reads
    fields that may hold more of them, or nothing.
    """

    numbers: Callable[[Any], tuple[float, ...]]
    others: Callable[[Any], tuple[object, ...]]


def may_hold_non_finite(event: Event, body: str) -> bool:
    """Tell whether an event may have a float that is none; reading its text would tell for sure.

    Args:
        event: a record, or what else the feed tells.
        body: the event as JSON text.
    """
    noun = type(event)
    if has_finite_numbers(event) and not any(_FLOAT_READERS[noun].others(event)):
        return False
    patterns = _NULL_PATTERNS[noun]
    for pattern in patterns:
        if pattern in body:
            return True
    if patterns:
        return False
    # Looking at every null takes less than looking for marks that stand everywhere.
    ends = _BEFORE_FLOATS[noun]
    at = body.find(_NULL)
    while at >= 0:
        if body.endswith(ends, 0, at):
            return True
        at = body.find(_NULL, at + len(_NULL))
    return False


def has_finite_numbers(event: Event) -> bool:
    """Tell whether those floats of an event that stand alone, in no list or option, are numbers."""
    try:
        return isfinite(sum(_FLOAT_READERS[type(event)].numbers(event)))
    except (TypeError, OverflowError):
        return False


def _is_name(end: str) -> bool:
    return end.startswith('"')


def _before_floats(hint: Any, above: tuple[Any, ...] = ()) -> set[str]:  # noqa: ANN401 - a type
    """Return what may stand before a float in the text of a type: the end of it.

    That is the name of a field, which nothing else looks like but a key of a free mapping, as
    quotes in strings are escaped; what parts the items of a list; or any key of a mapping.

    Args:
        hint: the type, as hints have it.
        above: the types that hold this one; some may hold themselves.
    """
    if hint in above:
        return set()
    above = (*above, hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        own = {f'"{field.name}":' for field in fields(hint) if hints[field.name] is float}
        return own.union(*(_before_floats(hints[field.name], above) for field in fields(hint)))
    inner = get_args(hint)
    found = {end for argument in inner for end in _before_floats(argument, above)}
    if float in inner and NoneType not in inner:
        found |= {":"} if get_origin(hint) is Mapping else {"[", ","}
    return found


def _paths(hint: Any, *, alone: bool, above: str = "") -> Iterator[str]:  # noqa: ANN401 - a type
    """Yield the paths of floats that stand alone, or of whatever else may hold some."""
    hints = get_type_hints(hint)
    for field in fields(hint):
        path, of_field = f"{above}{field.name}", hints[field.name]
        if is_dataclass(of_field):
            yield from _paths(of_field, alone=alone, above=f"{path}.")
        elif (of_field is float) if alone else _before_floats(of_field):
            yield path


def _reading(paths: Iterator[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return what reads all of these at once."""
    known = tuple(paths)
    if len(known) > 1:
        return attrgetter(*known)
    if not known:
        return lambda _: ()
    read = attrgetter(*known)
    return lambda record: (read(record),)


_EVENTS: Final[tuple[type[Event], ...]] = get_args(Event)

_FLOAT_READERS: Final = {
    noun: _FloatReaders(_reading(_paths(noun, alone=True)), _reading(_paths(noun, alone=False)))
    for noun in _EVENTS
}

_BEFORE_FLOATS: Final = {noun: tuple(sorted(_before_floats(noun))) for noun in _EVENTS}

_NULL_PATTERNS: Final = {
    noun: tuple(f"{end}{_NULL}" for end in ends if all(map(_is_name, ends)))
    for noun, ends in _BEFORE_FLOATS.items()
}
"""What a damaged body must hold, where all floats of an event are fields with a name."""
