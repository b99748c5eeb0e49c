"""The fit of a guest NUMA cell on a host NUMA cell (nova-behaviour.md 6.2).

`cell_masks` and `cell_counts` apply the same rules to many hosts together; change all three.
"""

from dataclasses import dataclass

from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.guest_topology import GuestCell, PageSizeClass
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.scheduling.hardware.cell_demand import CellDemand
from berth.scheduling.hardware.cell_masks import UNBOUND
from berth.scheduling.hardware.pinning import Pins, pin
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.hosts import HostTable

_KB_PER_MB = 1024


@dataclass(frozen=True, slots=True)
class OvercommitRatios:
    """The factors by which a host overcommits CPUs and memory; `UNBOUND` if it reports none."""

    cpus: float = UNBOUND
    memory: float = UNBOUND

    @classmethod
    def of(cls, hosts: HostTable, row: int) -> "OvercommitRatios":
        """Return the overcommit ratios of a row's host."""
        return cls(_ratio(hosts, VCPU, row), _ratio(hosts, MEMORY_MB, row))


def fit_cell(
    cell: FreeCell, demand: CellDemand, guest: GuestCell, ratios: OvercommitRatios
) -> CellShare | None:
    """Return the share of a host NUMA cell for a guest NUMA cell; None if it does not fit."""
    pages = page_size(cell, demand)
    if pages is None:
        return None
    if demand.floats and not floats(cell, demand, ratios):
        return None
    pins = pin(cell, demand) if demand.is_pinned else Pins()
    if pins is None:
        return None
    return CellShare(
        host_cell=cell.cell_id,
        memory_mb=demand.memory_mb,
        page_size_kb=pages or None,
        shared_cpus=demand.shared,
        pinned=tuple(zip(sorted(guest.dedicated_cpus), pins.cpus, strict=True)),
        emulator_cpus=pins.emulator,
        idle_cpus=pins.idle,
    )


def page_size(cell: FreeCell, demand: CellDemand) -> int | None:
    """Return the page size to use in KiB, or 0 if none was requested.

    The result is None if the host NUMA cell is short of memory, or if the demand is not a multiple
    of the page size.
    """
    wanted_kb = demand.memory_mb * _KB_PER_MB
    if demand.page_size is None:
        # As in Nova, the memory must be a multiple of the smallest page size.
        smallest_kb = cell.shape.smallest_kb
        fits = wanted_kb <= free_kb(cell, demand) and not wanted_kb % max(smallest_kb, 1)
        return 0 if fits else None
    # The largest pages are tried first, as in Nova.
    for size_kb, left_kb in sorted(allowed_pages(cell, demand), reverse=True):
        if wanted_kb <= left_kb and not wanted_kb % size_kb:
            return size_kb
    return None


def allowed_pages(cell: FreeCell, demand: CellDemand) -> list[tuple[int, int]]:
    """Return the permitted page sizes with the free memory in each, both in KiB."""
    wish, smallest_kb = demand.page_size, cell.shape.smallest_kb
    if isinstance(wish, int):
        return [pages for pages in cell.pages_kb if pages[0] == wish]
    if wish is PageSizeClass.SMALL:
        return [pages for pages in cell.pages_kb if pages[0] == smallest_kb]
    if wish is PageSizeClass.LARGE:
        return [pages for pages in cell.pages_kb if pages[0] != smallest_kb]
    return list(cell.pages_kb)


def free_kb(cell: FreeCell, demand: CellDemand) -> int:
    """Return the memory in KiB that a guest without a page size may take from a NUMA cell.

    With dedicated CPUs, this is the free memory. Otherwise, it is all memory of the cell: memory
    may then be overcommitted, but no single guest may have more than the cell.
    """
    shape = cell.shape
    if not shape.smallest_kb:
        mb = cell.memory_free_mb if demand.is_pinned else shape.cell.memory_mb
        return mb * _KB_PER_MB
    if demand.is_pinned:
        return dict(cell.pages_kb)[shape.smallest_kb]
    totals = {pages.size_kb: pages.total for pages in shape.cell.mempages}
    return totals[shape.smallest_kb] * shape.smallest_kb


def floats(cell: FreeCell, demand: CellDemand, ratios: OvercommitRatios) -> bool:
    """Return whether a NUMA cell has enough shared CPUs and memory within the host's ratios."""
    shape = cell.shape
    return (
        # Only several guests together may overcommit: one guest gets no more CPUs than the NUMA
        # cell has.
        demand.shared <= shape.shared_cpus
        and cell.shared_used + demand.shared <= shape.shared_cpus * ratios.cpus
        and cell.memory_used_mb + demand.memory_mb <= shape.cell.memory_mb * ratios.memory
    )


def _ratio(hosts: HostTable, name: str, row: int) -> float:
    columns = hosts.resource(name)
    if columns is None or not columns.terms.item(row):
        return UNBOUND
    return columns.ratio.item(row)
