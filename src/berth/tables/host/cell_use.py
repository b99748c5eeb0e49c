"""The used and free resources of one NUMA cell."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.cpu_sets import bits_of, cpus_of
from berth.domain.hardware.numa import NumaCell

_KB_PER_MB = 1024
# Maximum number of cached shapes. A fleet has few distinct NUMA cells, but a compromised
# agent may report any number of them.
_SHAPES_KEPT = 4096


@dataclass(frozen=True, slots=True)
class CellShape:
    """A NUMA cell as its host reports it, with CPU sets as bit masks; equal cells share an object.

    `cores` contains the dedicated CPUs of each core, without cores that have none; `threads` is the
    maximum number of threads in a core. `smallest_kb` is the smallest page size in KiB, 0 if none
    is reported. `is_old` is True if the host does not distinguish shared from dedicated CPUs.
    """

    cell: NumaCell
    shared_cpus: int
    dedicated: int
    cores: tuple[int, ...]
    threads: int
    smallest_kb: int
    is_old: bool


@lru_cache(maxsize=_SHAPES_KEPT)
def shape_of(cell: NumaCell) -> CellShape:
    """Return the shape of a NUMA cell."""
    dedicated = bits_of(cell.pcpuset)
    siblings = [bits_of(core) for core in cell.siblings] or [1 << cpu for cpu in cpus_of(dedicated)]
    return CellShape(
        cell=cell,
        shared_cpus=len(cell.cpuset),
        dedicated=dedicated,
        cores=tuple(core & dedicated for core in siblings if core & dedicated),
        threads=max((core.bit_count() for core in siblings), default=1) or 1,
        smallest_kb=min((pages.size_kb for pages in cell.mempages), default=0),
        is_old=cell.cpuset == cell.pcpuset,
    )


@dataclass(slots=True)
class CellUse:
    """The resources of a NUMA cell that instances use, independent of the cell's shape.

    `pinned` is a mask of the dedicated CPUs in use. `again` counts additional owners of a CPU. A
    CPU should have none, but without the count the first release would free a CPU that another
    instance still uses. `pages_kb` is the memory in KiB by page size in KiB; the key 0 is for
    guests without a page size.
    """

    shared_cpus: int = 0
    memory_mb: int = 0
    pinned: int = 0
    again: dict[int, int] = field(default_factory=dict[int, int])
    pages_kb: dict[int, int] = field(default_factory=dict[int, int])

    def take(self, share: CellShare) -> None:
        """Add the share that one guest NUMA cell uses."""
        self._count(share, 1)
        for cpu in share.taken_cpus:
            if self.pinned >> cpu & 1:
                self.again[cpu] = self.again.get(cpu, 0) + 1
            self.pinned |= 1 << cpu

    def release(self, share: CellShare) -> None:
        """Undo one `take` of an equal share."""
        self._count(share, -1)
        for cpu in share.taken_cpus:
            if cpu not in self.again:
                self.pinned &= ~(1 << cpu)
            elif self.again[cpu] > 1:
                self.again[cpu] -= 1
            else:
                del self.again[cpu]

    def _count(self, share: CellShare, sign: int) -> None:
        size = share.page_size_kb or 0
        self.shared_cpus += sign * share.shared_cpus
        self.memory_mb += sign * share.memory_mb
        left = self.pages_kb.pop(size, 0) + sign * share.memory_mb * _KB_PER_MB
        if left:
            self.pages_kb[size] = left


@dataclass(frozen=True, slots=True)
class FreeCell:
    """A NUMA cell and its free resources; `free` is a mask of the free dedicated CPUs.

    `pages_kb` contains pairs of page size and free memory, both in KiB. Guests without a page size
    use the smallest pages.
    """

    shape: CellShape
    free: int
    shared_used: int
    memory_used_mb: int
    pages_kb: tuple[tuple[int, int], ...]

    @property
    def cell_id(self) -> int:
        """The id of the NUMA cell on its host."""
        return self.shape.cell.cell_id

    @property
    def memory_free_mb(self) -> int:
        """The memory in MiB that no guest with a NUMA topology uses; may be negative."""
        return self.shape.cell.memory_mb - self.memory_used_mb

    @property
    def free_count(self) -> int:
        """The number of free dedicated CPUs."""
        return self.free.bit_count()

    @property
    def core_counts(self) -> list[int]:
        """The number of free dedicated CPUs of each core that has any."""
        counts = ((core & self.free).bit_count() for core in self.shape.cores)
        return [count for count in counts if count]


def free_cell(shape: CellShape, use: CellUse) -> FreeCell:
    """Return the free resources of a NUMA cell."""
    return FreeCell(
        shape=shape,
        free=shape.dedicated & ~use.pinned,
        shared_used=use.shared_cpus,
        memory_used_mb=use.memory_mb,
        pages_kb=tuple(_free_pages(shape, use)),
    )


def _free_pages(shape: CellShape, use: CellUse) -> Iterator[tuple[int, int]]:
    for pages in shape.cell.mempages:
        used_kb = use.pages_kb.get(pages.size_kb, 0)
        if pages.size_kb == shape.smallest_kb:
            used_kb += use.pages_kb.get(0, 0)
        yield pages.size_kb, (pages.total - pages.reserved) * pages.size_kb - used_kb
