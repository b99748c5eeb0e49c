"""The demand of a guest NUMA cell, without CPU numbers, so that equal cells compare equal."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from berth.domain.hardware.guest_topology import CpuPolicy, GuestTopology, PageSize, ThreadPolicy

# The demands of at most this many topologies are cached; guests of one NUMA flavor usually have the
# same topology.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class CellDemand:
    """The demand of one guest NUMA cell on a host NUMA cell.

    `shared` and `dedicated` are numbers of CPUs. `emulator` is 1 for the guest cell on whose host
    cell the isolated emulator threads run, and 0 for all others. `memory_mb` is in MiB. `is_pinned`
    means that the guest has dedicated CPUs, and `floats` that it has floating ones.
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
    """Return the demand of each guest NUMA cell, in order."""
    return tuple(
        CellDemand(
            shared=len(cell.shared_cpus),
            dedicated=len(cell.dedicated_cpus),
            # Isolated emulator threads run on the host NUMA cell of guest cell 0, as in Nova.
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
    """Return the number of occurrences of each demand."""
    return Counter(demands)
