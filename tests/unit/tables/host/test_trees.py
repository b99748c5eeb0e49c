"""Tests for child providers by slot, for events in any order."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import GPU_MILLI, Box, Child, child_uuid, gpus

BOX = Box("a", children=(*gpus(1000, 500), Child("part", {"X": Inventory(3)}, under="GPU 1")))
ROOT, GPU_0, GPU_1, PART = BOX.providers


def slot_of(hosts: HostTable, uuid: str) -> int | None:
    """Return the slot of a child provider, or None if it has none."""
    for row in range(len(hosts)):
        found = zip(hosts.trees.uuids_on(row), hosts.trees.on_row(row), strict=True)
        slot = dict(found).get(uuid)
        if slot is not None:
            return slot
    return None


@pytest.fixture
def hosts() -> HostTable:
    """Return a table with a childless host and a host with two GPUs and a part of the second."""
    hosts = HostTable()
    for box in (Box("plain"), BOX):
        hosts.put_host(box.host)
        for provider in box.providers:
            hosts.put_provider(provider)
    return hosts


def names(hosts: HostTable, row: int = 1) -> list[str]:
    """Return the names of the children of a row."""
    return [hosts.trees.provider(slot).name for slot in hosts.trees.on_row(row)]


def used(hosts: HostTable, provider: Provider) -> dict[str, int]:
    """Return the used amounts of a child."""
    slot = slot_of(hosts, provider.uuid)
    assert slot is not None
    return hosts.trees.used(slot)


def test_children_are_listed_with_what_they_have(hosts: HostTable) -> None:
    """All descendants of a host are listed in the order of their names."""
    assert names(hosts) == ["GPU 0", "GPU 1", "part"]
    assert names(hosts, row=0) == []
    assert len(hosts.trees) == 3
    columns = hosts.trees.resource(GPU_MILLI)
    assert columns is not None
    assert [columns.free[slot] for slot in hosts.trees.on_row(1)] == [1000, 500, 0]
    assert hosts.trees.resource("CUSTOM_NONE") is None
    assert hosts.trees.uuids_on(1) == (GPU_0.uuid, GPU_1.uuid, PART.uuid)


def test_a_child_may_come_before_its_parent_and_its_host() -> None:
    """A child gets a slot once its chain of parents leads to a host."""
    hosts = HostTable()
    for provider in (PART, GPU_1):
        hosts.put_provider(provider)
    hosts.put_used(PART.uuid, {"X": 2})
    assert not len(hosts.trees)
    hosts.put_host(BOX.host)
    assert names(hosts, row=0) == ["GPU 1", "part"]
    assert used(hosts, PART) == {"X": 2}


def test_children_wait_when_their_parent_goes(hosts: HostTable) -> None:
    """Children lose their slots with their parent and return with it and their holds."""
    hosts.trees.hold(PART.uuid, {"X": 1})
    hosts.remove_provider(GPU_1.uuid)
    assert names(hosts) == ["GPU 0"]
    hosts.trees.release_hold(PART.uuid, {"X": 1})
    hosts.trees.hold(PART.uuid, {"X": 3})
    hosts.trees.release_hold(PART.uuid, {"X": 1})
    hosts.put_provider(GPU_1)
    assert names(hosts) == ["GPU 0", "GPU 1", "part"]
    assert used(hosts, PART) == {"X": 2}


def test_children_wait_when_their_host_goes(hosts: HostTable) -> None:
    """Children lose their slots and their holds with their host."""
    hosts.trees.hold(GPU_0.uuid, {GPU_MILLI: 300})
    hosts.remove_host(BOX.host.uuid)
    assert not len(hosts.trees)
    hosts.trees.release_hold(GPU_0.uuid, {GPU_MILLI: 300})
    hosts.put_host(BOX.host)
    assert names(hosts) == ["GPU 0", "GPU 1", "part"]
    assert used(hosts, GPU_0) == {}
    assert used(hosts, GPU_1) == {GPU_MILLI: 500}


def test_a_child_may_move_to_another_parent(hosts: HostTable) -> None:
    """A child moves to another parent with its descendants."""
    plain = hosts.host(0).uuid
    hosts.put_provider(replace(GPU_1, parent_uuid=plain))
    assert names(hosts) == ["GPU 0"]
    assert names(hosts, row=0) == ["GPU 1", "part"]


def test_a_cycle_of_parents_has_no_slots(hosts: HostTable) -> None:
    """Providers in a cycle of parents have no slots until the cycle is broken."""
    hosts.put_provider(replace(GPU_1, parent_uuid=PART.uuid))
    assert names(hosts) == ["GPU 0"]
    hosts.remove_provider(PART.uuid)
    hosts.put_provider(GPU_1)
    hosts.put_provider(PART)
    assert names(hosts) == ["GPU 0", "GPU 1", "part"]


def test_a_child_may_turn_out_to_be_a_host(hosts: HostTable) -> None:
    """A child that becomes a host is a root with its own children."""
    box = Box("b", children=gpus(1000))
    root, gpu = box.providers
    hosts.put_provider(replace(root, parent_uuid=BOX.host.uuid))
    hosts.put_provider(gpu)
    assert names(hosts) == ["GPU 0", "GPU 0", "GPU 1", "b", "part"]
    row = hosts.put_host(box.host)
    assert names(hosts) == ["GPU 0", "GPU 1", "part"]
    assert names(hosts, row) == ["GPU 0"]
    assert hosts.used(row) == {}


def test_changes_of_children_are_recorded_for_their_hosts(hosts: HostTable) -> None:
    """Changes of a host's children are recorded as `used` or `traits`; others are not."""
    changes: Sequence[tuple[str, Callable[[], object]]] = (
        ("used", lambda: hosts.put_used(PART.uuid, {"X": 1})),
        ("used", lambda: hosts.trees.hold(GPU_0.uuid, {GPU_MILLI: 1})),
        ("used", lambda: hosts.trees.release_hold(GPU_0.uuid, {GPU_MILLI: 1})),
        ("traits", lambda: hosts.put_provider(replace(GPU_0, traits=frozenset({"CUSTOM_X"})))),
        ("used", lambda: hosts.remove_provider(GPU_0.uuid)),
        ("traits", lambda: hosts.put_provider(GPU_0)),
    )
    for group, change in changes:
        position = hosts.journal.position(group)
        change()
        assert hosts.journal.since(group, position) == [1]
    step = hosts.journal.step
    hosts.put_provider(Provider("stray", "stray", parent_uuid="nobody"))
    hosts.put_used("stray", {"X": 1})
    hosts.remove_provider("stray")
    hosts.remove_provider("stray")
    hosts.put_used("stray", {"X": 1})
    assert hosts.journal.step == step


