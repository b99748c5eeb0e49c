"""Tests for ComputeCapabilitiesFilter."""

import pytest

from berth.domain.inventory.resources import Inventory
from berth.scheduling.filters import has_capabilities
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = has_capabilities.build()
A = Box(
    "a",
    inventories={"VCPU": Inventory(8, reserved=2, allocation_ratio=16.0)},
    used={"VCPU": 1},
    cpu_info={
        "arch": "x86_64",
        "topology": {"cores": 4},
        "features": ["avx", "vmx"],
        "maxphysaddr": {"mode": "emulate", "bits": 46},
    },
    stats={"rack": "r1", "json": '{"deep": {"er": "5"}}', "broken": "{"},
)
B = Box("b", hypervisor_type="VMware", hypervisor_version=7_000_000, supported_instances=())
SNAPSHOT = snapshot_of([A, B], instances=[resident("i", A)])


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({}, None),
        ({"capabilities:hypervisor_type": "QEMU"}, ["a"]),
        ({"capabilities:hypervisor_version": ">= 7000000"}, ["b"]),
        ({"capabilities:cpu_info:arch": "x86_64"}, ["a"]),
        ({"capabilities:cpu_info:topology:cores": "= 2"}, ["a"]),
        ({"capabilities:cpu_info:topology:cores:x": "= 2"}, []),
        ({"capabilities:cpu_info:features": "<all-in> avx vmx"}, ["a"]),
        ({"capabilities:supported_instances": "<in> x86_64"}, ["a"]),
        ({"capabilities:rack": "r1"}, ["a"]),
        ({"capabilities:stats:rack": "r1"}, ["a"]),
        ({"capabilities:json:deep:er": "== 5"}, ["a"]),
        ({"capabilities:broken:x": "1"}, []),
        ({"capabilities:nothing": "1"}, []),
        ({"capabilities:vcpus_total": "8"}, ["a", "b"]),
        ({"capabilities:vcpus_used": "3"}, ["a"]),
        ({"capabilities:cpu_allocation_ratio": "16.0"}, ["a"]),
        ({"capabilities:num_instances": "1"}, ["a"]),
        ({"capabilities:num_io_ops": "0"}, ["a", "b"]),
        ({"capabilities:free_ram_mb": ">= 8192"}, ["b"]),
        ({"capabilities:free_disk_mb": "102400"}, ["b"]),
        ({"capabilities:disk_mb_used": "0"}, ["a", "b"]),
        ({"capabilities:num_instances:x": "1"}, []),
        ({"capabilities:host": "a"}, ["a"]),
        ({"capabilities:host_ip": ""}, ["a", "b"]),
        ({"capabilities:failed_builds": "<= 0"}, ["a", "b"]),
        ({"hw:maxphysaddr_bits": "40"}, ["a"]),
        ({"hw:maxphysaddr_bits": "48"}, []),
    ],
)
def test_scoped_specs_have_to_hold(ask: Ask, specs: dict[str, str], kept: list[str] | None) -> None:
    """Scoped specs must match attributes or stats of the host, including nested JSON."""
    assert ask(SNAPSHOT, asking(specs=specs)).kept(RULE) == kept


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({"rack": "r1"}, ["a", "b"]),
        ({"rack": "r2"}, ["b"]),
        ({"vcpus_total": "> 8"}, []),
        ({"hypervisor_type": "QEMU"}, ["a"]),
        ({"unheard_of": "r2"}, ["a", "b"]),
        ({"hw:cpu_policy": "dedicated", "trait:A": "required"}, None),
        ({"capabilities": "x"}, ["a", "b"]),
        ({"": "x"}, ["a", "b"]),
    ],
)
def test_unscoped_specs_count_where_there_is_such_a_thing(
    ask: Ask, specs: dict[str, str], kept: list[str] | None
) -> None:
    """Unscoped specs must match where the host has such an attribute; other scopes are ignored."""
    assert ask(SNAPSHOT, asking(specs=specs)).kept(RULE) == kept


def test_unmet_specs_are_named(ask: Ask) -> None:
    """The reason names unmet specs; a host with one unmet spec gives a relaxation."""
    specs = {"capabilities:hypervisor_type": "VMware", "capabilities:rack": "r1"}
    asked = ask(SNAPSHOT, asking(specs=specs))
    assert asked.why(RULE, 0) == "it does not meet capabilities:hypervisor_type=VMware"
    assert asked.relaxed(RULE, [0, 1]) == [
        ("without the extra spec capabilities:hypervisor_type: 1 host", ("a",)),
        ("without the extra spec capabilities:rack: 1 host", ("b",)),
    ]


@pytest.mark.parametrize(
    ("key", "requirement", "flaw"),
    [
        ("capabilities:vcpus_total", ">= many", "'many' is not a number"),
        ("capabilities:rack", "<in>", "<in> has no operand"),
        ("hw:maxphysaddr_bits", "many", "'many' is not a number"),
    ],
)
def test_bad_numbers_refuse_hosts_with_the_reason(
    ask: Ask, key: str, requirement: str, flaw: str
) -> None:
    """An invalid number removes all hosts, and the reason explains it.

    In Nova it fails the request.
    """
    asked = ask(SNAPSHOT, asking(specs={key: requirement}))
    assert asked.kept(RULE) == []
    assert asked.why(RULE, 0) == f"it does not meet {key}={requirement} ({flaw})"


def test_stats_of_removed_hosts_are_forgotten(ask: Ask) -> None:
    """A key that only removed hosts had in their stats is ignored."""
    asked = ask(SNAPSHOT, asking(specs={"rack": "r2"}))
    asked.hosts.remove_host("a/a")
    assert asked.kept(RULE) == ["b"]
