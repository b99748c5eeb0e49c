"""Tests for extra specs and image properties for NUMA cells, CPUs, pages and devices."""

from collections.abc import Mapping

import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.guest_topology import (
    CpuPolicy,
    GuestCell,
    GuestTopology,
    PageSize,
    PageSizeClass,
    ThreadPolicy,
)
from berth.domain.hardware.hw_specs import check_values
from berth.domain.hardware.pci import DeviceNeed, NumaPolicy

NONE: frozenset[int] = frozenset()


def needs(
    specs: Mapping[str, str],
    properties: Mapping[str, str] | None = None,
    *,
    vcpus: int = 4,
    memory_mb: int = 4096,
) -> Needs:
    """Return what an instance of a flavor and an image needs."""
    image = None if properties is None else Image("i", properties=properties)
    flavor = Flavor("1", "f", vcpus, memory_mb, extra_specs=specs)
    return Request("r", ("u",), flavor, image=image).needs


def topology(
    specs: Mapping[str, str], properties: Mapping[str, str] | None = None, *, vcpus: int = 4
) -> GuestTopology:
    """Return the topology of the needs and assert that there is one."""
    found = needs(specs, properties, vcpus=vcpus).topology
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("specs", "properties"),
    [
        ({}, None),
        ({"hw:cpu_policy": "shared"}, None),
        ({"hw:cpu_sockets": "2"}, {"hw_architecture": "x86_64"}),
        ({"hw:numa_cpus.0": "0-3"}, None),
        ({"hw:pci_numa_affinity_policy": "required"}, None),
        ({"resources:VCPU": "2"}, None),
    ],
)
def test_most_requests_have_no_topology(
    specs: dict[str, str], properties: dict[str, str] | None
) -> None:
    """Needs without dedicated CPUs, cells or page sizes have no topology."""
    assert needs(specs, properties).topology is None


def test_dedicated_cpus() -> None:
    """Dedicated CPUs form one cell by default and are requested as PCPU instead of VCPU."""
    found = needs({"hw:cpu_policy": "dedicated"})
    cell = GuestCell(NONE, frozenset(range(4)), 4096)
    assert found.topology == GuestTopology((cell,), CpuPolicy.DEDICATED)
    assert found.amounts == {"MEMORY_MB": 4096, "PCPU": 4}


def test_mixed_cpus_and_an_isolated_emulator() -> None:
    """A mixed guest requests VCPU and PCPU; an isolated emulator adds one PCPU."""
    specs = {
        "hw:cpu_policy": "mixed",
        "hw:cpu_dedicated_mask": "^0-1",
        "hw:emulator_threads_policy": "isolate",
    }
    found = needs(specs)
    assert found.amounts == {"MEMORY_MB": 4096, "PCPU": 3, "VCPU": 2}
    assert found.topology is not None
    assert found.topology.isolates_emulator
    assert found.topology.cells == (GuestCell(frozenset({0, 1}), frozenset({2, 3}), 4096),)