def test_slots_are_used_again(hosts: HostTable) -> None:
    """A reused slot has nothing of the former child."""
    hosts.put_provider(replace(GPU_0, traits=frozenset({"CUSTOM_X"})))
    slot = slot_of(hosts, GPU_0.uuid)
    hosts.trees.hold(GPU_0.uuid, {GPU_MILLI: 1})
    hosts.remove_provider(GPU_0.uuid)
    new = replace(GPU_0, uuid="new", inventories={})
    hosts.put_provider(new)
    assert slot_of(hosts, "new") == slot
    assert used(hosts, new) == {}
    assert slot is not None
    assert hosts.trees.traits.get(slot) == frozenset()


def test_many_children_find_room() -> None:
    """The columns grow with the children."""
    hosts = HostTable()
    box = Box("big", children=gpus(*range(300)))
    hosts.put_host(box.host)
    for provider in box.providers:
        hosts.put_provider(provider)
    columns = hosts.trees.resource(GPU_MILLI)
    assert columns is not None
    slots = hosts.trees.branches(hosts.all_rows).slots
    assert sorted(columns.free[slots].tolist()) == list(range(300))


def test_branches_are_those_of_the_rows_asked_for(hosts: HostTable) -> None:
    """Branches are returned for any selection of rows, in any order and repeated."""
    for rows, owners in (
        (np.array([1, 0, 1]), [0, 0, 0, 2, 2, 2]),
        (np.array([0]), []),
        (np.array([], dtype=np.intp), []),
    ):
        found = hosts.trees.branches(rows)
        assert (found.owners.tolist(), found.rows) == (owners, rows.size)
        assert found.slots.tolist() == list(hosts.trees.on_row(1)) * (len(owners) // 3)
    everyone = hosts.trees.branches(hosts.all_rows)
    assert everyone.owners.tolist() == [1, 1, 1]
    assert everyone.rows == 2
    hosts.remove_provider(PART.uuid)
    assert hosts.trees.branches(hosts.all_rows).owners.tolist() == [1, 1]


def test_children_are_told_apart_by_uuid_when_they_have_one_name() -> None:
    """Children with the same name are ordered by uuid, whatever the order of events."""
    found: list[tuple[str, ...]] = []
    for order in ((0, 1), (1, 0)):
        hosts = HostTable()
        hosts.put_host(BOX.host)
        for number in order:
            uuid = child_uuid(ROOT.uuid, f"twin {number}")
            hosts.put_provider(Provider(uuid, "twin", parent_uuid=ROOT.uuid))
        found.append(hosts.trees.uuids_on(0))
    assert found[0] == found[1]
