"""Tests for choosing the CPUs of a cell that a guest gets."""

import pytest

from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.guest_topology import ThreadPolicy
from berth.domain.hardware.numa import NumaCell
from berth.scheduling.hardware.cell_demand import CellDemand
from berth.scheduling.hardware.pinning import Pins, pin
from berth.tables.host.cell_use import CellUse, FreeCell, free_cell, shape_of

THREADS = tuple(frozenset({core, core + 4}) for core in range(4))
CPUS = frozenset(range(8))


def cell(*taken: int, threads: bool = True, is_old: bool = False) -> FreeCell:
    """Return a cell of four two-thread cores, or of eight cores, with some CPUs taken."""
    use = CellUse()
    use.take(CellShare(0, 0, pinned=tuple(enumerate(taken))))
    shared = CPUS if is_old else frozenset[int]()
    return free_cell(shape_of(NumaCell(0, shared, CPUS, THREADS if threads else ())), use)


def wanting(count: int, threads: ThreadPolicy | None = None, *, emulator: int = 0) -> CellDemand:
    """Return a demand for this many dedicated CPUs."""
    return CellDemand(
        shared=0,
        dedicated=count,
        emulator=emulator,
        memory_mb=0,
        page_size=None,
        is_pinned=True,
        floats=False,
        threads=threads,
    )


@pytest.mark.parametrize(
    ("taken", "count", "cpus"),
    [
        ((), 0, ()),
        ((), 2, (0, 4)),
        ((), 3, (0, 4, 1)),
        ((0,), 1, (4,)),
        ((0,), 2, (1, 5)),
        ((0,), 3, (1, 5, 4)),
        ((0, 1), 8, None),
        ((0, 1, 2, 3), 4, (4, 5, 6, 7)),
    ],
)
def test_whole_cores_are_kept_whole(
    taken: tuple[int, ...], count: int, cpus: tuple[int, ...] | None
) -> None:
    """Guests fill whole cores, and a rest goes to a core that is partly used."""
    found = pin(cell(*taken), wanting(count))
    assert (None if found is None else tuple(sorted(found.cpus))) == (
        None if cpus is None else tuple(sorted(cpus))
    )


def test_siblings_are_required() -> None:
    """With `require` only cores with free siblings count."""
    require = ThreadPolicy.REQUIRE
    assert pin(cell(0, 1), wanting(4, require)) == Pins((2, 6, 3, 7))
    assert pin(cell(0, 1, 2), wanting(4, require)) is None
    assert pin(cell(0, 1, 2), wanting(3, require)) is None
    assert pin(cell(0), wanting(3, require)) is not None
    assert pin(cell(threads=False), wanting(2, require)) is None
    assert pin(cell(0, 1, 2, 3), wanting(0, require)) is None
    assert pin(cell(0, 1, 2), wanting(0, require)) == Pins()


def test_cores_are_isolated() -> None:
    """With `isolate` cores need a single thread, or an old host whose siblings stay idle."""
    isolate = ThreadPolicy.ISOLATE
    assert pin(cell(threads=False), wanting(2, isolate)) == Pins((0, 1))
    assert pin(cell(), wanting(2, isolate)) is None
    old = pin(cell(0, is_old=True), wanting(2, isolate))
    assert old == Pins((1, 2), idle=frozenset({5, 6}))
    assert pin(cell(0, is_old=True), wanting(4, isolate)) is None
    assert pin(cell(is_old=True), wanting(0, isolate)) is None


def test_the_emulator_gets_a_cpu_beside_the_guest() -> None:
    """The emulator gets another CPU from the fullest core, if the guest has dedicated CPUs."""
    assert pin(cell(3), wanting(2, emulator=1)) == Pins((0, 4), frozenset({7}))
    assert pin(cell(), wanting(8, emulator=1)) is None
    assert pin(cell(), wanting(0, emulator=1)) is None
    assert pin(cell(), wanting(3, ThreadPolicy.REQUIRE, emulator=1)) == Pins(
        (0, 4, 1), frozenset({5})
    )


def test_the_emulator_of_an_isolated_guest_has_a_core_of_its_own() -> None:
    """The emulator of an isolated guest gets a core of its own."""
    isolate = ThreadPolicy.ISOLATE
    found = pin(cell(3, is_old=True), wanting(2, isolate, emulator=1))
    assert found == Pins((0, 1), frozenset({7}), frozenset({4, 5}))
    found = pin(cell(is_old=True), wanting(3, isolate, emulator=1))
    assert found == Pins((0, 1, 2), frozenset({3}), frozenset({4, 5, 6, 7}))
    assert pin(cell(is_old=True), wanting(4, isolate, emulator=1)) is None
    assert pin(cell(threads=False), wanting(8, isolate, emulator=1)) is None
