"""Tests for the number of instances that a host's providers can serve."""

from berth.domain.inventory.resources import Inventory
from berth.scheduling.granular.group_fit import COUNT_MAX, counts_of
from berth.scheduling.granular.tree_request import tree_request_of
from berth.tables.host.feed import table_of
from berth.testing.fleets import GPU_MILLI, Box, Child, asking, gpus, sized, snapshot_of


def counted(box: Box, specs: dict[str, str]) -> int:
    """Return how many small instances with these extra specs fit on a box."""
    hosts = table_of(snapshot_of([box]))
    (count,) = counts_of(hosts, tree_request_of(asking(specs=specs).needs), [0])
    return count


def test_every_instance_leaves_less() -> None:
    """The count takes devices, the root's amounts and isolation into account."""
    box = Box("a", children=gpus(1000, 700))
    share = {f"resources1:{GPU_MILLI}": "300"}
    assert counted(box, share) == 5
    assert counted(Box("a", inventories=sized(vcpus=3), children=box.children), share) == 3
    pair = {f"resources{n}:{GPU_MILLI}": "300" for n in (1, 2)} | {"group_policy": "isolate"}
    assert counted(box, pair) == 2
    assert counted(box, {f"resources1:{GPU_MILLI}": "1001"}) == 0


def test_what_is_asked_without_suffix_is_counted_over_the_tree() -> None:
    """Amounts without a suffix are counted over the tree."""
    box = Box("a", children=(Child("x", {"X": Inventory(2)}), Child("y", {"X": Inventory(1)})))
    assert counted(box, {"resources:X": "1"}) == 3


def test_counting_ends() -> None:
    """The count stops at COUNT_MAX."""
    box = Box("a", inventories=sized(10**9, 2**40, 2**40))
    assert counted(box, {"resources1:VCPU": "1"}) == COUNT_MAX
