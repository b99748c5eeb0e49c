"""Tests for InstanceTypeFilter."""

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import Inventory
from berth.scheduling.filters import matches_instance_type
from berth.testing.fleets import Box, asking, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = matches_instance_type.build()
SNAPSHOT = snapshot_of(
    [
        Box("big", inventories=sized(8, 8192, 100), stats={"rack": "r1", "trait:X": "required"}),
        Box("used", inventories=sized(4, 8192, 100), used={"MEMORY_MB": 7169, "DISK_GB": 50}),
        Box(
            "ratio",
            inventories={
                "MEMORY_MB": Inventory(1000, allocation_ratio=4.0),
                "DISK_GB": Inventory(100),
            },
        ),
        Box("bare", inventories={}),
    ]
)


@pytest.mark.parametrize(
    ("memory_mb", "root_gb", "ephemeral_gb", "kept"),
    [
        (1023, 0, 0, ["big", "used"]),
        (1024, 0, 0, ["big"]),
        (1000, 0, 0, ["big", "used", "ratio"]),
        (1, 50, 0, ["big", "used", "ratio"]),
        (1, 50, 1, ["big", "ratio"]),
        (1, 60, 41, []),
        (0, 0, 0, ["big", "used", "ratio", "bare"]),
    ],
)
def test_memory_and_disk_have_to_be_free(
    ask: Ask, memory_mb: int, root_gb: int, ephemeral_gb: int, kept: list[str]
) -> None:
    """Memory and disk must be free without the allocation ratio."""
    flavor = Flavor("1", "f", 1, memory_mb, root_gb=root_gb, ephemeral_gb=ephemeral_gb)
    assert ask(SNAPSHOT, asking(flavor)).kept(RULE) == kept


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({"rack": "r1"}, ["big"]),
        ({"rack": "s== r1"}, []),
        ({"hypervisor_type": "QEMU"}, ["big", "used", "ratio", "bare"]),
        ({"hypervisor_type": "qemu"}, []),
        ({"vcpus_total": "4"}, ["used"]),
        ({"vcpus_total": ">= 4"}, []),
        ({"trait:X": "required"}, ["big"]),
        ({"nothing": ""}, []),
        ({"rack": "r1", "vcpus_total": "4"}, []),
    ],
)
def test_every_extra_spec_equals_a_capability(
    ask: Ask, specs: dict[str, str], kept: list[str]
) -> None:
    """Each extra spec must equal a capability of the host; operators are not interpreted."""
    flavor = Flavor("1", "f", 1, 0, extra_specs=specs)
    assert ask(SNAPSHOT, asking(flavor)).kept(RULE) == kept


def test_a_fleet_without_the_classes_has_room_for_nothing(ask: Ask) -> None:
    """A flavor without memory fits a host without inventories; others do not."""
    snapshot = snapshot_of([Box("bare", inventories={})])
    assert ask(snapshot, asking()).kept(RULE) == []
    assert ask(snapshot, asking(Flavor("1", "f", 1, 0))).kept(RULE) == ["bare"]


def test_the_reason_names_what_was_asked_and_what_is_free(ask: Ask) -> None:
    """The reason names all that is lacking; a host that lacks one thing gives a relaxation."""
    flavor = Flavor("1", "f", 1, 2048, root_gb=60, extra_specs={"rack": "r1"})
    asked = ask(SNAPSHOT, asking(flavor))
    assert asked.why(RULE, 1) == (
        "2,048 MB of memory; 60 GB of disk; the extra spec rack=r1 requested, "
        "1,023 MB and 50 GB free"
    )
    flavor = Flavor("1", "f", 1, 1500, extra_specs={"rack": "r1"})
    asked = ask(snapshot_of([Box("a"), Box("b", used={"MEMORY_MB": 8000})]), asking(flavor))
    assert asked.relaxed(RULE, [0, 1]) == [("without the extra spec rack: 1 host", ("a",))]


def test_the_sizes_are_reduced_to_what_is_free(ask: Ask) -> None:
    """A relaxation names the smallest reduction; nothing helps a host that is over-used."""
    over = Box("b", used={"MEMORY_MB": 20_000})
    fleet = snapshot_of([Box("a", used={"MEMORY_MB": 8000}), over])
    asked = ask(fleet, asking(Flavor("1", "f", 1, 9000)))
    assert asked.relaxed(RULE, [0, 1]) == [("8,808 MB less memory: 1 host", ("a",))]
    assert asked.relaxed(RULE, [1]) == []
