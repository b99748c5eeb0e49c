"""Encodes records and the other events of the feed as JSON text, and decodes them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """The removal of a record, of a kind that this version of Berth might not know."""

    kind: str


_GONE: Final = "gone"
_NOTHING: Final = HostsAlive((), 0.0)

_NULL: Final = "null"

DAMAGED: Final = (
    "it was written by a newer Berth (upgrade this one) or is damaged (restore the ledger from a "
    "backup)"
)
"""The end of error messages about stored data that cannot be decoded: causes and remedies."""

_ENCODER: Final = msgspec.json.Encoder()
_EVENTS: Final = {kind: msgspec.json.Decoder(noun) for kind, noun in _EVENT_TYPES.items()}
_LISTS: Final = {noun: msgspec.json.Decoder[Any](GenericAlias(list, noun)) for noun in KINDS}
_SERVICES: Final = msgspec.json.Decoder(list[tuple[Service, float]])
_PROVIDERS: Final = msgspec.json.Decoder(list[tuple[Provider, dict[str, int], int]])
_CHANGES: Final = msgspec.json.Decoder(list[tuple[int, int, str, msgspec.Raw]])
_ANY_GONE: Final = msgspec.json.Decoder(_AnyGone)
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def encode(value: object) -> str:
    """Return a value as JSON text.

    Raises:
        LedgerError: the value contains something that JSON in UTF-8 cannot represent.
    """
    try:
        return _ENCODER.encode(value).decode()
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise LedgerError(f"a {type(value).__name__} cannot be stored: {error}") from error


def event_kind(event: Event) -> str:
    """Return the name of an event's kind, as `decode_event` expects it."""
    return _EVENT_KINDS[type(event)]


def encode_event(event: Event) -> str:
    """Return a record or another event as JSON text that can be decoded again.

    msgspec writes null for NaN and infinity. A stored record with a null in place of a number would
    stop every follower of the feed for good, so a text that may contain one is decoded before it is
    stored.

    Raises:
        LedgerError: the event contains something that JSON cannot represent.
    """
    body = encode(event)
    if not may_hold_non_finite(event, body):
        return body
    try:
        _EVENTS[_EVENT_KINDS[type(event)]].decode(body)
    except msgspec.MsgspecError as error:
        raise LedgerError(
            f"a {type(event).__name__} cannot be stored, because it contains NaN or infinity "
            f"({error}); correct the component that supplied the number"
        ) from error
    return body


class BatchEncoder:
    """Encodes the events of a batch like `encode_event`, but encodes shared parts only once.

    Decisions that were made together share filters and hosts. Parts are recognised by identity, so
    the records must not change while the encoder is in use.
    """

    def __init__(self) -> None:
        # The text of each encoded part, by the identity of the part.
        self._texts: dict[int, msgspec.Raw] = {}
        # The parts themselves. They must stay alive, because another object could take over the
        # identity of a freed one.
        self._parts: list[object] = []

    def encode_event(self, event: Event) -> str:
        """Return a record or another event as JSON text; see the function `encode_event`."""
        body = self._decision(event) if type(event) is Decision else None
        return encode_event(event) if body is None else body

    def _decision(self, decision: Decision) -> str | None:
        """Return a decision as JSON text, or None if it cannot be encoded in parts.

        A decision that may contain NaN or infinity, or something that JSON cannot represent, cannot
        be encoded in parts. All floats of a decision are its own fields, or fields of hosts with
        their scores.
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
        """Return a part as JSON text, which is cached.

        Raises:
            LedgerError: the text contains a null, or the part contains something that JSON cannot
                represent.
        """
        known = self._texts.get(id(part))
        if known is None:
            text = encode(part)
            if _NULL in text:
                raise LedgerError(
                    f"cannot store a {type(part).__name__}, because it contains a null, which may "
                    "stand for NaN or infinity"
                )
            known = self._texts[id(part)] = msgspec.Raw(text)
            self._parts.append(part)
        return known


class _StructLayout(NamedTuple):
    """The way to encode the objects of a class with some fields replaced by JSON text.

    Attributes:
        read: returns the values of all fields of an object.
        text: returns a struct to encode in place of an object; its fields accept any type.
    """

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


class _Heartbeats(msgspec.Struct, array_like=True):
    hosts: tuple[str, ...]
    seen_s: tuple[float, ...]
    # Earlier versions neither write nor read the counts.
    counts: dict[str, int] = {}


def encode_heartbeats(seen_s: Mapping[str, float], counts: Mapping[str, int]) -> str:
    """Return the JSON text of the times of heartbeats by host, and of a scheduler's counts."""
    return encode(_Heartbeats(tuple(seen_s), tuple(seen_s.values()), dict(counts)))


