"""Tests for NUMATopologyFilter: kept hosts, reasons and relaxations."""

from dataclasses import replace

import numpy as np
import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.resources import MEMORY_MB, PCPU, VCPU, Inventory
from berth.scheduling.filters import fits_numa
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask, Asked

ALIASES = ({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"},)
RULE = fits_numa.build(pci_aliases=ALIASES)
GPU = PciPool("10de", "1eb8", numa_node=1)
INVENTORIES = {
    VCPU: Inventory(8, allocation_ratio=2.0),
    PCPU: Inventory(16),
    MEMORY_MB: Inventory(8192),
}


def cell(number: int, *, shared: int = 2, pages: tuple[MemoryPages, ...] = ()) -> NumaCell:
    """Return a cell of four cores with two threads, 4 GB, and some shared CPUs."""
    first = number * 16
    cores = tuple(frozenset({first + core, first + core + 4}) for core in range(4))
    floating = frozenset(range(first + 8, first + 8 + shared))
    dedicated = frozenset(range(first, first + 8))
    return NumaCell(number, floating, dedicated, cores, 4096, pages)


def box(name: str, *cells: NumaCell, pools: tuple[PciPool, ...] = ()) -> Box:
    """Return a host with these cells."""
    return Box(name, inventories=INVENTORIES, numa_cells=cells, pci_pools=pools)


def holding(where: Box, *shares: CellShare, devices: tuple[DeviceShare, ...] = ()) -> Instance:
    """Return an instance with these shares of a host."""
    given = Assignment(numa=shares, devices=devices)
    return replace(resident(f"on-{where.name}", where), assignment=given)


def pinned(number: int, count: int, memory_mb: int = 0) -> CellShare:
    """Return the share of a guest with the first CPUs of a cell."""
    first = number * 16
    return CellShare(number, memory_mb, pinned=tuple((n, first + n) for n in range(count)))


BARE = box("bare")
ONE = box("one", cell(0))
TWO = box("two", cell(0), cell(1))
BUSY = box("busy", cell(0), cell(1), pools=(GPU,))
FLEET = snapshot_of(
    [BARE, ONE, TWO, BUSY], instances=[holding(BUSY, pinned(0, 7), pinned(1, 3, 4000))]
)


def asked(ask: Ask, specs: dict[str, str], *, vcpus: int = 4, memory_mb: int = 512) -> Asked:
    """Evaluate the fleet for a flavor."""
    return ask(FLEET, asking(Flavor("1", "f", vcpus, memory_mb), specs=specs))


DEDICATED = {"hw:cpu_policy": "dedicated"}


@pytest.mark.parametrize(
    ("specs", "vcpus", "memory_mb", "kept"),
    [
        ({}, 4, 512, None),
        (DEDICATED, 4, 96, ["one", "two", "busy"]),
        (DEDICATED, 6, 96, ["one", "two"]),
        (DEDICATED, 9, 96, []),
        (DEDICATED, 4, 97, ["one", "two"]),
        (DEDICATED | {"hw:numa_nodes": "2"}, 10, 512, ["two"]),
        (DEDICATED | {"hw:numa_nodes": "2"}, 2, 128, ["two", "busy"]),
        (DEDICATED | {"hw:cpu_thread_policy": "require"}, 4, 64, ["one", "two"]),
        (DEDICATED | {"hw:cpu_thread_policy": "isolate"}, 1, 64, []),
        (DEDICATED | {"hw:emulator_threads_policy": "isolate"}, 5, 64, ["one", "two"]),
        ({"hw:numa_nodes": "1"}, 2, 4096, ["one", "two", "busy"]),
        ({"hw:numa_nodes": "1"}, 3, 64, []),
        ({"hw:numa_nodes": "1", "hw:mem_page_size": "small"}, 1, 64, []),
    ],
)
def test_hosts_whose_cells_can_take_the_guest_stay(
    ask: Ask, specs: dict[str, str], vcpus: int, memory_mb: int, kept: list[str] | None
) -> None:
    """Hosts stay if their free cells can take the guest; hosts without cells do not."""
    assert asked(ask, specs, vcpus=vcpus, memory_mb=memory_mb).kept(RULE) == kept


def test_memory_is_overcommitted_by_the_hosts_ratio_only_for_floating_cpus(ask: Ask) -> None:
    """A host's memory ratio applies within a cell, and only to guests with floating CPUs."""
    inventories = {**INVENTORIES, MEMORY_MB: Inventory(8192, allocation_ratio=1.5)}
    where = replace(ONE, inventories=inventories)
    used = holding(where, CellShare(0, 4096, shared_cpus=2))
    fleet = snapshot_of([where], instances=[used])
    floating = {"hw:numa_nodes": "1"}
    for specs, memory_mb, kept in (
        (floating, 2048, ["one"]),
        (floating, 2049, []),
        (floating, 4097, []),
        (DEDICATED, 1, []),
    ):
        request = asking(Flavor("1", "f", 2, memory_mb), specs=specs)
        assert ask(fleet, request).kept(RULE) == kept
    crowded = asking(Flavor("1", "f", 2, 1), specs=floating)
    assert ask(fleet, crowded).kept(RULE) == ["one"]
    more = snapshot_of([where], instances=[holding(where, CellShare(0, 0, shared_cpus=3))])
    assert ask(more, crowded).kept(RULE) == []


def test_hosts_without_ratios_have_no_limit_but_their_size(ask: Ask) -> None:
    """A host without inventories is limited only by the size of its cells."""
    where = Box("plain", inventories={}, numa_cells=(cell(0),))
    used = holding(where, CellShare(0, 4096, shared_cpus=40))
    request = asking(Flavor("1", "f", 2, 4096), specs={"hw:numa_nodes": "1"})
    assert ask(snapshot_of([where], instances=[used]), request).kept(RULE) == ["plain"]


PAGES = (MemoryPages(4, 1024, 0), MemoryPages(2048, 100, 10))


@pytest.mark.parametrize(
    ("size", "memory_mb", "kept"),
    [
        ("small", 4, ["paged"]),
        ("small", 5, []),
        ("large", 178, ["paged"]),
        ("large", 180, []),
        ("large", 177, []),
        ("any", 4, ["paged"]),
        ("any", 178, ["paged"]),
        ("2MB", 178, ["paged"]),
        ("1GB", 1024, []),
    ],
)
def test_pages_of_the_size_that_is_asked_for(
    ask: Ask, size: str, memory_mb: int, kept: list[str]
) -> None:
    """A guest needs enough free pages of its size, and memory in whole pages."""
    where = box("paged", cell(0, pages=PAGES))
    used = holding(where, CellShare(0, 2, 2048))
    fleet = snapshot_of([where, ONE], instances=[used])
    specs = {"hw:mem_page_size": size}
    assert ask(fleet, asking(Flavor("1", "f", 1, memory_mb), specs=specs)).kept(RULE) == kept


def test_an_image_that_requires_threads_needs_a_host_with_threads(ask: Ask) -> None:
    """An image that requires threads removes hosts without threads."""
    plain = Box("plain", numa_cells=(NumaCell(0, pcpuset=frozenset(range(8)), memory_mb=4096),))
    specs = DEDICATED | {"hw:cpu_thread_policy": "prefer"}
    request = asking(Flavor("1", "f", 2, 64), specs=specs)
    image = Image("i", properties={"hw_cpu_thread_policy": "require"})
    fleet = snapshot_of([plain, ONE])
    assert ask(fleet, request).kept(RULE) == ["plain", "one"]
    both = ask(fleet, replace(request, image=image))
    assert both.kept(RULE) == ["one"]
    assert both.why(RULE, 0) == "none of its cores has several threads, which the image requires"


def test_devices_have_to_be_near(ask: Ask) -> None:
    """The cell of a guest must be near its devices and have room."""
    specs = DEDICATED | {"pci_passthrough:alias": "gpu:1"}
    assert asked(ask, specs, vcpus=1, memory_mb=64).kept(RULE) == ["busy"]
    assert asked(ask, specs, vcpus=1, memory_mb=97).kept(RULE) == []
    near = asked(ask, specs, vcpus=1, memory_mb=97)
    assert near.why(RULE, 3) == "no NUMA cells with room have the devices (gpu) near enough"
    assert ("with devices anywhere on the host: 1 host", ("busy",)) in near.relaxed(RULE, [3])


def test_an_alias_that_the_policy_has_not_is_refused(ask: Ask) -> None:
    """An alias that the policy does not define is refused."""
    specs = DEDICATED | {"pci_passthrough:alias": "fpga:1"}
    with pytest.raises(InvalidInputError, match="fpga"):
        asked(ask, specs).kept(RULE)


@pytest.mark.parametrize(
    ("specs", "vcpus", "memory_mb", "row", "why"),
    [
        (DEDICATED, 4, 64, 0, "it reports no NUMA cells"),
        (DEDICATED | {"hw:numa_nodes": "2"}, 4, 64, 1, "2 NUMA cells requested, but it has 1"),
        (DEDICATED, 8, 64, 3, "needs 3 more free dedicated CPUs on one NUMA cell"),
        (DEDICATED, 9, 64, 1, "needs 1 more free dedicated CPU on one NUMA cell"),
        (DEDICATED, 4, 5000, 1, "needs 904 MB more free memory on one NUMA cell"),
        (
            DEDICATED,
            8,
            5000,
            3,
            "needs 904 MB more free memory and 7 more free dedicated CPUs on one NUMA cell",
        ),
        (
            DEDICATED | {"hw:numa_nodes": "2"},
            10,
            64,
            3,
            "its NUMA cells can take each of the 2 guest cells, but not all together",
        ),
        (
            DEDICATED | {"hw:numa_nodes": "2"},
            14,
            64,
            3,
            "guest cell 0 needs 2 more free dedicated CPUs on one NUMA cell",
        ),
        (
            DEDICATED | {"hw:cpu_thread_policy": "require"},
            4,
            64,
            3,
            "needs 4 free dedicated CPUs that share cores on one NUMA cell",
        ),
        (
            DEDICATED | {"hw:cpu_thread_policy": "isolate"},
            2,
            64,
            1,
            "needs 2 free cores with a single thread on one NUMA cell",
        ),
        ({"hw:numa_nodes": "1"}, 5, 64, 1, "needs 3 more shared CPUs on one NUMA cell"),
        (
            {"hw:numa_nodes": "1"},
            1,
            4100,
            1,
            "needs 4 MB more memory and room for 4 MB within the memory ratio 1 on one NUMA cell",
        ),
        ({"hw:mem_page_size": "large"}, 1, 64, 1, "needs large pages on one NUMA cell"),
        ({"hw:mem_page_size": "2MB"}, 1, 64, 1, "needs pages of 2,048 KiB on one NUMA cell"),
    ],
)
def test_it_says_what_a_host_lacks(
    ask: Ask, specs: dict[str, str], vcpus: int, memory_mb: int, row: int, why: str
) -> None:
    """The reason names what the cell with the smallest lack lacks."""
    assert asked(ask, specs, vcpus=vcpus, memory_mb=memory_mb).why(RULE, row) == why


@pytest.mark.parametrize(
    ("size", "memory_mb", "why"),
    [
        ("2MB", 200, "needs 22 MB more in free pages of 2,048 KiB on one NUMA cell"),
        ("large", 3, "needs memory in whole large pages on one NUMA cell"),
        ("small", 6, "needs 2 MB more in free small pages on one NUMA cell"),
        ("", 6, "needs 2 MB more memory on one NUMA cell"),
    ],
)
def test_it_says_what_pages_a_host_lacks(ask: Ask, size: str, memory_mb: int, why: str) -> None:
    """The reason counts only pages that are neither used nor reserved."""
    where = box("paged", cell(0, pages=PAGES))
    fleet = snapshot_of([where], instances=[holding(where, CellShare(0, 2, 2048))])
    specs = {"hw:mem_page_size": size} if size else {"hw:numa_nodes": "1"}
    request = asking(Flavor("1", "f", 1, memory_mb), specs=specs)
    assert ask(fleet, request).why(RULE, 0) == why


@pytest.mark.parametrize(
    ("specs", "vcpus", "memory_mb", "said"),
    [
        (DEDICATED, 9, 64, []),
        (
            DEDICATED | {"hw:cpu_thread_policy": "isolate"},
            2,
            64,
            [("without the thread policy isolate: 3 hosts", ("busy", "one", "two"))],
        ),
        (
            DEDICATED | {"hw:emulator_threads_policy": "isolate"},
            8,
            64,
            [("without isolated emulator threads: 2 hosts", ("one", "two"))],
        ),
        (
            DEDICATED | {"hw:mem_page_size": "1GB"},
            2,
            1024,
            [("without a page size: 2 hosts", ("one", "two"))],
        ),
    ],
)
def test_it_says_what_would_fit(
    ask: Ask,
    specs: dict[str, str],
    vcpus: int,
    memory_mb: int,
    said: list[tuple[str, tuple[str, ...]]],
) -> None:
    """Relaxations name one change each; the sizes of the flavor are reduced by the search."""
    found = asked(ask, specs, vcpus=vcpus, memory_mb=memory_mb).relaxed(RULE, [0, 1, 2, 3])
    assert found == said


def test_cells_are_assigned_with_devices(ask: Ask) -> None:
    """Cells and devices are assigned together, and devices also if no cell fits."""
    specs = DEDICATED | {"pci_passthrough:alias": "gpu:1"}
    one = asked(ask, specs, vcpus=1, memory_mb=64)
    assert RULE.assign is not None
    assert RULE.assign(one.hosts, one.query, 3) == Assignment(
        numa=(CellShare(1, 64, pinned=((0, 20),)),), devices=(DeviceShare(GPU.key, 1, "gpu"),)
    )
    floating = asked(ask, {})
    assert RULE.assign(floating.hosts, floating.query, 3) is None
    hopeless = asked(ask, specs, vcpus=9)
    assert RULE.assign(hopeless.hosts, hopeless.query, 3) == Assignment(
        devices=(DeviceShare(GPU.key, 1, "gpu"),)
    )


def test_it_holds_for_forced_hosts(ask: Ask) -> None:
    """The filter applies to forced hosts, and no rows give no verdicts."""
    assert RULE.on_forced
    one = asked(ask, DEDICATED)
    none = RULE.keep(one.hosts, one.query, np.array([], dtype=np.intp))
    assert none is not None
    assert none.size == 0
