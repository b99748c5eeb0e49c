"""Records and events as JSON text. The one module that knows which library does it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from operator import itemgetter
from types import GenericAlias, NoneType
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from berth.domain.change import Alive, Change, Event, Gone, Usage
from berth.domain.errors import LedgerError
from berth.domain.host import Service
from berth.domain.provider import Provider
from berth.domain.record import KINDS, RECORD_TYPES, Record

T = TypeVar("T")
R = TypeVar("R", bound=Record)

_NEWS: Final[dict[str, type[Event]]] = {"usage": Usage, "alive": Alive, "gone": Gone}
_EVENT_TYPES: Final[dict[str, type[Event]]] = {
    **{str(kind): noun for kind, noun in RECORD_TYPES.items()},
    **_NEWS,
}
_EVENT_KINDS: Final[dict[type[Event], str]] = {noun: kind for kind, noun in _EVENT_TYPES.items()}

_NULL: Final = "null"

_ENCODER: Final = msgspec.json.Encoder()
_EVENTS: Final = {kind: msgspec.json.Decoder(noun) for kind, noun in _EVENT_TYPES.items()}
_LISTS: Final = {noun: msgspec.json.Decoder[Any](GenericAlias(list, noun)) for noun in KINDS}
_SERVICES: Final = msgspec.json.Decoder(list[tuple[Service, float]])
_PROVIDERS: Final = msgspec.json.Decoder(list[tuple[Provider, dict[str, int]]])
_CHANGES: Final = msgspec.json.Decoder(list[tuple[int, int, str, msgspec.Raw]])
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def encode(value: object) -> str:
    """Write a value as JSON text.

    Raises:
        LedgerError: it holds what JSON in UTF-8 cannot.
    """
    try:
        return _ENCODER.encode(value).decode()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise LedgerError(f"a {type(value).__name__} cannot be stored: {error}") from error


def event_kind(event: Event) -> str:
    """Name an event's kind, as `decode_event` wants it."""
    return _EVENT_KINDS[type(event)]


def encode_event(event: Event) -> str:
    """Write a record or other event so that it can be read again, which is made sure of.

    JSON has no infinity and no NaN: msgspec writes null for them, and one such record in the
    feed would stop every follower for good.

    Raises:
        LedgerError: it holds what JSON cannot.
    """
    body = encode(event)
    if not _may_be_damaged(type(event), body):
        return body
    try:
        _EVENTS[_EVENT_KINDS[type(event)]].decode(body)
    except msgspec.MsgspecError as error:
        raise LedgerError(f"a {type(event).__name__} cannot be stored: {error}") from error
    return body


def _may_be_damaged(noun: type[Event], body: str) -> bool:
    """Tell whether there may be a null where a number has to be; reading it would tell for sure."""
    marks = _MARKS[noun]
    for mark in marks:
        if mark in body:
            return True
    if marks:
        return False
    # Looking at every null takes less than looking for marks that stand everywhere.
    ends = _BEFORE_FLOATS[noun]
    at = body.find(_NULL)
    while at >= 0:
        if body.endswith(ends, 0, at):
            return True
        at = body.find(_NULL, at + len(_NULL))
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


_BEFORE_FLOATS: Final = {noun: tuple(sorted(_before_floats(noun))) for noun in _EVENT_KINDS}

_MARKS: Final = {
    noun: tuple(f"{end}{_NULL}" for end in ends if all(map(_is_name, ends)))
    for noun, ends in _BEFORE_FLOATS.items()
}
"""What a damaged body must hold, where all floats of an event are fields with a name."""


def decode_event(kind: str, body: str | bytes | msgspec.Raw) -> Event:
    """Read an event.

    Raises:
        LedgerError: the body is damaged, or was written by a Berth that knows more kinds.
    """
    try:
        return _EVENTS[kind].decode(body)
    except (KeyError, msgspec.MsgspecError) as error:
        raise LedgerError(f"an event of kind {kind!r} cannot be read: {error!r}") from error


def decode_record(noun: type[R], body: str) -> R:
    """Read a record that stands alone.

    Raises:
        LedgerError: the body is damaged.
    """
    decoder = cast("msgspec.json.Decoder[R]", _EVENTS[KINDS[cast("type[Record]", noun)]])
    return _decode(decoder, body)


def decode_changes(text: str) -> list[Change]:
    """Read an array of changes, each `[version, seq, kind, body]`, into their order."""
    rows = _decode(_CHANGES, text)
    rows.sort(key=itemgetter(0, 1))
    return changes_of(rows)


def changes_of(rows: Iterable[Sequence[Any]]) -> list[Change]:
    """Read changes, each `(version, seq, kind, body)`, as they come."""
    return [Change(version, decode_event(kind, body)) for version, _, kind, body in rows]


def decode_records(noun: type[R], text: str) -> list[R]:
    """Read an array of records of one kind.

    Services are written as `[body, last_seen_s]`, providers as `[body, used]`: what stands
    beside the body counts.
    """
    if noun is Service:
        services = _decode(_SERVICES, text)
        return cast("list[R]", [replace(s, last_seen_s=at_s) for s, at_s in services])
    if noun is Provider:
        providers = _decode(_PROVIDERS, text)
        return cast("list[R]", [replace(p, used=used) for p, used in providers])
    records: list[R] = _decode(_LISTS[cast("type[Record]", noun)], text)
    return records


def decode_json(noun: type[T], text: str) -> T:
    """Read JSON text as a value of that type."""
    decoder = _DECODERS.get(noun)
    if decoder is None:
        decoder = _DECODERS[noun] = msgspec.json.Decoder(noun)
    value: T = _decode(decoder, text)
    return value


def _decode(decoder: msgspec.json.Decoder[T], text: str) -> T:
    try:
        return decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise LedgerError(f"what is stored cannot be read: {error}") from error
