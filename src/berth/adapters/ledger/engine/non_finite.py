"""Detection of NaN and infinity in records before they are stored as JSON.

JSON can represent neither, and msgspec writes null for both. Decoding the text again would reveal
such a null, but takes as long as encoding it. The checks here take a fraction of that time and
suffice for most records.
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
    """The functions that read the floats of a type.

    Attributes:
        numbers: reads the floats that are fields of an object, or fields of such fields.
        others: reads the fields that may contain floats in another way, such as lists.
    """

    numbers: Callable[[Any], tuple[float, ...]]
    others: Callable[[Any], tuple[object, ...]]


def may_hold_non_finite(event: Event, body: str) -> bool:
    """Return whether an event may contain NaN or infinity; False is certain, but True is not.

    Args:
        event: a record, or another event of the feed.
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
    # The separators of lists and mappings occur all over the text, so it is cheaper to check what
    # precedes each null.
    ends = _BEFORE_FLOATS[noun]
    at = body.find(_NULL)
    while at >= 0:
        if body.endswith(ends, 0, at):
            return True
        at = body.find(_NULL, at + len(_NULL))
    return False


def has_finite_numbers(event: Event) -> bool:
    """Return whether all floats are finite that are plain fields, not optional and not in lists."""
    try:
        # One sum replaces a check of each float, because NaN and infinity survive addition. If the
        # sum overflows, the result is False, which only costs a decode.
        return isfinite(sum(_FLOAT_READERS[type(event)].numbers(event)))
    except (TypeError, OverflowError):
        return False


def _is_name(end: str) -> bool:
    return end.startswith('"')


def _before_floats(hint: Any, above: tuple[Any, ...] = ()) -> set[str]:  # noqa: ANN401 - a type
    """Return the texts that may precede a float in the JSON of a type.

    They are the names of fields, the separators of lists, and the colon of mappings. A name occurs
    elsewhere only as a key of a mapping, because quotes within strings are escaped.

    Args:
        hint: the type, as an annotation.
        above: the types that contain this one; recursion stops at a type that contains itself.
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
    """Yield the dotted paths of a type's fields that are floats, or that may contain floats.

    Args:
        hint: the type, a dataclass.
        alone: True for fields that are floats, False for others that may contain floats.
        above: the path of the type, with a final dot.
    """
    hints = get_type_hints(hint)
    for field in fields(hint):
        path, of_field = f"{above}{field.name}", hints[field.name]
        if is_dataclass(of_field):
            yield from _paths(of_field, alone=alone, above=f"{path}.")
        elif (of_field is float) if alone else _before_floats(of_field):
            yield path


def _reading(paths: Iterator[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that returns the values at all paths as a tuple."""
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

# If all floats of an event type are named fields, a body with a null for one of them contains one
# of these texts. The other types have no texts here.
_NULL_PATTERNS: Final = {
    noun: tuple(f"{end}{_NULL}" for end in ends if all(map(_is_name, ends)))
    for noun, ends in _BEFORE_FLOATS.items()
}
