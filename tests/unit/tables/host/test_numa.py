"""Tests for the free resources of NUMA cells by row, for events in any order."""

import numpy as np

from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.tables.host.numa import NumaCells, most_paired

THREADS = tuple(frozenset({core, core + 4}) for core in range(4))
PAGES = (MemoryPages(4, 1000, 100), MemoryPages(2048, 10))
CELL = NumaCell(0, frozenset({8, 9}), frozenset(range(8)), THREADS, 4096, PAGES, 1)
PLAIN = NumaCell(5, pcpuset=frozenset({16, 17}), memory_mb=100)


def share(
    *cpus: int, cell: int = 0, memory_mb: int = 0, page_size_kb: int | None = None
) -> CellShare:
    """Return a guest cell that uses these CPUs."""
    return CellShare(cell, memory_mb, page_size_kb, pinned=tuple(enumerate(cpus)))


def column(numa: NumaCells, row: int, name: str) -> list[int]:
    """Return a column of the cells of a row, in their order."""
    places = numa.places(np.array([row]))[0]
    values: list[int] = getattr(numa.columns, name)[places[places >= 0]].tolist()
    return values


def test_what_is_left_of_cells() -> None:
    """Free CPUs, cores and pages are the host's report less the guests' usage."""
    numa = NumaCells(2)
    numa.put(1, (CELL, PLAIN))
    numa.take(1, (share(0, 4, 1, memory_mb=2, page_size_kb=2048),))
    assert column(numa, 1, "free") == [5, 2]
    assert column(numa, 1, "usable") == [5, 2]
    assert column(numa, 1, "cores") == [3, 2]
    assert column(numa, 1, "whole_cores") == [2, 2]
    assert column(numa, 1, "paired") == [4, 0]
    assert column(numa, 1, "threads") == [2, 1]
    assert column(numa, 1, "smallest_kb") == [4, 0]
    assert column(numa, 1, "smallest_free_kb") == [3600, 0]
    assert numa.cells(1)[0].pages_kb == ((4, 3600), (2048, 9 * 2048))
    assert numa.layout(1) == ((0, 1), (5, None))
    assert numa.layout(0) == ()
    assert numa.places(slice(0, 2)).tolist()[0] == [-1, -1]


def test_a_guest_without_a_page_size_uses_the_smallest_pages() -> None:
    """A guest without a page size uses the smallest pages that the host reports."""
    numa = NumaCells(1)
    numa.put(0, (CELL,))
    numa.take(0, (share(memory_mb=1),))
    assert dict(numa.cells(0)[0].pages_kb) == {4: 3600 - 1024, 2048: 20480}
    numa.put(0, (NumaCell(0, memory_mb=1, mempages=(MemoryPages(2048, 10),)),))
    assert dict(numa.cells(0)[0].pages_kb) == {2048: 20480 - 1024}


def test_what_guests_have_is_known_before_the_cells_are_and_after_they_change() -> None:
    """Usage is kept when it comes before the cells and when the cells change."""
    numa = NumaCells(1)
    numa.take(0, (share(0, 1),))
    numa.put(0, (CELL,))
    assert column(numa, 0, "free") == [6]
    bigger = NumaCell(0, pcpuset=frozenset(range(16)))
    numa.put(0, (bigger, PLAIN))
    assert column(numa, 0, "free") == [14, 2]
    numa.release(0, (share(0, 1),))
    assert column(numa, 0, "free") == [16, 2]
    numa.put(0, ())
    assert numa.cells(0) == ()
    assert column(numa, 0, "free") == []


def test_a_cpu_that_two_have_is_free_when_both_are_gone() -> None:
    """A CPU pinned by several guests is free when the last of them releases it."""
    numa = NumaCells(1)
    numa.put(0, (CELL,))
    for _ in range(3):
        numa.take(0, (share(0),))
    for free in (7, 7, 8):
        numa.release(0, (share(0),))
        assert column(numa, 0, "free") == [free]


def test_a_share_of_a_cell_that_is_not_there_changes_nothing() -> None:
    """A share of an unknown cell counts once the host reports the cell."""
    numa = NumaCells(1)
    numa.put(0, (CELL,))
    numa.take(0, (share(16, cell=5),))
    assert column(numa, 0, "free") == [8]
    numa.put(0, (CELL, PLAIN))
    assert column(numa, 0, "free") == [8, 1]


def test_places_are_used_again() -> None:
    """The places of removed cells are reused, and the arrays grow with the rows."""
    numa = NumaCells(1)
    for _ in range(200):
        numa.put(0, (CELL, PLAIN))
        numa.put(0, ())
    assert numa.columns.rows <= 128
    assert numa.pages_kb == {}
    numa.resize(300)
    for row in range(300):
        numa.put(row, (CELL,))
    assert [column(numa, row, "free") for row in (0, 150, 299)] == [[8], [8], [8]]
    assert set(numa.layout_ids(slice(0, 300)).tolist()) == {numa.layout_ids(np.array([7]))[0]}


def test_equal_layouts_have_equal_numbers() -> None:
    """Rows with equal cell ids and sockets have equal layout ids."""
    numa = NumaCells(4)
    numa.put(0, (CELL,))
    numa.put(1, (NumaCell(0, socket=1),))
    numa.put(2, (NumaCell(0, socket=2),))
    first, second, third, none = numa.layout_ids(slice(0, 4)).tolist()
    assert first == second
    assert len({first, third, none}) == 3


def test_most_that_can_be_had_in_equal_numbers() -> None:
    """`most_paired` uses an equal number of at least two threads of each core that it uses."""
    assert most_paired([]) == 0
    assert most_paired([1, 1, 1]) == 0
    assert most_paired([2, 1, 2]) == 4
    assert most_paired([4, 2, 2]) == 6
    assert most_paired([4, 4, 2]) == 8


def test_what_is_given_back_twice_counts_once() -> None:
    """A repeated release of a share changes nothing, and a cleared row has no usage."""
    numa = NumaCells(1)
    numa.put(0, (CELL,))
    numa.take(0, (share(0),))
    for _ in range(2):
        numa.release(0, (share(0),))
    assert column(numa, 0, "free") == [8]
    numa.take(0, (share(0),))
    numa.clear(0)
    numa.put(0, (CELL,))
    numa.release(0, (share(0),))
    assert column(numa, 0, "free") == [8]
