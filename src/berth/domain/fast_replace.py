"""Revising: copies of records with some fields changed, made quicker than `replace` makes them."""

from collections import deque
from collections.abc import Callable
from dataclasses import fields
from itertools import repeat
from operator import attrgetter, call
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")


class _Slots(NamedTuple):
    """What reads all fields of a class at once, and what sets each."""

    read: Callable[[object], tuple[object, ...]]
    setters: tuple[Callable[[object, object], None], ...]
    setter_of: dict[str, Callable[[object, object], None]]


_call: Final[Callable[..., object]] = call
_KNOWN: Final[dict[type[Any], _Slots]] = {}


def fast_replace(record: T, **changes: object) -> T:
    """Return a copy of a record with some fields changed, as `dataclasses.replace` does.

    The fields are copied slot by slot, which takes half of the time; nothing is checked, so it
    is for classes that check nothing themselves.

    Args:
        record: of a frozen dataclass with slots and without `__post_init__`.
        changes: new values by field.

    Raises:
        KeyError: there is no such field.
        TypeError: the class checks its fields when it is made.
    """
    noun = type(record)
    slots = _KNOWN.get(noun) or _learn(noun)
    copy = object.__new__(noun)
    deque(map(_call, slots.setters, repeat(copy), slots.read(record)), maxlen=0)
    for name, value in changes.items():
        slots.setter_of[name](copy, value)
    return copy


def _learn(noun: type[Any]) -> _Slots:
    if hasattr(noun, "__post_init__"):
        raise TypeError(f"{noun.__name__} checks its fields when it is made; use `replace`")
    names = [field.name for field in fields(noun)]
    setter_of = {name: getattr(noun, name).__set__ for name in names}
    slots = _Slots(attrgetter(*names), tuple(setter_of.values()), setter_of)
    _KNOWN[noun] = slots
    return slots
