"""Tests for the validation of a host's NUMA cells and PCI pools."""

import pytest

from berth.domain.compute.host import Host
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.hardware.pci import PciPool


def host(*cells: NumaCell, pools: tuple[PciPool, ...] = ()) -> Host:
    """Return a host with these cells and pools."""
    return Host("u", "h", "h", numa_cells=cells, pci_pools=pools)


def test_cells_and_pools_of_a_host() -> None:
    """A host accepts several cells and pools; a cell may list a CPU as shared and dedicated."""
    both = frozenset({0, 1})
    made = host(
        NumaCell(0, both, both, (both,), 1024, (MemoryPages(4, 10, 2), MemoryPages(2048, 3)), 0),
        NumaCell(4, pcpuset=frozenset({2, 3})),
        pools=(PciPool("8086", "154c"), PciPool("8086", "154c", numa_node=0)),
    )
    assert [cell.cell_id for cell in made.numa_cells] == [0, 4]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ((NumaCell(0), NumaCell(0)), "duplicate cell_id"),
        (
            (NumaCell(0, frozenset({1})), NumaCell(1, pcpuset=frozenset({1}))),
            "CPU 1 is also in another",
        ),
        (
            tuple(NumaCell(number) for number in range(65)),
            "65 NUMA cells are too many; report at most 64",
        ),
    ],
)
def test_cells_that_could_not_be_on_one_host(cells: tuple[NumaCell, ...], said: str) -> None:
    """A host with duplicate cell ids, a CPU in two cells, or too many cells is refused."""
    with pytest.raises(InvalidInputError, match=said):
        host(*cells)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cell_id": -1}, "cell_id"),
        ({"memory_mb": -1}, "memory_mb"),
        ({"cpuset": frozenset({4096})}, "CPU 4096"),
        ({"siblings": (frozenset({0, 1}), frozenset({1}))}, "two sets of siblings"),
        ({"mempages": (MemoryPages(4, 1), MemoryPages(4, 2))}, "page size is listed twice"),
    ],
)
def test_a_cell_that_could_not_be(fields: dict[str, object], said: str) -> None:
    """A cell with values out of range, or with a repeated thread or page size, is refused."""
    with pytest.raises(InvalidInputError, match=said):
        NumaCell(**{"cell_id": 0, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size_kb", "total", "reserved", "reason"),
    [
        (0, 1, 0, "size_kb: 0 must be between 1 and"),
        (4, 1, 2, "mempages: reserved 2 must be between 0 and the total 1"),
        (4, -1, -1, "mempages: total -1 must be between 0 and"),
        (2**52, 2, 0, "mempages: total 2 must be between 0 and 1 pages of 4503599627370496 KiB"),
    ],
)
def test_pages_that_could_not_be(size_kb: int, total: int, reserved: int, reason: str) -> None:
    """An error about memory pages names the value that is out of range, and the range."""
    with pytest.raises(InvalidInputError, match=reason):
        MemoryPages(size_kb, total, reserved)


def test_two_pools_that_nothing_tells_apart_are_refused() -> None:
    """Pools of one host that differ only in their count are refused, as is a negative count."""
    alike = (PciPool("8086", "154c", count=1), PciPool("8086", "154c", count=2))
    with pytest.raises(InvalidInputError, match="listed twice"):
        host(pools=alike)
    with pytest.raises(InvalidInputError, match="count -1"):
        PciPool("8086", "154c", count=-1)


def test_a_share_takes_pinned_emulator_and_idle_cpus() -> None:
    """The taken CPUs of a share are its pinned, emulator and idle CPUs."""
    share = CellShare(
        0, 1, pinned=((0, 4), (1, 5)), emulator_cpus=frozenset({6}), idle_cpus=frozenset({7})
    )
    assert share.taken_cpus == {4, 5, 6, 7}
