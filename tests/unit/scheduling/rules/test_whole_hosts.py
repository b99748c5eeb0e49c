"""Whole hosts: a class is what the root and all children have of it."""

from dataclasses import replace

import numpy as np
import pytest

from berth.domain.compute.needs import Needs
from berth.domain.errors import NotFoundError
from berth.domain.inventory.resource_group import ResourceGroup
from berth.domain.inventory.resources import Inventory
from berth.scheduling.rules.whole_hosts import WholeHosts, asked_of
from berth.tables.host.feed import apply_event, table_of
from berth.testing.fleets import Box, sized, snapshot_of
from berth.testing.trees import GPU_MILLI, children_of, gpus

SNAPSHOT = snapshot_of(
    [
        Box("a", inventories=sized(), used={"VCPU": 2}, children=gpus(1000, 400)),
        Box("b", inventories={"VCPU": Inventory(8, reserved=4, allocation_ratio=2.0)}),
        Box("c", inventories={GPU_MILLI: Inventory(500)}, children=gpus(100)),
    ]
)


def test_children_add_to_the_root() -> None:
    """Whatever the order of the rows; a host without the class stands as if 1 of 1 were free."""
    hosts = table_of(SNAPSHOT)
    whole = WholeHosts(hosts, np.array([2, 0, 1])).of(GPU_MILLI)
    assert whole.free.tolist() == [600, 1400, 1]
    assert whole.capacity.tolist() == [1500, 2000, 1]
    assert whole.lacking is not None
    assert whole.lacking.tolist() == [False, False, True]
    everyone = WholeHosts(hosts, hosts.all_rows)
    assert everyone.of(GPU_MILLI).free.tolist() == [1400, 1, 600]
    assert everyone.free(GPU_MILLI).tolist() == [1400, 0, 600]


def test_hosts_come_one_by_one_too() -> None:
    """What is free, and the capacity; 0 is none of the class."""
    some = WholeHosts(table_of(SNAPSHOT), np.array([2, 1]))
    assert list(some.pairs(GPU_MILLI)) == [(600, 1500), (0, 0)]
    assert list(some.pairs("VCPU")) == [(0, 0), (8, 8)]


def test_what_children_have_left_is_followed() -> None:
    """Claims, children that come and go, and hosts that come later."""
    hosts = table_of(SNAPSHOT)
    assert WholeHosts(hosts, hosts.all_rows).free(GPU_MILLI).tolist() == [1400, 0, 600]
    slot = hosts.trees.on_row(0)[0]
    child = hosts.trees.provider(slot)
    hosts.trees.hold(child.uuid, {GPU_MILLI: 300})
    assert WholeHosts(hosts, np.array([0])).free(GPU_MILLI).tolist() == [1100]
    hosts.hold(2, {GPU_MILLI: 500})
    assert WholeHosts(hosts, hosts.all_rows).free(GPU_MILLI).tolist() == [1100, 0, 100]
    hosts.remove_provider(child.uuid)
    assert WholeHosts(hosts, np.array([0])).free(GPU_MILLI).tolist() == [400]
    apply_event(hosts, replace(Box("d").host, uuid="d-uuid"))
    for provider in children_of("d-uuid", gpus(700)):
        apply_event(hosts, provider)
    assert WholeHosts(hosts, hosts.all_rows).free(GPU_MILLI).tolist() == [400, 0, 100, 700]


def test_a_class_that_no_host_has_is_refused() -> None:
    """By its name."""
    hosts = table_of(SNAPSHOT)
    with pytest.raises(NotFoundError, match="CUSTOM_NONE"):
        WholeHosts(hosts, hosts.all_rows).of("CUSTOM_NONE")


def test_every_class_of_the_table_is_named_once() -> None:
    """Those that only children have come last."""
    assert WholeHosts(table_of(SNAPSHOT), np.array([0])).classes == (
        "VCPU",
        "MEMORY_MB",
        "DISK_GB",
        GPU_MILLI,
    )
    bare = table_of(snapshot_of([Box("a", inventories={"VCPU": Inventory(1)})]))
    assert WholeHosts(bare, bare.all_rows).classes == ("VCPU",)


def test_shares_are_of_the_capacity() -> None:
    """With ratio, without the reserve; a host without the class has all of it free."""
    hosts = table_of(SNAPSHOT)
    whole = WholeHosts(hosts, hosts.all_rows).of("VCPU")
    assert whole.free_share().tolist() == [0.75, 1.0, 1.0]
    assert whole.share(2).tolist() == [0.25, 0.25, 0.0]
    those = WholeHosts(hosts, np.array([1, 0])).of("VCPU")
    assert those.lacking is None
    assert those.share(4).tolist() == [0.5, 0.5]


def test_groups_ask_on_top_of_the_rest() -> None:
    """A class may be asked for by several groups and without suffix."""
    groups = (ResourceGroup("1", {"VCPU": 1, "CUSTOM_A": 2}), ResourceGroup("2", {"CUSTOM_A": 3}))
    assert asked_of(Needs({"VCPU": 4}, groups=groups)) == {"VCPU": 5, "CUSTOM_A": 5}
    assert asked_of(Needs({})) == {}
