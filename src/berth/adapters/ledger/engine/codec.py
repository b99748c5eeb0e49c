"""Records and events as JSON text. The one module that knows which library does it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from operator import attrgetter, itemgetter
from types import GenericAlias
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from berth.adapters.ledger.engine.non_finite import has_finite_numbers, may_hold_non_finite
from berth.domain.compute.decision import Decision, Placement
from berth.domain.compute.host import Service
from berth.domain.errors import LedgerError
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Change, Event, HostsAlive, RecordRemoved, Usage
from berth.domain.ledger.record import KINDS, RECORD_TYPES, Record

T = TypeVar("T")
R = TypeVar("R", bound=Record)

_NON_RECORDS: Final[dict[str, type[Event]]] = {
    "usage": Usage,
    "alive": HostsAlive,
    "gone": RecordRemoved,
}
_EVENT_TYPES: Final[dict[str, type[Event]]] = {
    **{str(kind): noun for kind, noun in RECORD_TYPES.items()},
    **_NON_RECORDS,
}
_EVENT_KINDS: Final[dict[type[Event], str]] = {noun: kind for kind, noun in _EVENT_TYPES.items()}


class _AnyGone(msgspec.Struct):
    """A removal of a record of any kind."""

    kind: str


_GONE: Final = "gone"
_NOTHING: Final = HostsAlive((), 0.0)

_NULL: Final = "null"

_ENCODER: Final = msgspec.json.Encoder()
_EVENTS: Final = {kind: msgspec.json.Decoder(noun) for kind, noun in _EVENT_TYPES.items()}
_LISTS: Final = {noun: msgspec.json.Decoder[Any](GenericAlias(list, noun)) for noun in KINDS}
_SERVICES: Final = msgspec.json.Decoder(list[tuple[Service, float]])
_PROVIDERS: Final = msgspec.json.Decoder(list[tuple[Provider, dict[str, int], int]])
_CHANGES: Final = msgspec.json.Decoder(list[tuple[int, int, str, msgspec.Raw]])
_ANY_GONE: Final = msgspec.json.Decoder(_AnyGone)
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

    A record with a number that is none would stop every follower of the feed for good.

    Raises:
        LedgerError: it holds what JSON cannot.
    """
    body = encode(event)
    if not may_hold_non_finite(event, body):
        return body
    try:
        _EVENTS[_EVENT_KINDS[type(event)]].decode(body)
    except msgspec.MsgspecError as error:
        raise LedgerError(f"a {type(event).__name__} cannot be stored: {error}") from error
    return body


class BatchEncoder:
    """Writes the events of a batch as `encode_event` does, and what they share only once.

    Decisions that were made together tell of the same filters, and of the same hosts again and
    again. Parts are known by identity, so these records must not change.
    """

    def __init__(self) -> None:
        self._texts: dict[int, msgspec.Raw] = {}
        """Parts that were written, by their identity."""
        self._parts: list[object] = []
        """Those parts: as long as they are kept, nothing else has their identity."""

    def encode_event(self, event: Event) -> str:
        """Write a record or other event; see `encode_event`."""
        body = self._decision(event) if type(event) is Decision else None
        return encode_event(event) if body is None else body

    def _decision(self, decision: Decision) -> str | None:
        """Write a decision; None when it may not be sound.

        All floats of a decision are fields of its own, or of hosts with their scores.
        """
        if not has_finite_numbers(decision):
            return None
        values = [*_DECISION.read(decision)]
        try:
            values[_FILTERS] = self._part(decision.filters)
            values[_PLACEMENTS] = [self._placement(one) for one in decision.placements]
            return encode(_DECISION.text(*values))
        except LedgerError:
            return None

    def _placement(self, placement: Placement) -> msgspec.Struct:
        values, known = [*_PLACEMENT.read(placement)], self._texts.get
        values[_CHOSEN] = self._part(placement.chosen)
        values[_RUNNERS_UP] = [known(id(host)) or self._part(host) for host in placement.runners_up]
        return _PLACEMENT.text(*values)

    def _part(self, part: object) -> msgspec.Raw:
        """Write what has no null in it when it is sound, unless that was done before.

        Raises:
            LedgerError: there is a null, or something that JSON cannot hold.
        """
        known = self._texts.get(id(part))
        if known is None:
            text = encode(part)
            if _NULL in text:
                raise LedgerError("a part may be damaged")
            known = self._texts[id(part)] = msgspec.Raw(text)
            self._parts.append(part)
        return known


class _StructLayout(NamedTuple):
    """How to read all fields of a noun, and what is written as it, field by field."""

    read: Callable[[object], tuple[Any, ...]]
    text: Callable[..., msgspec.Struct]


def _layout_of(noun: type[Any]) -> _StructLayout:
    names = [field.name for field in fields(noun)]
    text = msgspec.defstruct(noun.__name__, [(name, Any) for name in names], gc=False)
    return _StructLayout(attrgetter(*names), text)


def _index(noun: type[Any], name: str) -> int:
    return [field.name for field in fields(noun)].index(name)


_DECISION: Final = _layout_of(Decision)
_FILTERS: Final = _index(Decision, "filters")
_PLACEMENTS: Final = _index(Decision, "placements")
_PLACEMENT: Final = _layout_of(Placement)
_CHOSEN: Final = _index(Placement, "chosen")
_RUNNERS_UP: Final = _index(Placement, "runners_up")


def decode_event(kind: str, body: str | bytes | msgspec.Raw) -> Event:
    """Read an event.

    Fields that are not known are left out. A kind that is not known is one that only a newer
    Berth keeps, so it is told as nothing that followers would keep.

    Raises:
        LedgerError: the body is damaged.
    """
    decoder = _EVENTS.get(kind)
    if decoder is None:
        return _NOTHING
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        if kind == _GONE and _is_of_unknown_kind(body):
            return _NOTHING
        raise LedgerError(f"an event of kind {kind!r} cannot be read: {error!r}") from error


def _is_of_unknown_kind(body: str | bytes | msgspec.Raw) -> bool:
    """Tell whether what was removed is of a kind that only a newer Berth keeps."""
    try:
        return _ANY_GONE.decode(body).kind not in RECORD_TYPES
    except msgspec.MsgspecError:
        return False


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

    Services are written as `[body, last_seen_s]`, providers as `[body, used, generation]`: what
    stands beside the body counts, of generations the higher one.
    """
    if noun is Service:
        services = _decode(_SERVICES, text)
        return cast("list[R]", [replace(s, last_seen_s=at_s) for s, at_s in services])
    if noun is Provider:
        providers = _decode(_PROVIDERS, text)
        return cast("list[R]", [_with_use(*provider) for provider in providers])
    records: list[R] = _decode(_LISTS[cast("type[Record]", noun)], text)
    return records


def _with_use(provider: Provider, used: dict[str, int], generation: int) -> Provider:
    return replace(provider, used=used, generation=max(provider.generation, generation))


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
