"""What a guest cell demands of a host cell, without its CPUs' numbers: equal ones are one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from berth.domain.hardware.guest_topology import CpuPolicy, GuestTopology, PageSize, ThreadPolicy

_KEPT = 1024


@dataclass(frozen=True, slots=True)
class CellDemand:
    """One guest cell's demand: CPUs that float, dedicated ones, one for the emulator, memory.

    `emulator` is 1 for the guest cell that has the emulator threads beside it, when these are
    isolated, and 0 for all others.
    """

    shared: int
    dedicated: int
    emulator: int
    memory_mb: int
    page_size: PageSize
    is_pinned: bool
    floats: bool
    threads: ThreadPolicy | None


@lru_cache(maxsize=_KEPT)
def demands_of(topology: GuestTopology) -> tuple[CellDemand, ...]:
    """Return the demand of each guest cell, in order."""
    return tuple(
        CellDemand(
            shared=len(cell.shared_cpus),
            dedicated=len(cell.dedicated_cpus),
            emulator=int(topology.isolates_emulator and not number),
            memory_mb=cell.memory_mb,
            page_size=topology.page_size,
            is_pinned=topology.cpu_policy is not CpuPolicy.SHARED,
            floats=topology.cpu_policy is not CpuPolicy.DEDICATED,
            threads=topology.thread_policy,
        )
        for number, cell in enumerate(topology.cells)
    )


def counted(demands: tuple[CellDemand, ...]) -> Mapping[CellDemand, int]:
    """Return how often each demand is there."""
    return Counter(demands)
