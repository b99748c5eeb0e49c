"""Tests for loading a host table from a snapshot and updating it by events."""

from dataclasses import replace
from typing import Any

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Status, Task
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.change import HostsAlive, RecordRemoved, Usage
from berth.domain.ledger.record import Kind
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.dumping import dump
from berth.testing.fleets import Box, resident, snapshot_of, zone

BOX = Box("a", used={"VCPU": 2}, traits=frozenset({"T"}))
FIELDS = {
    Kind.INSTANCE: "instances",
    Kind.AGGREGATE: "aggregates",
    Kind.SERVER_GROUP: "server_groups",
    Kind.SERVICE: "services",
    Kind.PROVIDER: "providers",
    Kind.HOST: "hosts",
}
GROUP = ServerGroup("g", "n", GroupPolicy.AFFINITY)


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of one host in an availability zone, with an instance in a group."""
    return table_of(
        snapshot_of(
            [BOX],
            aggregates=[zone("az1", "a")],
            groups=[GROUP],
            instances=[resident("i", BOX, group_uuid="g")],
        )
    )


def test_a_table_has_all_that_the_snapshot_says(hosts: HostTable) -> None:
    """The table has the hosts, usage, traits, services, zones and groups of the snapshot."""
    assert hosts.version == 1
    assert hosts.used(0) == {"VCPU": 2}
    assert hosts.traits.get(0) == {"T"}
    assert hosts.enabled[0]
    assert hosts.zones.get(0) == {"az1"}
    assert hosts.server_groups == {"g": GROUP}
    assert hosts.occupants.groups.rows("g") == {0: 1}


def test_usage_and_heartbeats_are_taken_as_told(hosts: HostTable) -> None:
    """Usage and heartbeats replace the former values."""
    apply_event(hosts, Usage("a/a", {"VCPU": 5, "MEMORY_MB": 64}))
    apply_event(hosts, Usage("a/a", {"VCPU": 5}))
    apply_event(hosts, HostsAlive(("a",), 99.0))
    assert hosts.used(0) == {"VCPU": 5}
    assert hosts.last_seen_s[0] == 99.0


@pytest.mark.parametrize(
    ("status", "task", "here", "building"),
    [
        (Status.BUILD, Task.SPAWNING, 1, 1),
        (Status.ACTIVE, None, 1, 0),
        (Status.ERROR, None, 1, 0),
        (Status.ACTIVE, Task.DELETING, 1, 0),
        (Status.DELETED, None, 0, 0),
    ],
)
def test_an_instance_is_on_its_host_until_it_is_deleted(
    hosts: HostTable, status: Status, task: Task | None, here: int, building: int
) -> None:
    """An instance counts on its host until it is deleted, and as I/O while it is being built."""
    apply_event(hosts, replace(resident("i", BOX), status=status, task=task))
    assert (hosts.num_instances[0], hosts.num_io_ops[0]) == (here, building)


def test_an_instance_without_a_host_is_nowhere(hosts: HostTable) -> None:
    """An instance without a host counts nowhere."""
    apply_event(hosts, replace(resident("i", BOX), host=None, node=None))
    assert hosts.num_instances[0] == 0


def test_an_instance_may_come_before_its_host(hosts: HostTable) -> None:
    """An instance that comes before its host counts once the host is added, if it still exists."""
    late = Box("late")
    for uuid in ("x", "y", "z"):
        apply_event(hosts, resident(uuid, late, group_uuid="g"))
    apply_event(hosts, RecordRemoved(Kind.INSTANCE, "y"))
    apply_event(hosts, replace(resident("z", late), status=Status.DELETED))
    apply_event(hosts, late.host)
    assert hosts.occupants.on_row(1) == {"x"}
    assert hosts.num_instances.tolist() == [1, 1]


@pytest.mark.parametrize(
    "gone",
    [
        RecordRemoved(Kind.INSTANCE, "i"),
        RecordRemoved(Kind.AGGREGATE, "1"),
        RecordRemoved(Kind.SERVER_GROUP, "g"),
        RecordRemoved(Kind.SERVICE, "a"),
        RecordRemoved(Kind.PROVIDER, "a/a"),
        RecordRemoved(Kind.HOST, "a/a"),
    ],
)
def test_what_is_gone_is_forgotten(hosts: HostTable, gone: RecordRemoved) -> None:
    """The table equals one that never had the removed record; a second removal changes nothing."""
    apply_event(hosts, gone)
    apply_event(hosts, gone)
    full = snapshot_of(
        [BOX],
        aggregates=[zone("az1", "a")],
        groups=[GROUP],
        instances=[resident("i", BOX, group_uuid="g")],
    )
    emptied: dict[str, Any] = {FIELDS[gone.kind]: ()}
    assert dump(hosts) == dump(table_of(replace(full, **emptied)))


def test_kinds_that_no_rule_reads_change_nothing(hosts: HostTable) -> None:
    """Records of kinds that no rule reads do not change the table."""
    before, step = dump(hosts), hosts.journal.step
    apply_event(hosts, Flavor("1", "f", 1, 1))
    apply_event(hosts, RecordRemoved(Kind.FLAVOR, "1"))
    assert (dump(hosts), hosts.journal.step) == (before, step)
