"""Tests for the attestations of rows."""

import numpy as np

from berth.domain.compute.host import Attestation
from berth.domain.ledger.change import RecordRemoved
from berth.domain.ledger.record import Kind
from berth.tables.host.attestations import Attestations
from berth.tables.host.feed import apply_event, table_of
from berth.testing.fleets import NOW_S, Box, snapshot_of

GOOD, BAD = Attestation("trusted", 100.0), Attestation("untrusted", 200.0)
ALL = np.arange(3)


def attested() -> Attestations:
    """Return three rows of one host, the last of which is not attested."""
    found = Attestations(3)
    for row, node in enumerate("abc"):
        found.put(row, node, {"a": GOOD, "b": BAD})
    return found


def test_a_level_counts_until_it_ends() -> None:
    """A level is valid up to and including its last second."""
    found = attested()
    assert found.has("trusted", ALL, 100.0).tolist() == [True, False, False]
    assert found.has("trusted", ALL, 100.1).tolist() == [False, False, False]
    assert found.has("untrusted", ALL, 150.0).tolist() == [False, True, False]
    assert found.has("never heard of", ALL, 0.0).tolist() == [False, False, False]
    assert found.is_valid(ALL, 150.0).tolist() == [False, True, False]
    assert found.until_s(np.array([1, 2])).tolist() == [200.0, -np.inf]


def test_a_row_that_is_cleared_is_not_attested() -> None:
    """A cleared row, a new row, and a row whose service lost its attestation are not attested."""
    found = attested()
    found.clear(0)
    found.put(1, "b", {})
    found.resize(5)
    assert not found.is_valid(np.arange(5), 0.0).any()
    found.put(0, "a", {"a": GOOD})
    assert found.has("trusted", ALL, 0.0).tolist() == [True, False, False]


def test_the_table_follows_services_and_hosts() -> None:
    """The table's attestations follow services and hosts that come and go in any order."""
    box = Box("a", node="n", attestation=Attestation("trusted", NOW_S + 60))
    hosts = table_of(snapshot_of([Box("b")]))
    apply_event(hosts, box.service)
    apply_event(hosts, box.host)
    here = np.array([1])
    assert hosts.attestations.has("trusted", here, NOW_S).tolist() == [True]
    before = hosts.journal.position("service")
    apply_event(hosts, Box("a", node="n").service)
    assert hosts.journal.since("service", before) == [1]
    assert hosts.attestations.has("trusted", here, NOW_S).tolist() == [False]
    apply_event(hosts, box.service)
    apply_event(hosts, RecordRemoved(Kind.SERVICE, "a"))
    assert hosts.attestations.has("trusted", here, NOW_S).tolist() == [False]
    apply_event(hosts, box.service)
    apply_event(hosts, RecordRemoved(Kind.HOST, box.host.uuid))
    assert hosts.attestations.has("trusted", here, NOW_S).tolist() == [False]
