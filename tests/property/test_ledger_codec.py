"""An encoded record can be decoded again or is refused; the batch encoder writes the same text."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.adapters.ledger.engine.codec import (
    BatchEncoder,
    decode_event,
    encode,
    encode_event,
    event_kind,
)
from berth.domain.compute.decision import Decision, Placement
from berth.domain.errors import BerthError, LedgerError
from berth.domain.ledger.record import Record
from berth.testing.strategies import decisions, placements, records


@given(st.lists(records(), max_size=5))
def test_the_batch_encoder_writes_what_encode_event_writes(batch: list[Record]) -> None:
    """A BatchEncoder writes the text of `encode_event`, whatever it encoded before."""
    scribe = BatchEncoder()
    for record in batch * 2:
        assert scribe.encode_event(record) == encode_event(record)


@given(decisions(), st.lists(placements(), min_size=1, max_size=3))
def test_decisions_that_share_hosts_are_written_whole(
    decision: Decision, all_placements: list[Placement]
) -> None:
    """Decisions that swap chosen hosts and runners-up are encoded in full and decode equal."""
    hosts = tuple(host for one in all_placements for host in (one.chosen, *one.runners_up))
    scribe = BatchEncoder()
    for chosen in hosts:
        changed = tuple(replace(one, chosen=chosen, runners_up=hosts) for one in all_placements)
        again = replace(decision, placements=changed)
        text = scribe.encode_event(again)
        assert text == encode_event(again)
        assert decode_event("decision", text) == again


_placed = st.builds(
    replace, decisions(), placements=st.lists(placements(), min_size=1, max_size=2).map(tuple)
)


@pytest.mark.parametrize("drawn", [records(), _placed], ids=["any record", "a decision"])
@given(st.data(), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_number_that_json_cannot_hold_is_refused_wherever_it_stands(
    drawn: st.SearchStrategy[Record], data: st.DataObject, bad: float
) -> None:
    """Encoding nan or inf raises LedgerError, unless the field can be decoded from null."""
    record = data.draw(drawn)
    places = list(_floats(record))
    assume(places)
    damaged: Any = None
    with suppress(BerthError, ValueError, OverflowError):  # some records check their numbers
        damaged = _with(record, data.draw(st.sampled_from(places)), bad)
    assume(damaged is not None)
    for write in (encode_event, BatchEncoder().encode_event):
        if _can_be_read(damaged):
            assert write(damaged) == encode(damaged)
        else:
            with pytest.raises(LedgerError, match=f"a {type(record).__name__} cannot be stored"):
                write(damaged)


Items = tuple[object, ...]

Path = tuple[Any, ...]
"""Names of fields, indices and keys on the way to a value."""


def _can_be_read(record: Record) -> bool:
    kind = event_kind(record)
    try:
        decode_event(kind, encode(record))
    except LedgerError:
        return False
    return True


def _floats(value: object) -> Iterator[Path]:
    """Yield the paths of all floats in a record."""
    if isinstance(value, float):
        yield ()
    for step, inner in _parts(value):
        for path in _floats(inner):
            yield (step, *path)


def _parts(value: object) -> list[tuple[Any, object]]:
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return list(cast("Mapping[object, object]", value).items())
    return list(enumerate(cast("Items", value))) if isinstance(value, tuple) else []


def _with(value: Any, path: Path, number: float) -> Any:  # noqa: ANN401 - part of a record
    """Return a copy of a value with another number at a path."""
    if not path:
        return number
    step, *rest = path
    parts = dict(_parts(value))
    changed = _with(parts[step], tuple(rest), number)
    if is_dataclass(value):
        return replace(value, **{step: changed})  # type: ignore[type-var] # an instance of one
    parts[step] = changed
    return tuple(parts.values()) if isinstance(value, tuple) else parts
