"""Whole hosts: a class is what the root and all children have of it."""

import numpy as np

from berth.domain.flavor import Needs
from berth.domain.resource_group import ResourceGroup
from berth.domain.resources import Inventory
from berth.scheduling.whole_hosts import WholeHosts, asked_of
from berth.tables.following import table_of
from berth.testing.fleets import Box, sized, snapshot_of
from berth.testing.trees import GPU_MILLI, gpus

SNAPSHOT = snapshot_of(
    [
        Box("a", inventories=sized(), used={"VCPU": 2}, children=gpus(1000, 400)),
        Box("b", inventories={"VCPU": Inventory(8, reserved=4, allocation_ratio=2.0)}),
        Box("c", inventories={GPU_MILLI: Inventory(500)}, children=gpus(100)),
    ]
)


def test_children_add_to_the_root() -> None:
    """Whatever the order of the rows."""
    hosts = table_of(SNAPSHOT)
    whole = WholeHosts(hosts, np.array([2, 0, 1])).of(GPU_MILLI)
    assert whole.free.tolist() == [600, 1400, 0]
    assert whole.capacity.tolist() == [1500, 2000, 0]
    everyone = WholeHosts(hosts, hosts.everyone).of(GPU_MILLI)
    assert everyone.free.tolist() == [1400, 0, 600]


def test_every_class_of_the_table_is_named_once() -> None:
    """Those that only children have come last."""
    assert WholeHosts(table_of(SNAPSHOT), np.array([0])).classes == (
        "VCPU",
        "MEMORY_MB",
        "DISK_GB",
        GPU_MILLI,
    )
    bare = table_of(snapshot_of([Box("a", inventories={"VCPU": Inventory(1)})]))
    assert WholeHosts(bare, bare.everyone).classes == ("VCPU",)


def test_shares_are_of_the_capacity() -> None:
    """With ratio, without the reserve; a host without the class has all of it free."""
    hosts = table_of(SNAPSHOT)
    free, taken = WholeHosts(hosts, hosts.everyone).of("VCPU").shares(2)
    assert free.tolist() == [0.75, 1.0, 1.0]
    assert taken.tolist() == [0.25, 0.25, 0.0]


def test_groups_ask_on_top_of_the_rest() -> None:
    """A class may be asked for by several groups and without suffix."""
    groups = (ResourceGroup("1", {"VCPU": 1, "CUSTOM_A": 2}), ResourceGroup("2", {"CUSTOM_A": 3}))
    assert asked_of(Needs({"VCPU": 4}, groups=groups)) == {"VCPU": 5, "CUSTOM_A": 5}
    assert asked_of(Needs({})) == {}