def decode_heartbeats(text: str) -> list[tuple[int, Mapping[str, float], Mapping[str, int]]]:
    """Return numbers, times by host, and counts in a JSON array of `[number, heartbeats]`.

    Raises:
        LedgerError: the text is damaged.
    """
    found = decode_json(list[tuple[int, _Heartbeats]], text)
    return [
        (number, dict(zip(one.hosts, one.seen_s, strict=True)), one.counts) for number, one in found
    ]


def decode_event(kind: str, body: str | bytes | msgspec.Raw) -> Event:
    """Decode an event of the feed.

    Unknown fields are ignored. An event of a kind that this version of Berth does not know is
    replaced by one that changes nothing, because every version must yield an event.

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
        raise LedgerError(
            f"cannot decode an event of kind {kind!r} in the change feed: {error}; {DAMAGED}"
        ) from error


def _is_of_unknown_kind(body: str | bytes | msgspec.Raw) -> bool:
    """Return whether the removed record is of a kind that this version of Berth does not know."""
    try:
        return _ANY_GONE.decode(body).kind not in RECORD_TYPES
    except msgspec.MsgspecError:
        return False


def decode_record(noun: type[R], body: str) -> R:
    """Decode a single record.

    Raises:
        LedgerError: the body is damaged.
    """
    decoder = cast("msgspec.json.Decoder[R]", _EVENTS[KINDS[cast("type[Record]", noun)]])
    return _decode(decoder, body)


def decode_changes(text: str) -> list[Change]:
    """Decode an array of changes, each `[version, seq, kind, body]`, and return them in order.

    Raises:
        LedgerError: the text or a body is damaged.
    """
    rows = _decode(_CHANGES, text)
    rows.sort(key=itemgetter(0, 1))
    return changes_of(rows)


def changes_of(rows: Iterable[Sequence[Any]]) -> list[Change]:
    """Return changes from rows of `(version, seq, kind, body)`, in the given order.

    Raises:
        LedgerError: a body is damaged.
    """
    return [Change(version, decode_event(kind, body)) for version, _, kind, body in rows]


def decode_records(noun: type[R], text: str) -> list[R]:
    """Decode an array of records of one type.

    Services are encoded as `[body, last_seen_s]` and providers as `[body, used, generation]`. The
    values after the body override those in it, except that the higher generation is used.

    Raises:
        LedgerError: the text is damaged.
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
    # The body has the generation as of the last write of the record, and `generation` is the one as
    # of the last claim, which does not write the record.
    return replace(provider, used=used, generation=max(provider.generation, generation))


def decode_json(noun: type[T], text: str) -> T:
    """Decode JSON text as a value of the given type.

    Raises:
        LedgerError: the text is damaged.
    """
    decoder = _DECODERS.get(noun)
    if decoder is None:
        decoder = _DECODERS[noun] = msgspec.json.Decoder(noun)
    value: T = _decode(decoder, text)
    return value


def _decode(decoder: msgspec.json.Decoder[T], text: str) -> T:
    try:
        return decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise LedgerError(f"cannot decode a value in the ledger: {error}; {DAMAGED}") from error