def test_realtime_cpus_are_the_dedicated_ones_of_a_mixed_guest() -> None:
    """The realtime CPUs of a mixed guest are dedicated; the image's mask overrides the flavor's."""
    specs = {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
    assert topology(specs).cells[0].dedicated_cpus == {1, 2, 3}
    image = {"hw_cpu_realtime_mask": "3"}
    assert topology(specs, image).cells[0].dedicated_cpus == {3}
    everything = {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "true"}
    shared_emulator = everything | {"hw:emulator_threads_policy": "share"}
    assert len(topology(shared_emulator).cells[0].dedicated_cpus) == 4


@pytest.mark.parametrize("suffix", ["", "1"])
def test_amounts_of_pcpu_stand_for_the_policy(suffix: str) -> None:
    """PCPU amounts, with or without a suffix, imply the dedicated policy and replace VCPU."""
    found = needs({f"resources{suffix}:PCPU": "4"})
    assert found.topology is not None
    assert found.topology.cpu_policy is CpuPolicy.DEDICATED
    groups = sum(group.amounts.get("PCPU", 0) for group in found.groups)
    assert found.amounts.get("PCPU", 0) + groups == 4
    assert "VCPU" not in found.amounts
    isolated = {"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"}
    assert needs(isolated).amounts["PCPU"] == 5


@pytest.mark.parametrize(
    ("policy", "required", "forbidden"),
    [
        ("require", {"HW_CPU_HYPERTHREADING"}, set()),
        ("isolate", set(), {"HW_CPU_HYPERTHREADING"}),
        ("prefer", set(), set()),
    ],
)
def test_thread_policies_ask_for_a_trait(
    policy: str, required: set[str], forbidden: set[str]
) -> None:
    """The policies `require` and `isolate` require and forbid the hyperthreading trait."""
    found = needs({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": policy})
    assert found.traits_required == required
    assert found.traits_forbidden == forbidden


@pytest.mark.parametrize(("value", "policy"), [("required", "require"), ("forbidden", "isolate")])
def test_the_trait_stands_for_a_thread_policy(value: str, policy: str) -> None:
    """A hyperthreading trait implies the thread policy for dedicated CPUs."""
    specs = {"resources:PCPU": "4", "trait:HW_CPU_HYPERTHREADING": value}
    assert topology(specs).thread_policy == policy


def test_the_image_may_require_threads_where_the_flavor_prefers_them() -> None:
    """A flavor's `prefer` stays the policy, and an image's `require` still demands threads."""
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}
    found = topology(specs, {"hw_cpu_thread_policy": "require"})
    assert (found.thread_policy, found.wants_threads) == (ThreadPolicy.PREFER, True)
    assert not topology(specs).wants_threads


def test_cells_of_equal_size() -> None:
    """CPUs and memory are divided among the cells in order; each cell has a dedicated CPU."""
    specs = {"hw:numa_nodes": "2", "hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0,2"}
    assert topology(specs).cells == (
        GuestCell(frozenset({1}), frozenset({0}), 2048),
        GuestCell(frozenset({3}), frozenset({2}), 2048),
    )


def test_cells_that_are_named_one_by_one() -> None:
    """Named cells get their own CPUs and memory; keys after a gap in the numbering are ignored."""
    specs = {
        "hw:numa_nodes": "2",
        "hw:numa_cpus.0": "0-2",
        "hw:numa_mem.0": "4000",
        "hw:numa_cpus.1": "3",
        "hw:numa_mem.1": "96",
        "hw:numa_cpus.7": "99",
    }
    assert topology(specs).cells == (
        GuestCell(frozenset({0, 1, 2}), NONE, 4000),
        GuestCell(frozenset({3}), NONE, 96),
    )
    of_image = {f"hw_{key[3:]}": value for key, value in specs.items()}
    assert topology({}, of_image).cells == topology(specs).cells


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("small", PageSizeClass.SMALL),
        ("large", PageSizeClass.LARGE),
        ("any", PageSizeClass.ANY),
        ("4", 4),
        ("2048", 2048),
        ("2MB", 2048),
        ("1GB", 1048576),
        ("1GiB", 1048576),
        ("16Mbit", 2048),
        ("4096B", 4),
    ],
)
def test_page_sizes(text: str, size: PageSize) -> None:
    """A page size without a unit is in KiB, and a page size alone makes a topology."""
    assert topology({"hw:mem_page_size": text}).page_size == size


def test_an_image_may_choose_among_large_pages() -> None:
    """An image chooses a page size if the flavor says `large`."""
    found = topology({"hw:mem_page_size": "large"}, {"hw_mem_page_size": "2MB"})
    assert found.page_size == 2048


def test_persistent_memory_is_a_class_for_each_label() -> None:
    """Each persistent memory label becomes a resource class, and the guest has a topology."""
    found = needs({"hw:pmem": "4GB, 4GB,my-label"})
    assert found.topology is not None
    assert found.amounts["CUSTOM_PMEM_NAMESPACE_4GB"] == 2
    assert found.amounts["CUSTOM_PMEM_NAMESPACE_MY_LABEL"] == 1


