"""Guest topologies: the NUMA cells, dedicated CPUs and page sizes that one instance asks for.

(nova-behaviour.md 6.2)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import CPU_MAX


class CpuPolicy(StrEnum):
    """Whether a guest's CPUs float over the host's shared ones or have dedicated ones."""

    SHARED = "shared"
    DEDICATED = "dedicated"
    MIXED = "mixed"


class ThreadPolicy(StrEnum):
    """How dedicated CPUs are laid on the threads of the host's cores."""

    PREFER = "prefer"
    """Whole cores where there are some, any threads otherwise; also what no policy means."""
    REQUIRE = "require"
    """Threads that have a sibling among them."""
    ISOLATE = "isolate"
    """One thread of a core, whose other threads stay idle."""


class PageSizeClass(StrEnum):
    """A page size that is asked for by its kind."""

    SMALL = "small"
    """The smallest that the cell has."""
    LARGE = "large"
    """Any but the smallest."""
    ANY = "any"


PageSize = int | PageSizeClass | None
"""A size in kB, a kind of size, or None for no wish: then memory may be overcommitted."""


@dataclass(frozen=True, slots=True)
class GuestCell:
    """One NUMA cell of a guest: its CPUs by number, those that float and those that do not."""

    shared_cpus: frozenset[int]
    dedicated_cpus: frozenset[int]
    memory_mb: int


@dataclass(frozen=True, slots=True)
class GuestTopology:
    """What one instance asks of the NUMA cells of its host; each guest cell gets one of its own.

    `isolates_emulator` asks for one more dedicated CPU beside guest cell 0, for the hypervisor's
    own threads. With `wants_threads` some core of the host must have several threads, whichever
    the guest gets: so Nova reads an image that requires siblings under a flavor that prefers them.
    """

    cells: tuple[GuestCell, ...]
    cpu_policy: CpuPolicy = CpuPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    page_size: PageSize = None
    isolates_emulator: bool = False
    wants_threads: bool = False


def split_evenly(
    count: int, vcpus: int, memory_mb: int, dedicated: frozenset[int]
) -> tuple[GuestCell, ...]:
    """Make cells of equal size.

    Args:
        count: how many.
        vcpus: of the whole guest.
        memory_mb: of the whole guest.
        dedicated: its CPUs that do not float.

    Raises:
        InvalidInputError: CPUs or memory cannot be divided so.
    """
    for name, amount in (("CPUs", vcpus), ("MB of memory", memory_mb)):
        if amount % count:
            reason = f"{amount} {name} cannot be divided by {count}"
            raise InvalidInputError("hw:numa_nodes", f"{reason}; name the parts by hw:numa_cpus.N")
    size = vcpus // count
    parts = [frozenset(range(first * size, (first + 1) * size)) for first in range(count)]
    return cells_of(parts, [memory_mb // count] * count, dedicated)


def check_split(
    cpus: Sequence[frozenset[int]], memory_mb: Sequence[int], vcpus: int, total_mb: int
) -> None:
    """Refuse parts that do not make up the guest.

    Args:
        cpus: of each cell.
        memory_mb: of each cell.
        vcpus: of the whole guest.
        total_mb: of the whole guest.

    Raises:
        InvalidInputError: naming the cell and what is wrong with it.
    """
    left = set(range(vcpus))
    for number, part in enumerate(cpus):
        for cpu in sorted(part):
            if cpu >= vcpus:
                reason = f"CPU {cpu} is not one of the flavor's {vcpus}"
                raise InvalidInputError(f"numa_cpus.{number}", reason)
            if cpu not in left:
                reason = f"CPU {cpu} is in another cell too; give each to one"
                raise InvalidInputError(f"numa_cpus.{number}", reason)
            left.remove(cpu)
    if left:
        raise InvalidInputError("numa_cpus", f"CPU {min(left)} is in no cell; give each to one")
    if sum(memory_mb) != total_mb:
        reason = f"the cells have {sum(memory_mb)} MB, the flavor has {total_mb}"
        raise InvalidInputError("numa_mem", f"{reason}; make them equal")


def cells_of(
    cpus: Sequence[frozenset[int]], memory_mb: Sequence[int], dedicated: frozenset[int]
) -> tuple[GuestCell, ...]:
    """Make cells of the parts that were named."""
    return tuple(
        GuestCell(part - dedicated, part & dedicated, mb)
        for part, mb in zip(cpus, memory_mb, strict=True)
    )


def check_size(vcpus: int) -> None:
    """Refuse a guest that no host could hold, before its CPUs are numbered one by one.

    Raises:
        InvalidInputError: too many CPUs.
    """
    if vcpus > CPU_MAX + 1:
        reason = f"{vcpus} are more than the {CPU_MAX + 1} that a guest with a topology may have"
        raise InvalidInputError("vcpus", reason)
