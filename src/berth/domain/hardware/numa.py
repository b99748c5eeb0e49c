"""NUMA cells: the parts of a host whose CPUs and memory are near each other.

Source: nova-behaviour.md 6.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import check_cpus
from berth.domain.inventory.resources import AMOUNT_MAX

CELLS_MAX = 64
"""Most NUMA cells of one host."""


@dataclass(frozen=True, slots=True)
class MemoryPages:
    """The pages of one size that a cell has: how many, and how many of them the host keeps."""

    size_kb: int
    total: int
    reserved: int = 0

    def __post_init__(self) -> None:
        """Refuse what could not be pages.

        Raises:
            InvalidInputError: an amount out of range.
        """
        if not 1 <= self.size_kb <= AMOUNT_MAX:
            raise InvalidInputError("size_kb", f"{self.size_kb} must be 1 to {AMOUNT_MAX}")
        if not 0 <= self.reserved <= self.total <= AMOUNT_MAX // self.size_kb:
            reason = f"{self.reserved} of {self.total} pages of {self.size_kb} kB cannot be"
            raise InvalidInputError("mempages", f"{reason}; 0 <= reserved <= total")


@dataclass(frozen=True, slots=True)
class NumaCell:
    """One NUMA cell of a host, as its agent reports it; what is used is not part of it.

    `cpuset` are the CPUs that float between guests, `pcpuset` those that one guest gets for
    itself. A host may report one set as both, as old ones do that tell no difference; then
    nothing but the order to use PCPU keeps the two kinds apart. Each of `siblings` is a core:
    CPUs that are threads of it. Without any, every CPU is a core of its own. `memory_mb` is all
    memory of the cell; `mempages` say it again by page size and may be left out.
    """

    cell_id: int
    cpuset: frozenset[int] = frozenset()
    pcpuset: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    memory_mb: int = 0
    mempages: tuple[MemoryPages, ...] = ()
    socket: int | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be a cell.

        Raises:
            InvalidInputError: a number out of range, a CPU in two cores, or a page size twice.
        """
        where = f"numa_cells[{self.cell_id}]"
        if not 0 <= self.cell_id <= AMOUNT_MAX:
            raise InvalidInputError(where, f"cell_id must be 0 to {AMOUNT_MAX}")
        if not 0 <= self.memory_mb <= AMOUNT_MAX:
            raise InvalidInputError(where, f"memory_mb {self.memory_mb} must be 0 to {AMOUNT_MAX}")
        threads = [cpu for core in self.siblings for cpu in core]
        check_cpus((*self.cpuset, *self.pcpuset, *threads), where)
        if len(set(threads)) < len(threads):
            raise InvalidInputError(where, "a CPU is in two sets of siblings; give it to one core")
        if len({pages.size_kb for pages in self.mempages}) < len(self.mempages):
            raise InvalidInputError(where, "a page size is there twice; add its pages up")


def check_cells(cells: Iterable[NumaCell]) -> None:
    """Refuse cells that could not be on one host.

    Raises:
        InvalidInputError: too many, or a number, a CPU or a core in two of them.
    """
    ids: set[int] = set()
    cpus: set[int] = set()
    for cell in cells:
        where = f"numa_cells[{cell.cell_id}]"
        if cell.cell_id in ids:
            raise InvalidInputError(where, "cell_id is there twice; number the cells")
        mine = cell.cpuset | cell.pcpuset
        if not cpus.isdisjoint(mine):
            raise InvalidInputError(where, f"CPU {min(cpus & mine)} is in another cell too")
        ids.add(cell.cell_id)
        cpus |= mine
    if len(ids) > CELLS_MAX:
        raise InvalidInputError("numa_cells", f"{len(ids)} are more than {CELLS_MAX}")