def test_devices_and_how_near_they_have_to_be() -> None:
    """The image's affinity policy applies to all devices; `socket` requires a trait of the host."""
    specs = {"pci_passthrough:alias": "gpu:1"}
    assert needs(specs).devices == (DeviceNeed("gpu", 1),)
    found = needs(specs, {"hw_pci_numa_affinity_policy": "socket"})
    assert found.devices == (DeviceNeed("gpu", 1, NumaPolicy.SOCKET),)
    assert found.traits_required == {"COMPUTE_SOCKET_PCI_NUMA_AFFINITY"}


DEDICATED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed"}


@pytest.mark.parametrize(
    ("specs", "properties", "key"),
    [
        ({"hw:cpu_policy": "some"}, {}, "hw:cpu_policy"),
        ({}, {"hw_cpu_policy": "some"}, "hw_cpu_policy"),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        (MIXED | {"hw:cpu_dedicated_mask": "0"}, {"hw_cpu_policy": "dedicated"}, "hw_cpu_policy"),
        (MIXED, {}, "hw:cpu_dedicated_mask"),
        (MIXED | {"hw:cpu_dedicated_mask": "0-3"}, {}, "hw:cpu_dedicated_mask"),
        (MIXED | {"hw:cpu_dedicated_mask": "9"}, {}, "hw:cpu_dedicated_mask"),
        (MIXED | {"hw:cpu_dedicated_mask": "x"}, {}, "hw:cpu_dedicated_mask"),
        (DEDICATED | {"hw:cpu_dedicated_mask": "0"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_dedicated_mask": "0"}, {}, "hw:cpu_dedicated_mask"),
        ({"hw:cpu_thread_policy": "require"}, {}, "hw:cpu_thread_policy"),
        (DEDICATED | {"hw:cpu_thread_policy": "x"}, {}, "hw:cpu_thread_policy"),
        (
            DEDICATED | {"hw:cpu_thread_policy": "isolate"},
            {"hw_cpu_thread_policy": "require"},
            "hw_cpu_thread_policy",
        ),
        ({"trait:HW_CPU_HYPERTHREADING": "required"}, {}, "trait:HW_CPU_HYPERTHREADING"),
        (
            DEDICATED
            | {"trait:HW_CPU_HYPERTHREADING": "required", "hw:cpu_thread_policy": "require"},
            {},
            "trait:HW_CPU_HYPERTHREADING",
        ),
        ({"hw:emulator_threads_policy": "isolate"}, {}, "hw:emulator_threads_policy"),
        ({"hw:emulator_threads_policy": "x"}, {}, "hw:emulator_threads_policy"),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, {}, "hw:cpu_realtime"),
        (DEDICATED | {"hw:cpu_realtime": "yes"}, {}, "hw:cpu_realtime_mask"),
        (
            DEDICATED | {"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "9"},
            {},
            "hw:cpu_realtime_mask",
        ),
        (
            MIXED
            | {"hw:cpu_dedicated_mask": "0", "hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "^0"},
            {},
            "hw:cpu_dedicated_mask",
        ),
        (DEDICATED | {"resources:PCPU": "4"}, {}, "resources:VCPU, resources:PCPU"),
        ({"resources:PCPU": "3"}, {}, "resources:PCPU"),
        ({"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"}, {}, "resources:PCPU"),
        ({"resources:PCPU": "4", "resources:VCPU": "4"}, {}, "resources:VCPU"),
        ({"hw:numa_nodes": "0"}, {}, "hw:numa_nodes"),
        ({"hw:numa_nodes": "129"}, {}, "hw:numa_nodes"),
        ({"hw:numa_nodes": "3"}, {}, "hw:numa_nodes"),
        ({}, {"hw_numa_nodes": "3"}, "hw_numa_nodes"),
        (
            {},
            {"hw_numa_nodes": "1", "hw_numa_cpus.0": "0-4", "hw_numa_mem.0": "4096"},
            "hw_numa_cpus.0",
        ),
        (
            {},
            {"hw_numa_nodes": "1", "hw_numa_cpus.0": "0-3", "hw_numa_mem.0": "1"},
            "hw_numa_mem",
        ),
        ({}, {"hw_cpu_thread_policy": "isolate"}, "hw_cpu_thread_policy"),
        ({"hw:numa_nodes": "1"}, {"hw_numa_nodes": "1"}, "hw_numa_nodes"),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, {}, "hw:numa_mem"),
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "4096"},
            {},
            "hw:numa_cpus",
        ),
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-4", "hw:numa_mem.0": "4096"},
            {},
            "hw:numa_cpus.0",
        ),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1"}, {}, "hw:numa_mem"),
        (
            {
                "hw:numa_nodes": "2",
                "hw:numa_cpus.0": "0-2",
                "hw:numa_cpus.1": "2-3",
                "hw:numa_mem.0": "0",
                "hw:numa_mem.1": "4096",
            },
            {},
            "hw:numa_cpus.1",
        ),
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4096"},
            {"hw_numa_cpus.0": "0-3"},
            "hw_numa_cpus",
        ),
        ({"hw:mem_page_size": "huge"}, {}, "hw:mem_page_size"),
        ({"hw:mem_page_size": "0"}, {}, "hw:mem_page_size"),
        ({"hw:mem_page_size": "1000B"}, {}, "hw:mem_page_size"),
        ({}, {"hw_mem_page_size": "2048"}, "hw_mem_page_size"),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "4"}, "hw_mem_page_size"),
        ({"hw:locked_memory": "true"}, {}, "hw:locked_memory"),
        ({}, {"hw_locked_memory": "true"}, "hw_locked_memory"),
        (
            {"hw:locked_memory": "true", "hw:mem_page_size": "4"},
            {"hw_locked_memory": "false"},
            "hw_locked_memory",
        ),
        (
            {"hw:pci_numa_affinity_policy": "socket"},
            {"hw_pci_numa_affinity_policy": "legacy"},
            "hw_pci_numa_affinity_policy",
        ),
        ({"hw:pci_numa_affinity_policy": "near"}, {}, "hw:pci_numa_affinity_policy"),
    ],
)
def test_contradictions_are_refused_by_their_key(
    specs: dict[str, str], properties: dict[str, str], key: str
) -> None:
    """Invalid or contradictory values are refused under their key, as Nova's API does."""
    with pytest.raises(InvalidInputError) as caught:
        needs(specs, properties)
    assert caught.value.field == key


