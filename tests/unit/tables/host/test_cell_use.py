"""Tests for the shape of a NUMA cell, its usage and its free resources."""

from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.numa import NumaCell
from berth.tables.host.cell_use import CellUse, free_cell, shape_of


def test_cores_are_what_is_dedicated_of_siblings() -> None:
    """A core consists of the dedicated CPUs among siblings."""
    cell = NumaCell(0, frozenset({0}), frozenset({1, 2, 3}), (frozenset({0, 1}), frozenset({2, 3})))
    shape = shape_of(cell)
    assert (shape.cores, shape.threads, shape.is_old) == ((0b10, 0b1100), 2, False)
    assert shape_of(NumaCell(0, frozenset({0}), frozenset({0}))).is_old


def test_without_siblings_every_cpu_is_a_core() -> None:
    """Without siblings every dedicated CPU is a core."""
    assert shape_of(NumaCell(0, pcpuset=frozenset({3, 5}))).cores == (8, 32)
    empty = shape_of(NumaCell(0))
    assert (empty.cores, empty.threads) == ((), 1)


def test_use_adds_up_and_can_be_undone() -> None:
    """Shares add up, and the usage is empty after all shares were released."""
    share = CellShare(0, 10, 2048, 2, ((0, 1),), frozenset({2}), frozenset({3}))
    use = CellUse()
    use.take(share)
    use.take(share)
    assert (use.shared_cpus, use.memory_mb, use.pinned) == (4, 20, 0b1110)
    assert use.pages_kb == {2048: 20480}
    use.release(share)
    assert use.pinned == 0b1110
    use.release(share)
    assert use == CellUse()


def test_what_is_left() -> None:
    """The free cell reports free cores and memory, which may be negative."""
    use = CellUse()
    use.take(CellShare(0, 300, shared_cpus=5, pinned=((0, 1),)))
    free = free_cell(shape_of(NumaCell(7, pcpuset=frozenset({0, 1}), memory_mb=100)), use)
    assert (free.cell_id, free.free, free.free_count, free.core_counts) == (7, 1, 1, [1])
    assert (free.memory_free_mb, free.shared_used) == (-200, 5)
