"""Tests for the amounts of a class summed over a host's root and children."""

from dataclasses import replace

import numpy as np

from berth.domain.compute.needs import Needs
from berth.domain.inventory.resource_group import ResourceGroup
from berth.domain.inventory.resources import Inventory
from berth.scheduling.rules.measure import BoundMeasure, constant
from berth.scheduling.rules.rule import Query
from berth.scheduling.rules.whole_hosts import asked_of, rebound, whole_hosts
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import (
    GPU_MILLI,
    NOW_S,
    Box,
    asking,
    children_of,
    gpus,
    sized,
    snapshot_of,
)

SNAPSHOT = snapshot_of(
    [
        Box("a", inventories=sized(), used={"VCPU": 2}, children=gpus(1000, 400)),
        Box("b", inventories={"VCPU": Inventory(8, reserved=4, allocation_ratio=2.0)}),
        Box("c", inventories={GPU_MILLI: Inventory(500)}, children=gpus(100)),
    ]
)


def free(hosts: HostTable, name: str, rows: Selection) -> list[float]:
    """Return the free amounts of a class on some rows."""
    capacity, used = whole_hosts(hosts)[name]
    left: list[float] = (capacity[rows] - used[rows]).tolist()
    return left


def test_children_add_to_the_root() -> None:
    """The capacity of a host includes its children; a host without the class has 0."""
    hosts = table_of(SNAPSHOT)
    rows = np.array([2, 0, 1])
    assert free(hosts, GPU_MILLI, rows) == [600, 1400, 0]
    assert whole_hosts(hosts)[GPU_MILLI].capacity[rows].tolist() == [1500, 2000, 0]
    assert free(hosts, GPU_MILLI, hosts.all_rows) == [1400, 0, 600]


def test_hosts_come_one_by_one_too() -> None:
    """Used amounts and capacities can be read for a single row."""
    found = whole_hosts(table_of(SNAPSHOT))
    gpus_of, cpus_of = found[GPU_MILLI], found["VCPU"]
    assert [(gpus_of.used.item(row), gpus_of.capacity.item(row)) for row in (2, 1)] == [
        (900, 1500),
        (0, 0),
    ]
    assert [cpus_of.capacity.item(row) for row in (2, 1)] == [0, 8]


def test_what_children_have_left_is_followed() -> None:
    """Free amounts follow claims and children and hosts that come and go."""
    hosts = table_of(SNAPSHOT)
    assert free(hosts, GPU_MILLI, hosts.all_rows) == [1400, 0, 600]
    slot = hosts.trees.on_row(0)[0]
    child = hosts.trees.provider(slot)
    hosts.trees.hold(child.uuid, {GPU_MILLI: 300})
    assert free(hosts, GPU_MILLI, np.array([0])) == [1100]
    hosts.hold(2, {GPU_MILLI: 500})
    assert free(hosts, GPU_MILLI, hosts.all_rows) == [1100, 0, 100]
    hosts.remove_provider(child.uuid)
    assert free(hosts, GPU_MILLI, np.array([0])) == [400]
    apply_event(hosts, replace(Box("d").host, uuid="d-uuid"))
    for provider in children_of("d-uuid", gpus(700)):
        apply_event(hosts, provider)
    assert free(hosts, GPU_MILLI, hosts.all_rows) == [400, 0, 100, 700]


def test_a_class_that_no_host_has_is_not_there() -> None:
    """A class that no provider has is not listed."""
    assert "CUSTOM_NONE" not in whole_hosts(table_of(SNAPSHOT))


def test_a_bound_measure_sees_a_class_that_a_child_gets_later() -> None:
    """A bound measure sees a class that a child gets later."""
    hosts = table_of(SNAPSHOT)
    query = Query(asking(), asking().needs, NOW_S, None, "new-0")

    def bind(hosts: HostTable, query: Query) -> BoundMeasure | None:
        del query
        return constant(len(whole_hosts(hosts)))

    measure = rebound(bind)(hosts, query)
    assert measure is not None
    before = measure.of_row()(0)
    child = hosts.trees.provider(hosts.trees.on_row(0)[0])
    form = hosts.structure
    apply_event(hosts, replace(child, inventories={**child.inventories, "VGPU": Inventory(1)}))
    assert hosts.structure == form
    assert measure.of_row()(0) == before + 1


def test_every_class_of_the_table_is_named_once() -> None:
    """Each class is listed once, with those of children only last."""
    assert tuple(whole_hosts(table_of(SNAPSHOT))) == ("VCPU", "MEMORY_MB", "DISK_GB", GPU_MILLI)
    bare = table_of(snapshot_of([Box("a", inventories={"VCPU": Inventory(1)})]))
    assert tuple(whole_hosts(bare)) == ("VCPU",)


def test_groups_ask_on_top_of_the_rest() -> None:
    """The requested amount of a class includes that of all groups."""
    groups = (ResourceGroup("1", {"VCPU": 1, "CUSTOM_A": 2}), ResourceGroup("2", {"CUSTOM_A": 3}))
    assert asked_of(Needs({"VCPU": 4}, groups=groups)) == {"VCPU": 5, "CUSTOM_A": 5}
    assert asked_of(Needs({})) == {}