def test_a_guest_with_a_topology_has_a_bounded_number_of_cpus() -> None:
    """A guest with a topology has at most 4096 CPUs; other guests have no such limit."""
    with pytest.raises(InvalidInputError, match="vcpus: 4097"):
        needs({"hw:cpu_policy": "dedicated"}, vcpus=4097)
    assert needs({}, vcpus=2**40).topology is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hw:cpu_policy", "bogus"),
        ("hw:cpu_thread_policy", "none"),
        ("hw:pci_numa_affinity_policy", "near"),
        ("hw:numa_nodes", "0"),
        ("hw:mem_page_size", "huge"),
        ("hw:emulator_threads_policy", "float"),
    ],
)
def test_what_cannot_be_read_is_refused(key: str, value: str) -> None:
    """An unreadable value is refused under its key."""
    with pytest.raises(InvalidInputError, match=key):
        check_values({"colour": "red", key: value})


def test_what_needs_another_is_not() -> None:
    """`check_values` does not require keys that belong together to be present together."""
    check_values({"hw:cpu_policy": "mixed", "hw:mem_page_size": "2MB", "hw:numa_nodes": "2"})
    check_values({"hw:cpu_thread_policy": "isolate", "hw:emulator_threads_policy": "share"})


def test_a_mask_of_a_huge_flavor_is_refused_for_its_size() -> None:
    """The number of CPUs is checked before the mask is expanded, which would take all memory."""
    specs = MIXED | {"hw:cpu_dedicated_mask": "^0"}
    with pytest.raises(InvalidInputError) as refused:
        needs(specs, vcpus=2**53 - 1)
    assert refused.value.field == "vcpus"
