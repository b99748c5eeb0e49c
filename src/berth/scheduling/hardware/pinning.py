"""Pinning: the choice of host CPUs for a guest NUMA cell (nova-behaviour.md 6.2).

Berth decides as Nova does whether a cell has enough CPUs, but chooses among them by rules of its
own: it keeps cores whole as long as possible, for later guests that need whole cores.
"""

from collections.abc import Sequence
from typing import NamedTuple

from berth.domain.hardware.cpu_sets import cpus_of
from berth.domain.hardware.guest_topology import ThreadPolicy
from berth.scheduling.hardware.cell_demand import CellDemand
from berth.tables.host.cell_use import FreeCell


class Pins(NamedTuple):
    """The host CPUs for the guest's dedicated CPUs and its emulator, and those to keep idle."""

    cpus: tuple[int, ...] = ()
    emulator: frozenset[int] = frozenset()
    idle: frozenset[int] = frozenset()


def pin(cell: FreeCell, demand: CellDemand) -> Pins | None:
    """Return the CPUs of a host NUMA cell for a guest cell; None if too few are suitable."""
    if cell.free_count < demand.dedicated + demand.emulator:
        return None
    # An emulator CPU is only taken in addition to dedicated CPUs, so a guest NUMA cell that
    # requests none of these fails.
    if demand.emulator and not demand.dedicated:
        return None
    cores = [core & cell.free for core in cell.shape.cores if core & cell.free]
    if demand.threads is ThreadPolicy.ISOLATE:
        return _isolated(cell, cores, demand)
    if sum(core.bit_count() for core in cores) < demand.dedicated + demand.emulator:
        return None
    if demand.threads is ThreadPolicy.REQUIRE:
        chosen = _paired(cell, cores, demand.dedicated)
    else:
        chosen = _preferred(cores, demand.dedicated)
    if chosen is None:
        return None
    taken = 0
    for cpu in chosen:
        taken |= 1 << cpu
    emulator = _beside(cores, taken) if demand.emulator else ()
    return Pins(tuple(chosen), frozenset(emulator))


def _isolated(cell: FreeCell, cores: Sequence[int], demand: CellDemand) -> Pins | None:
    """Return one thread of each of several free cores, whose other threads are kept idle.

    The result is None if the cell cannot serve the demand in this way.
    """
    # Nova refuses `isolate` on cores with several threads, except on hosts that report one set of
    # CPUs as both shared and dedicated (`is_old`).
    if cell.shape.threads > 1 and not cell.shape.is_old:
        return None
    whole = [core for core in cores if core.bit_count() >= cell.shape.threads]
    if not demand.dedicated or len(whole) < demand.dedicated:
        return None
    mine = whole[: demand.dedicated]
    taken = sum(mine)
    emulator: tuple[int, ...] = ()
    if demand.emulator:
        emulator = _beside([core for core in cores if core not in mine], 0)
        if not emulator:
            return None
        taken |= next(core for core in cores if core >> emulator[0] & 1)
    cpus = [cpus_of(core)[0] for core in mine]
    idle = frozenset(cpus_of(taken)) - {*cpus, *emulator}
    return Pins(tuple(cpus), frozenset(emulator), idle)


def _paired(cell: FreeCell, cores: Sequence[int], wanted: int) -> list[int] | None:
    """Return CPUs, taking the same number of threads from each core, at least two.

    Only the last core may supply fewer threads. The largest number for which enough cores exist is
    used; the result is None if there is none.
    """
    if cell.shape.threads <= 1:
        return None
    counts = {core.bit_count() for core in cores}
    for threads in sorted((count for count in counts if count > 1), reverse=True):
        # Cores with few free threads come first, so that the others stay whole.
        wide = sorted((core for core in cores if core.bit_count() >= threads), key=int.bit_count)
        if threads * len(wide) >= wanted:
            cpus = (cpu for core in wide for cpu in cpus_of(core)[:threads])
            return [cpu for cpu, _ in zip(cpus, range(wanted), strict=False)]
    return None


def _preferred(cores: Sequence[int], wanted: int) -> list[int]:
    """Return CPUs of whole cores, largest first; the rest from the smallest core that suffices."""
    left = list(cores)
    cpus: list[int] = []
    while len(cpus) < wanted:
        missing = wanted - len(cpus)
        core = _best_core(left, missing)
        left.remove(core)
        cpus += cpus_of(core)[:missing]
    return cpus


def _best_core(cores: Sequence[int], missing: int) -> int:
    used_up = [
        core
        for core in cores
        if core.bit_count() <= missing and (core.bit_count() > 1 or missing == 1)
    ]
    if used_up:
        return max(used_up, key=int.bit_count)
    wide = [core for core in cores if core.bit_count() >= missing]
    return min(wide, key=int.bit_count) if wide else max(cores, key=int.bit_count)


def _beside(cores: Sequence[int], taken: int) -> tuple[int, ...]:
    """Return one free CPU of the core with the fewest free CPUs; empty if no CPU is free."""
    left = [core & ~taken for core in cores if core & ~taken]
    return tuple(cpus_of(min(left, key=int.bit_count))[:1]) if left else ()
