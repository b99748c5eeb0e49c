"""Tests for readings, which store values of weighers that read no request."""

from dataclasses import replace

import numpy as np
import pytest

from berth.domain.inventory.resources import MEMORY_MB
from berth.scheduling.engine.readings import Readings
from berth.scheduling.rules.rule import Normalisation, Query, Reads, Weigher
from berth.scheduling.weighers import build_failures, free_resources, host_load
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of

RAM = free_resources.build_ram()
COUNT = host_load.build_num_instances(multiplier=1.0)
FAILURES = build_failures.build()


def query() -> Query:
    """Return an arbitrary query, which none of these weighers reads."""
    request = asking()
    return Query(request, request.needs, NOW_S, None, request.instance_uuids[0])


def table(*names: str) -> HostTable:
    """Return a table of equal hosts."""
    return table_of(snapshot_of([Box(name) for name in names]))


def readings_of(hosts: HostTable, *weighers: Weigher) -> Readings:
    """Return up-to-date readings of the table."""
    found = Readings(hosts, weighers, Normalisation.NOVA)
    found.catch_up(query())
    return found


def test_values_are_those_of_the_weigher_after_every_change() -> None:
    """The stored values equal those of the weigher after every change."""
    hosts = table("a", "b", "c", "d", "e")
    readings = readings_of(hosts, RAM)
    hosts.hold(3, {MEMORY_MB: 100})
    readings.catch_up(query())
    line = readings.line(RAM)
    assert line is not None
    asked = RAM.raw(hosts, query(), hosts.all_rows)
    assert asked is not None
    assert readings.values[line].tolist() == asked.tolist()
    assert len(set(asked.tolist())) == 2


def test_a_weigher_is_idle_until_one_host_differs() -> None:
    """A weigher gets a line, for good, once one host has another value, and the epoch rises."""
    hosts = table("a", "b", "c", "d", "e")
    readings = readings_of(hosts, RAM, COUNT)
    before = readings.epoch
    assert readings.line(COUNT) is None
    assert readings.idle_value(COUNT) == 0.0
    for held in (100, 200):
        hosts.hold(0, {MEMORY_MB: held})
        readings.catch_up(query())
        assert readings.epoch == before
    host = hosts.host(1)
    request = asking()
    resident = Query(request, request.needs, NOW_S, None, "i-1").resident_with(None)
    hosts.put_instance(host.uuid, resident)
    readings.catch_up(query())
    assert readings.epoch == before + 1
    line = readings.line(COUNT)
    assert line is not None
    assert readings.values[line, 1] != readings.values[line, 0]
    hosts.remove_instance("i-1")
    readings.catch_up(query())
    readings.reset()
    readings.catch_up(query())
    assert readings.line(COUNT) is not None
    assert readings.epoch == before + 1


def test_a_weigher_wakes_up_when_the_value_of_all_hosts_changes() -> None:
    """A weigher gets a line when the value of all hosts changes, as the idle value must not."""
    hosts = table("a", "b")
    readings = readings_of(hosts, COUNT)
    before = readings.epoch
    assert readings.idle_value(COUNT) == 0.0
    for row in range(2):
        resident = query().resident_with(None)
        hosts.put_instance(hosts.host(row).uuid, replace(resident, uuid=f"i-{row}"))
    readings.catch_up(query())
    assert readings.idle_value(COUNT) is None
    assert readings.epoch == before + 1
    assert readings.values[0].tolist() == [1.0, 1.0]


def test_fixed_ends_and_shares_keep_a_weigher_awake() -> None:
    """A weigher has a line from the start if equal values add to the score."""
    hosts = table("a", "b")
    assert readings_of(hosts, RAM).line(RAM) == 0
    by_share = Readings(hosts, [FAILURES], Normalisation.SHARE)
    by_share.catch_up(query())
    assert by_share.line(FAILURES) == 0
    assert readings_of(hosts, FAILURES).line(FAILURES) is None


def test_a_weigher_that_reads_the_request_or_is_off_has_no_line() -> None:
    """A weigher that reads the request or has a multiplier of 0 has no line."""
    hosts = table("a", "b")
    of_request = Weigher("Mine", RAM.raw, Reads(("project_id",), ("used",)), floor=0.0)
    off = free_resources.build_ram(multiplier=0.0)
    readings = readings_of(hosts, of_request, off)
    assert readings.values.shape == (0, 2)
    assert readings.line(of_request) is readings.line(off) is None


def test_a_weigher_that_fails_leaves_nothing_half_read() -> None:
    """After a failed reading the next call reads everything again."""
    hosts = table("a", "b", "c", "d", "e", "f", "g", "h", "i")
    fails = [False]

    def raw(table: HostTable, asked: Query, rows: object) -> np.ndarray | None:
        if fails[0]:
            raise RuntimeError("broken")
        return RAM.raw(table, asked, rows)  # type: ignore[arg-type]

    broken = Weigher("Broken", raw, Reads((), ("used",)), floor=0.0)
    readings = readings_of(hosts, broken)
    hosts.hold(2, {MEMORY_MB: 100})
    fails[0] = True
    with pytest.raises(RuntimeError):
        readings.catch_up(query())
    fails[0] = False
    readings.catch_up(query())
    expected = RAM.raw(hosts, query(), hosts.all_rows)
    assert expected is not None
    assert readings.values[0].tolist() == expected.tolist()
