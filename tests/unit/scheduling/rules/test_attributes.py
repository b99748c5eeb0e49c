"""Tests for the host attributes that flavors name."""

import pytest

from berth.domain.inventory.resources import Inventory
from berth.scheduling.rules.attributes import ROW_ATTRIBUTES, canonical_architecture, profile_value
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import Box, resident, snapshot_of

BOX = Box(
    "a",
    inventories={
        "VCPU": Inventory(8, reserved=1, allocation_ratio=16.0),
        "MEMORY_MB": Inventory(4096, reserved=512, allocation_ratio=1.5),
        "DISK_GB": Inventory(100, reserved=10),
    },
    used={"VCPU": 4, "MEMORY_MB": 1024, "DISK_GB": 20},
    cpu_info={"arch": "x86_64", "topology": {"cores": 4}},
    stats={"rack": "r1", "hypervisor_type": "hidden"},
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vcpus_total", 8),
        ("vcpus_used", 5),
        ("total_usable_ram_mb", 4096),
        ("free_ram_mb", 2560),
        ("total_usable_disk_gb", 100),
        ("disk_mb_used", 30 * 1024),
        ("free_disk_mb", 70 * 1024),
        ("cpu_allocation_ratio", 16.0),
        ("ram_allocation_ratio", 1.5),
        ("disk_allocation_ratio", 1.0),
        ("num_instances", 1),
        ("num_io_ops", 0),
    ],
)
def test_numbers_are_those_of_nova(name: str, value: float) -> None:
    """The numbers are those of Nova: reserved counts as used, and free is physical."""
    hosts = table_of(snapshot_of([BOX], instances=[resident("i", BOX)]))
    assert ROW_ATTRIBUTES[name](hosts).tolist() == [value]


@pytest.mark.parametrize("name", ROW_ATTRIBUTES)
def test_a_table_without_hosts_or_classes_has_zeros(name: str) -> None:
    """Attributes of an empty table are empty, and those of a host without inventories are 0."""
    assert ROW_ATTRIBUTES[name](HostTable()).tolist() == []
    bare = table_of(snapshot_of([Box("bare", inventories={})]))
    assert ROW_ATTRIBUTES[name](bare).tolist() == [0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hypervisor_type", "QEMU"),
        ("hypervisor_version", 6_002_000),
        ("cpu_info:arch", "x86_64"),
        ("cpu_info:topology:cores", 4),
        ("cpu_info:topology:cores:deeper", None),
        ("cpu_info:nothing", None),
        ("supported_instances", [["x86_64", "kvm", "hvm"]]),
        ("supported_instances:x", None),
        ("stats:rack", "r1"),
        ("rack", "r1"),
        ("rack:x", None),
        ("nothing", None),
        ("", None),
    ],
)
def test_paths_open_texts_and_mappings(path: str, value: object) -> None:
    """Paths lead into nested values; an attribute hides a stat of the same name."""
    hosts = table_of(snapshot_of([BOX]))
    profile = hosts.profiles.all[int(hosts.profile[0])]
    assert profile is not None
    assert profile_value(profile, path.split(":")) == value


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("amd64", "x86_64"),
        ("AMD64", "x86_64"),
        ("X86_64", "x86_64"),
        ("arm64", "aarch64"),
        ("", ""),
    ],
)
def test_aliases_have_one_name(name: str, canonical: str) -> None:
    """Architecture aliases have one canonical name, whatever their case."""
    assert canonical_architecture(name) == canonical
