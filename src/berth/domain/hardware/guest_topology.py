"""Guest topologies: the NUMA cells, dedicated CPUs and page sizes that an instance requests.

Source: nova-behaviour.md 6.2.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import CPU_MAX


class CpuPolicy(StrEnum):
    """Whether a guest's CPUs float over shared host CPUs, are dedicated, or are of both kinds."""

    SHARED = "shared"
    DEDICATED = "dedicated"
    MIXED = "mixed"


class ThreadPolicy(StrEnum):
    """The placement of dedicated CPUs on the threads of the host's cores."""

    PREFER = "prefer"
    """Whole cores if available, otherwise any threads; this is also the default."""
    REQUIRE = "require"
    """Only threads with a sibling thread that is also assigned to the guest."""
    ISOLATE = "isolate"
    """One thread per core; the core's other threads stay idle."""


class PageSizeClass(StrEnum):
    """A page size that is requested by class instead of in KiB."""

    SMALL = "small"
    """The smallest page size of the NUMA cell."""
    LARGE = "large"
    """Any page size of the NUMA cell but the smallest."""
    ANY = "any"


PageSize = int | PageSizeClass | None
"""A size in KiB, a size class, or None if no page size is requested."""


@dataclass(frozen=True, slots=True)
class GuestCell:
    """One NUMA cell of a guest: its floating and its dedicated CPUs, and its memory in MiB."""

    shared_cpus: frozenset[int]
    dedicated_cpus: frozenset[int]
    memory_mb: int


@dataclass(frozen=True, slots=True)
class GuestTopology:
    """The NUMA requirements of one instance; each guest NUMA cell needs a separate host cell.

    `isolates_emulator` requests one more dedicated CPU for the hypervisor's own threads, on the
    host NUMA cell of the guest's NUMA cell 0. `wants_threads` requires a host on which some core
    has several threads, whether or not the guest receives such a core: this is how Nova treats an
    image that requires sibling threads if the flavor only prefers them. A `thread_policy`
    of None means `PREFER`.
    """

    cells: tuple[GuestCell, ...]
    cpu_policy: CpuPolicy = CpuPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    page_size: PageSize = None
    isolates_emulator: bool = False
    wants_threads: bool = False


def split_evenly(
    key: str, count: int, vcpus: int, memory_mb: int, dedicated: frozenset[int]
) -> tuple[GuestCell, ...]:
    """Return guest NUMA cells of equal size.

    Args:
        key: the spec or property that sets the number of NUMA cells, for errors.
        count: number of NUMA cells.
        vcpus: number of CPUs of the whole guest.
        memory_mb: memory of the whole guest in MiB.
        dedicated: the guest's dedicated CPUs.

    Raises:
        InvalidInputError: the CPUs or the memory are not divisible by `count`.
    """
    for name, amount in (("CPUs", vcpus), ("MiB of memory", memory_mb)):
        if amount % count:
            reason = f"{amount} {name} are not divisible by {count}"
            raise InvalidInputError(
                key, f"{reason}; set hw:numa_cpus.N and hw:numa_mem.N for each NUMA cell"
            )
    size = vcpus // count
    parts = [frozenset(range(first * size, (first + 1) * size)) for first in range(count)]
    return cells_of(parts, [memory_mb // count] * count, dedicated)


def check_split(
    cpus: Mapping[str, frozenset[int]], memory_mb: Mapping[str, int], vcpus: int, total_mb: int
) -> None:
    """Reject guest NUMA cells that do not add up to the guest.

    Args:
        cpus: the CPUs of each NUMA cell, by the key that sets them (`hw:numa_cpus.0`).
        memory_mb: the memory of each NUMA cell in MiB, by the key that sets it (`hw:numa_mem.0`).
        vcpus: number of CPUs of the whole guest.
        total_mb: memory of the whole guest in MiB.

    Raises:
        InvalidInputError: a CPU does not exist in the guest, is in two NUMA cells or in none, or
            the sum of the memory differs from `total_mb`. The error names the key of the NUMA cell,
            or the common part of the keys.
    """
    left = set(range(vcpus))
    for key, part in cpus.items():
        for cpu in sorted(part):
            if cpu >= vcpus:
                reason = (
                    f"CPU {cpu} must be between 0 and {vcpus - 1}, as the flavor has {vcpus} CPUs"
                )
                raise InvalidInputError(key, reason)
            if cpu not in left:
                reason = f"CPU {cpu} is also in another NUMA cell; assign each CPU to one"
                raise InvalidInputError(key, reason)
            left.remove(cpu)
    if left:
        raise InvalidInputError(
            _stem(cpus), f"CPU {min(left)} is in no NUMA cell; assign each CPU to one"
        )
    sum_mb = sum(memory_mb.values())
    if sum_mb != total_mb:
        reason = f"the NUMA cells have {sum_mb} MiB, but the flavor has {total_mb} MiB"
        raise InvalidInputError(_stem(memory_mb), f"{reason}; make the two equal")


def _stem(keys: Iterable[str]) -> str:
    """Return the common part of the keys of all NUMA cells (`hw:numa_cpus`)."""
    return next(iter(keys)).rpartition(".")[0]


def cells_of(
    cpus: Sequence[frozenset[int]], memory_mb: Sequence[int], dedicated: frozenset[int]
) -> tuple[GuestCell, ...]:
    """Return guest NUMA cells with the given CPUs and memory.

    Args:
        cpus: the CPUs of each NUMA cell.
        memory_mb: the memory of each NUMA cell in MiB.
        dedicated: the guest's dedicated CPUs.
    """
    return tuple(
        GuestCell(part - dedicated, part & dedicated, mb)
        for part, mb in zip(cpus, memory_mb, strict=True)
    )


def check_size(vcpus: int) -> None:
    """Reject a guest with more CPUs than any host can have, before its CPUs are enumerated.

    Raises:
        InvalidInputError: the guest has more than `CPU_MAX` + 1 CPUs.
    """
    if vcpus > CPU_MAX + 1:
        reason = f"{vcpus} must be at most {CPU_MAX + 1} for a guest with a NUMA topology"
        raise InvalidInputError("vcpus", reason)
