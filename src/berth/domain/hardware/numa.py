"""NUMA cells: the parts of a host whose CPUs and memory are close to each other.

Source: nova-behaviour.md 6.2.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import check_cpus
from berth.domain.inventory.resources import AMOUNT_MAX

CELLS_MAX = 64
"""Maximum number of NUMA cells of one host."""


@dataclass(frozen=True, slots=True)
class MemoryPages:
    """The memory pages of one size in a NUMA cell: their number, and how many of them are reserved.

    `size_kb` is in KiB.
    """

    size_kb: int
    total: int
    reserved: int = 0

    def __post_init__(self) -> None:
        """Reject a page size or a number of pages that is out of range.

        Raises:
            InvalidInputError: a value is out of range; the error names the value and the range.
        """
        if not 1 <= self.size_kb <= AMOUNT_MAX:
            raise InvalidInputError("size_kb", f"{self.size_kb} must be between 1 and {AMOUNT_MAX}")
        most = AMOUNT_MAX // self.size_kb
        if not 0 <= self.total <= most:
            reason = f"total {self.total} must be between 0 and {most} pages of {self.size_kb} KiB"
            raise InvalidInputError("mempages", reason)
        if not 0 <= self.reserved <= self.total:
            reason = f"reserved {self.reserved} must be between 0 and the total {self.total}"
            raise InvalidInputError("mempages", reason)


@dataclass(frozen=True, slots=True)
class NumaCell:
    """One NUMA cell of a host as its agent reports it, without its usage.

    `cpuset` are the CPUs shared by floating guest CPUs, `pcpuset` those that are each dedicated to
    one guest. Hosts that do not distinguish them report one set as both; only the PCPU inventory
    then separates the two uses. Each set in `siblings` contains the threads of one core; if
    `siblings` is empty, every CPU is a core of its own. `memory_mb` is the cell's total memory in
    MiB, and `mempages` optionally divides it by page size. `socket` is None if unknown.
    """

    cell_id: int
    cpuset: frozenset[int] = frozenset()
    pcpuset: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    memory_mb: int = 0
    mempages: tuple[MemoryPages, ...] = ()
    socket: int | None = None

    def __post_init__(self) -> None:
        """Reject contradictory values and values out of range.

        Raises:
            InvalidInputError: a value is out of range, a CPU is in two cores, or a page size is
                listed twice.
        """
        where = f"numa_cells[{self.cell_id}]"
        if not 0 <= self.cell_id <= AMOUNT_MAX:
            raise InvalidInputError(where, f"cell_id must be between 0 and {AMOUNT_MAX}")
        if not 0 <= self.memory_mb <= AMOUNT_MAX:
            raise InvalidInputError(
                where, f"memory_mb {self.memory_mb} must be between 0 and {AMOUNT_MAX}"
            )
        threads = [cpu for core in self.siblings for cpu in core]
        check_cpus((*self.cpuset, *self.pcpuset, *threads), where)
        if len(set(threads)) < len(threads):
            reason = f"CPU {_most_common(threads)} is in two sets of siblings; list each CPU in one"
            raise InvalidInputError(where, reason)
        sizes_kb = [pages.size_kb for pages in self.mempages]
        if len(set(sizes_kb)) < len(sizes_kb):
            size_kb = _most_common(sizes_kb)
            reason = f"the {size_kb} KiB page size is listed twice; add up its pages in one entry"
            raise InvalidInputError(where, reason)


def _most_common(values: Iterable[int]) -> int:
    ((value, _),) = Counter(values).most_common(1)
    return value


def check_cells(cells: Iterable[NumaCell]) -> None:
    """Reject NUMA cells that cannot all be on one host.

    Raises:
        InvalidInputError: there are too many, or two have the same id or a common CPU.
    """
    ids: set[int] = set()
    cpus: set[int] = set()
    for cell in cells:
        where = f"numa_cells[{cell.cell_id}]"
        if cell.cell_id in ids:
            raise InvalidInputError(where, "duplicate cell_id; give each NUMA cell its own")
        # A CPU may be both shared and dedicated (see `NumaCell`), but only within one NUMA cell:
        # otherwise guests of both NUMA cells would be pinned to it.
        own_cpus = cell.cpuset | cell.pcpuset
        if not cpus.isdisjoint(own_cpus):
            raise InvalidInputError(
                where, f"CPU {min(cpus & own_cpus)} is also in another NUMA cell; list it in one"
            )
        ids.add(cell.cell_id)
        cpus |= own_cpus
    if len(ids) > CELLS_MAX:
        reason = f"{len(ids)} NUMA cells are too many; report at most {CELLS_MAX}"
        raise InvalidInputError("numa_cells", reason)
