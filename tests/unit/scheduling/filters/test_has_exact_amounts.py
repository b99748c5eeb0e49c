"""Tests for ExactCoreFilter, ExactRamFilter and ExactDiskFilter."""

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import Inventory
from berth.scheduling.filters import has_exact_amounts
from berth.scheduling.rules.rule import Filter
from berth.testing.fleets import Box, asking, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

CORE, RAM, DISK = (
    has_exact_amounts.build_core(),
    has_exact_amounts.build_ram(),
    has_exact_amounts.build_disk(),
)
FLEET = snapshot_of(
    [
        Box("metal", inventories=sized(8, 8192, 100)),
        Box("taken", inventories=sized(8, 8192, 100), used={"VCPU": 8, "MEMORY_MB": 9000}),
        Box("bare", inventories={}),
        Box(
            "part",
            inventories={
                "VCPU": Inventory(8, reserved=2, allocation_ratio=16.0),
                "MEMORY_MB": Inventory(8192, reserved=512, allocation_ratio=2.0),
                "DISK_GB": Inventory(100, reserved=1),
            },
            used={"VCPU": 1, "MEMORY_MB": 680, "DISK_GB": 9},
        ),
    ]
)


def flavor(vcpus: int = 0, memory_mb: int = 0, root_gb: int = 0, swap_mb: int = 0) -> Flavor:
    """Return a flavor of this size."""
    return Flavor("1", "f", vcpus, memory_mb, root_gb, swap_mb=swap_mb)


@pytest.mark.parametrize(
    ("rule", "wanted", "kept"),
    [
        (CORE, flavor(8), ["metal"]),
        (CORE, flavor(7), []),
        (CORE, flavor(5), ["part"]),
        (CORE, flavor(0), ["taken"]),
        (RAM, flavor(0, 8192), ["metal"]),
        (RAM, flavor(0, 7000), ["part"]),
        (RAM, flavor(), ["bare"]),
        (DISK, flavor(0, 0, 99, 1024), ["metal", "taken"]),
        (DISK, flavor(0, 0, 100, 1), []),
        (DISK, flavor(0, 0, 90), ["part"]),
    ],
)
def test_only_what_is_free_to_the_last_unit_passes(
    ask: Ask, rule: Filter, wanted: Flavor, kept: list[str]
) -> None:
    """A host passes only if the requested amount equals its free amount without the ratio."""
    assert ask(FLEET, asking(wanted)).kept(rule) == kept


def test_a_class_that_no_host_has_is_free_nowhere(ask: Ask) -> None:
    """Without an inventory a request of 0 passes for memory and disk, and not for CPUs."""
    asked = ask(snapshot_of([Box("a", inventories={})]), asking(flavor()))
    assert [asked.kept(rule) for rule in (CORE, RAM, DISK)] == [[], ["a"], ["a"]]


def test_the_reason_names_both_amounts(ask: Ask) -> None:
    """The reason names the requested and the free amount, or the missing class."""
    asked = ask(FLEET, asking(flavor(4, 512, 20, 512)))
    assert asked.why(CORE, 0) == "VCPU: exactly 4 requested, 8 free"
    assert asked.why(CORE, 2) == "it has no VCPU"
    assert asked.why(RAM, 1) == "MEMORY_MB: exactly 512 requested, 0 free (over by 808)"
    assert asked.why(DISK, 0) == "DISK_GB: exactly 20.50 requested, 100 free"


@pytest.mark.parametrize(
    ("rule", "wanted", "rows", "relaxed"),
    [
        (CORE, flavor(4), [0, 3], [("1 VCPU more: 1 host", ("part",))]),
        (CORE, flavor(4), [0, 2], [("4 VCPU more: 1 host", ("metal",))]),
        (CORE, flavor(9), [0, 1], [("1 VCPU less: 1 host", ("metal",))]),
        (CORE, flavor(4), [1, 0], [("4 VCPU more: 1 host", ("metal",))]),
        (CORE, flavor(4), [2], []),
        (RAM, flavor(0, 8000), [0, 1], [("192 MB more memory: 1 host", ("metal",))]),
        (RAM, flavor(0, 8000), [1], []),
        (DISK, flavor(0, 0, 99), [0, 1], [("1 GB more disk: 2 hosts", ("metal", "taken"))]),
        (DISK, flavor(0, 0, 1), [2], [("without disk: 1 host", ("bare",))]),
    ],
)
def test_the_nearest_amount_is_told(
    ask: Ask,
    rule: Filter,
    wanted: Flavor,
    rows: list[int],
    relaxed: list[tuple[str, tuple[str, ...]]],
) -> None:
    """The relaxation names the nearest free amount, and the smaller of two equally near ones."""
    assert ask(FLEET, asking(wanted)).relaxed(rule, rows) == relaxed


def test_consumption_changes_the_verdict() -> None:
    """The filters run for each instance of a request."""
    assert not any(rule.once_per_request for rule in (CORE, RAM, DISK))
