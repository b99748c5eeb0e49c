"""Records and events as JSON."""

from dataclasses import replace

import pytest

from berth.adapters.ledger.engine.codec import decode_event, decode_json, encode, encode_event
from berth.domain.compute.decision import Placement, ScoredHost
from berth.domain.errors import LedgerError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.change import HostsAlive, RecordRemoved, Usage
from berth.domain.ledger.record import Kind
from berth.testing.builders import make_decision, make_instance


def test_events_are_read_as_they_were_written() -> None:
    """Each event that is not a record is decoded to the same value."""
    for kind, event in (
        ("usage", Usage("p", {"VCPU": 1})),
        ("alive", HostsAlive(("h",), 1.5)),
        ("gone", RecordRemoved(Kind.HOST, "h")),
    ):
        assert decode_event(kind, encode_event(event)) == event


def test_what_json_cannot_hold_is_refused() -> None:
    """Lone surrogates, NaN and infinity are refused before they are stored."""
    with pytest.raises(LedgerError, match="str"):
        encode("\ud800")
    for seconds in (float("nan"), float("inf")):
        with pytest.raises(LedgerError, match="HostsAlive"):
            encode_event(HostsAlive(("h",), seconds))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_no_number_of_a_decision_is_lost(bad: float) -> None:
    """A NaN or infinite score is refused at any place: alone, first or last in a list."""
    scored = ScoredHost("h", "h", 1.0, ("W",), (1.0, 2.0), (1.0,), (1.0,))
    for damaged in (
        replace(scored, score=bad),
        replace(scored, raw=(bad, 1.0)),
        replace(scored, raw=(1.0, bad)),
    ):
        placement = Placement("vm", "h", "h", "p", 1, damaged)
        with pytest.raises(LedgerError, match="Decision"):
            encode_event(replace(make_decision(1), placements=(placement,)))


def test_what_only_looks_like_damage_is_stored() -> None:
    """A free mapping may have null values and keys that equal field names."""
    extra = {"created_at_s": None, "list": [None], "text": '"created_at_s":null'}
    instance = fast_replace(make_instance(1), extra=extra)
    assert decode_event("instance", encode_event(instance)) == instance


def test_a_damaged_body_is_an_error() -> None:
    """A damaged body raises a LedgerError."""
    with pytest.raises(LedgerError):
        decode_event("usage", "{}")
    with pytest.raises(LedgerError, match="gone"):
        decode_event("gone", '{"kind": 1}')
    with pytest.raises(LedgerError):
        decode_json(int, "[")


def test_events_that_only_a_newer_berth_knows_change_nothing() -> None:
    """An unknown event is decoded as one that changes nothing, so its version stays in the feed."""
    assert decode_event("comet", "{}") == HostsAlive((), 0.0)
    assert decode_event("gone", '{"kind": "comet", "key": "k"}') == HostsAlive((), 0.0)
