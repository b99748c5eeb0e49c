"""Tests for RAMWeigher, CPUWeigher and DiskWeigher."""

from collections.abc import Callable

import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX, Inventory
from berth.scheduling.rules.rule import Weigher
from berth.scheduling.weighers import free_resources
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

BUILDS = (free_resources.build_ram, free_resources.build_cpu, free_resources.build_disk)

SNAPSHOT = snapshot_of(
    [
        Box(
            "a",
            inventories={
                "VCPU": Inventory(8, reserved=1, allocation_ratio=1.5),
                "MEMORY_MB": Inventory(4096, reserved=512, allocation_ratio=2.0),
                "DISK_GB": Inventory(100, reserved=10, allocation_ratio=2.0),
            },
            used={"VCPU": 4, "MEMORY_MB": 1024, "DISK_GB": 20},
        ),
        Box("over", used={"VCPU": 20, "MEMORY_MB": 9000, "DISK_GB": 101}),
        Box("bare", inventories={}),
    ]
)


def test_memory_and_disk_are_physical(ask: Ask) -> None:
    """Memory and disk are free without their ratios and may be negative; disk is in MB."""
    asked = ask(SNAPSHOT, asking())
    assert asked.raw(free_resources.build_ram()) == [2560.0, -808.0, 0.0]
    assert asked.raw(free_resources.build_disk()) == [70 * 1024.0, -1024.0, 0.0]


def test_processors_count_their_ratio(ask: Ask) -> None:
    """Free CPUs are the total times the ratio, less reserved and used."""
    assert ask(SNAPSHOT, asking()).raw(free_resources.build_cpu()) == [7.0, -12.0, 0.0]


def test_shares_are_of_what_instances_may_use(ask: Ask) -> None:
    """Shares are of the usable amount, and 0 for overcommitted hosts and missing classes."""
    asked = ask(SNAPSHOT, asking())
    assert asked.shares(free_resources.build_ram()) == [2560 / 3584, 0.0, 0.0]
    assert asked.shares(free_resources.build_disk()) == [70 / 90, 0.0, 0.0]
    assert asked.shares(free_resources.build_cpu()) == [7 / 11, 0.0, 0.0]


def test_an_empty_host_shares_all_it_has(ask: Ask) -> None:
    """An empty host has a share of 1, and one that reserves everything a share of 0."""
    sizes = [Inventory(8), Inventory(5, reserved=2, allocation_ratio=0.7), Inventory(4, reserved=4)]
    boxes = [
        Box(str(n), inventories={"VCPU": one, "MEMORY_MB": one, "DISK_GB": one})
        for n, one in enumerate(sizes)
    ]
    asked = ask(snapshot_of(boxes), asking())
    for build in BUILDS:
        assert asked.shares(build()) == [1.0, 1.0, 0.0]


def test_processors_may_be_of_another_class(ask: Ask) -> None:
    """The class of CPUWeigher is an option whose name is checked."""
    inventories = {"CUSTOM_MILLI": Inventory(64_000)}
    snapshot = snapshot_of([Box("a", inventories=inventories)])
    asked = ask(snapshot, asking())
    assert asked.raw(free_resources.build_cpu(resource_class="CUSTOM_MILLI")) == [64_000.0]
    assert asked.shares(free_resources.build_cpu(resource_class="CUSTOM_MILLI")) == [1.0]
    with pytest.raises(InvalidInputError, match="resource_class"):
        free_resources.build_cpu(resource_class="milli")


def test_a_class_that_no_host_has_does_not_weigh(ask: Ask) -> None:
    """A class that no host has gives 0 for every host."""
    asked = ask(snapshot_of([Box("bare", inventories={})]), asking())
    for build in BUILDS:
        assert asked.raw(build()) == [0.0]
        assert asked.shares(build()) == [0.0]


def test_the_largest_disk_does_not_overflow(ask: Ask) -> None:
    """The largest disk does not overflow in MB."""
    inventories = {"DISK_GB": Inventory(AMOUNT_MAX)}
    snapshot = snapshot_of([Box("a", inventories=inventories, used={"DISK_GB": 2 * AMOUNT_MAX})])
    raw = ask(snapshot, asking()).raw(free_resources.build_disk())
    assert raw == [-float(AMOUNT_MAX) * 1024]


@pytest.mark.parametrize(
    ("build", "name", "key"),
    [
        (free_resources.build_ram, "RAMWeigher", "ram_weight_multiplier"),
        (free_resources.build_cpu, "CPUWeigher", "cpu_weight_multiplier"),
        (free_resources.build_disk, "DiskWeigher", "disk_weight_multiplier"),
    ],
)
def test_the_scale_begins_at_nothing(build: Callable[..., Weigher], name: str, key: str) -> None:
    """The floor is 0 and the ceiling is open, with Nova's names and multipliers."""
    weigher = build(multiplier=-2.5)
    assert (weigher.name, weigher.multiplier) == (name, -2.5)
    assert weigher.multiplier_key == key
    assert (weigher.floor, weigher.ceiling) == (0.0, None)
    assert build().multiplier == 1.0
