"""An exhaustive model of what fits on NUMA cells and devices; slow and plain.

It reads domain objects and assignments, and uses neither the tables nor the fitting code.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from berth.domain.compute.host import Host
from berth.domain.hardware.assignment import Assignment
from berth.domain.hardware.guest_topology import (
    CpuPolicy,
    GuestCell,
    GuestTopology,
    PageSizeClass,
    ThreadPolicy,
)
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import DeviceNeed, DeviceType, NumaPolicy, PciAlias, PciPool, PciSpec


@dataclass(frozen=True, slots=True)
class Place:
    """A host, the assignments of its instances, and its overcommit ratios."""

    host: Host
    used: Sequence[Assignment]
    cpu_ratio: float
    memory_ratio: float


def fits(
    place: Place,
    topology: GuestTopology | None,
    devices: Sequence[DeviceNeed],
    aliases: Mapping[str, PciAlias],
    *,
    in_order: bool = False,
) -> bool:
    """Tell whether some permutation of host cells takes all guest cells, with devices near.

    With `in_order`, devices are taken need by need from the first suitable pools, as in Nova;
    otherwise every assignment is tried.
    """
    devices_fit = _fit_in_order if in_order else _fit_somehow
    if topology is None:
        return devices_fit(place, devices, aliases, None)
    if topology.wants_threads and not any(
        len(core) > 1 for cell in place.host.numa_cells for core in cell.siblings
    ):
        return False
    for cells in permutations(place.host.numa_cells, len(topology.cells)):
        alone = all(
            _cell_fits(place, host_cell, topology, number) for number, host_cell in enumerate(cells)
        )
        if alone and devices_fit(place, devices, aliases, cells):
            return True
    return False


def _cell_fits(place: Place, cell: NumaCell, topology: GuestTopology, number: int) -> bool:
    guest = topology.cells[number]
    pinned = topology.cpu_policy is not CpuPolicy.SHARED
    extra = 1 if topology.isolates_emulator and number == 0 else 0
    if not _memory_fits(place, cell, guest, topology, pinned=pinned):
        return False
    if topology.cpu_policy is not CpuPolicy.DEDICATED and not _floats(place, cell, guest):
        return False
    return not pinned or _pins(place, cell, guest, topology.thread_policy, extra)


def _memory_fits(
    place: Place, cell: NumaCell, guest: GuestCell, topology: GuestTopology, *, pinned: bool
) -> bool:
    shares = [s for one in place.used for s in one.numa if s.host_cell == cell.cell_id]
    sizes = sorted(pages.size_kb for pages in cell.mempages)
    used_kb: Counter[int] = Counter()
    for share in shares:
        used_kb[share.page_size_kb or (sizes[0] if sizes else 0)] += share.memory_mb * 1024
    total_kb = {p.size_kb: p.total * p.size_kb for p in cell.mempages}
    free_kb = {
        p.size_kb: (p.total - p.reserved) * p.size_kb - used_kb[p.size_kb] for p in cell.mempages
    }
    wanted_kb, wish = guest.memory_mb * 1024, topology.page_size
    if wish is None and not sizes:
        used_mb = sum(share.memory_mb for share in shares)
        return guest.memory_mb <= cell.memory_mb - (used_mb if pinned else 0)
    if wish is None:
        have_kb = free_kb if pinned else total_kb
        return wanted_kb <= have_kb[sizes[0]] and wanted_kb % sizes[0] == 0
    wishes = {
        PageSizeClass.SMALL: sizes[:1],
        PageSizeClass.LARGE: sizes[1:],
        PageSizeClass.ANY: sizes,
    }
    allowed = [wish] if isinstance(wish, int) else wishes[wish]
    return any(
        size in free_kb and wanted_kb <= free_kb[size] and wanted_kb % size == 0 for size in allowed
    )


def _floats(place: Place, cell: NumaCell, guest: GuestCell) -> bool:
    shares = [s for one in place.used for s in one.numa if s.host_cell == cell.cell_id]
    cpus = sum(share.shared_cpus for share in shares) + len(guest.shared_cpus)
    memory_mb = sum(share.memory_mb for share in shares) + guest.memory_mb
    return (
        len(guest.shared_cpus) <= len(cell.cpuset)
        and cpus <= len(cell.cpuset) * place.cpu_ratio
        and memory_mb <= cell.memory_mb * place.memory_ratio
    )


def _pins(
    place: Place, cell: NumaCell, guest: GuestCell, policy: ThreadPolicy | None, extra: int
) -> bool:
    taken = {
        cpu
        for one in place.used
        for share in one.numa
        if share.host_cell == cell.cell_id
        for cpu in share.taken_cpus
    }
    free = set(cell.pcpuset) - taken
    wanted = len(guest.dedicated_cpus)
    if len(free) < wanted + extra or (extra and not wanted):
        return False
    siblings = cell.siblings or tuple(frozenset({cpu}) for cpu in cell.pcpuset)
    threads = max((len(core) for core in siblings), default=1)
    cores = [free & core for core in siblings]
    if policy is ThreadPolicy.ISOLATE:
        whole = [core for core in cores if len(core) >= threads]
        old = cell.cpuset == cell.pcpuset
        others = sum(bool(core) for core in cores) - wanted
        return (threads == 1 or old) and 0 < wanted <= len(whole) and others >= extra
    if sum(len(core) for core in cores) < wanted + extra:
        return False
    if policy is not ThreadPolicy.REQUIRE:
        return True
    return threads > 1 and any(
        times * sum(len(core) >= times for core in cores) >= wanted
        for times in range(2, max((len(core) for core in cores), default=0) + 1)
    )


def _used(place: Place) -> Counter[str]:
    used: Counter[str] = Counter()
    for one in place.used:
        for share in one.devices:
            used[share.pool] += share.count
    return used


def _fit_somehow(
    place: Place,
    devices: Sequence[DeviceNeed],
    aliases: Mapping[str, PciAlias],
    cells: Sequence[NumaCell] | None,
) -> bool:
    """Tell whether any assignment of devices serves all needs, device by device."""
    units = [need for need in devices for _ in range(need.count)]
    pools = place.host.pci_pools

    def serve(number: int, used: Counter[str]) -> bool:
        if number == len(units):
            return True
        for pool in pools:
            need = units[number]
            is_suitable = suits(place.host, pool, need, aliases[need.alias], cells)
            if (
                is_suitable
                and _free(pool, pools, used)
                and serve(number + 1, used + Counter([pool.key]))
            ):
                return True
        return False

    return serve(0, _used(place))


def suits(
    host: Host,
    pool: PciPool,
    need: DeviceNeed,
    alias: PciAlias,
    cells: Sequence[NumaCell] | None,
) -> bool:
    """Tell whether a pool may serve a need, apart from whether it has free devices."""
    special = {DeviceType.PHYSICAL, DeviceType.VDPA} - {spec.dev_type for spec in alias.specs}
    remote = pool.tags.get("remote_managed", "").lower() in ("true", "yes", "1")
    if pool.dev_type in special or remote or not any(_is(pool, spec) for spec in alias.specs):
        return False
    policy = need.numa_policy or alias.numa_policy
    if cells is None or policy is NumaPolicy.PREFERRED:
        return True
    if pool.numa_node in {cell.cell_id for cell in cells}:
        return True
    if policy is NumaPolicy.LEGACY:
        return pool.numa_node is None
    known = all(cell.socket is not None for cell in host.numa_cells)
    sockets = {cell.socket for cell in cells}
    inside = {cell.cell_id for cell in host.numa_cells if cell.socket in sockets}
    return policy is NumaPolicy.SOCKET and known and pool.numa_node in inside


def _fit_in_order(
    place: Place,
    devices: Sequence[DeviceNeed],
    aliases: Mapping[str, PciAlias],
    cells: Sequence[NumaCell] | None,
) -> bool:
    """Tell whether the first suitable pools, taken need by need as in Nova, have all devices."""
    pools = sorted(place.host.pci_pools, key=lambda one: len(one.tags) + bool(one.address))
    used = _used(place)
    for need in devices:
        taken = _take(place.host, pools, used, need, aliases[need.alias], cells)
        if taken is None:
            return False
        used += taken
    return True


def _take(
    host: Host,
    pools: Sequence[PciPool],
    used: Mapping[str, int],
    need: DeviceNeed,
    alias: PciAlias,
    cells: Sequence[NumaCell] | None,
) -> Counter[str] | None:
    free = {pool.key: _free(pool, pools, used) for pool in pools}
    found = [p for p in pools if free[p.key] and any(_is(p, spec) for spec in alias.specs)]
    if cells is not None:
        found = _near(host, found, free, need, alias, cells)
    special = {DeviceType.PHYSICAL, DeviceType.VDPA} - {spec.dev_type for spec in alias.specs}
    remote = [p for p in found if p.tags.get("remote_managed", "").lower() in ("true", "yes", "1")]
    taken: Counter[str] = Counter()
    for pool in found:
        if pool.dev_type in special or pool in remote:
            continue
        count = min(need.count - taken.total(), free[pool.key])
        if count:
            taken[pool.key] = count
    return taken if taken.total() == need.count else None


def _free(pool: PciPool, pools: Iterable[PciPool], used: Mapping[str, int]) -> int:
    for other in pools:
        same = other.address and other.address == pool.address and used.get(other.key, 0)
        types = {pool.dev_type, other.dev_type}
        excludes = (pool.dev_type is DeviceType.PHYSICAL) != (other.dev_type is DeviceType.PHYSICAL)
        if same and excludes and DeviceType.STANDARD not in types:
            return 0
    return max(pool.count - used.get(pool.key, 0), 0)


def _is(pool: PciPool, spec: PciSpec) -> bool:
    live = spec.live_migratable
    return (
        (pool.vendor_id.lower(), pool.product_id.lower()) == (spec.vendor_id, spec.product_id)
        and spec.dev_type in (None, pool.dev_type)
        and (live is None or pool.tags.get("live_migratable") == ("true" if live else "false"))
    )


def _near(
    host: Host,
    found: list[PciPool],
    free: Mapping[str, int],
    need: DeviceNeed,
    alias: PciAlias,
    cells: Sequence[NumaCell],
) -> list[PciPool]:
    def enough(pools: Iterable[PciPool]) -> bool:
        return sum(free[pool.key] for pool in pools) >= need.count

    policy = need.numa_policy or alias.numa_policy
    ids: set[int | None] = {cell.cell_id for cell in cells}
    mine = [pool for pool in found if pool.numa_node in ids]
    if policy is NumaPolicy.REQUIRED or enough(mine):
        return mine
    if policy is NumaPolicy.SOCKET:
        if any(cell.socket is None for cell in host.numa_cells):
            return []
        sockets = {cell.socket for cell in cells}
        inside = {cell.cell_id for cell in host.numa_cells if cell.socket in sockets}
        return [pool for pool in found if pool.numa_node in inside]
    mine = [pool for pool in found if pool.numa_node in ids | {None}]
    if policy is NumaPolicy.LEGACY or enough(mine):
        return mine
    return mine + [pool for pool in found if pool not in mine]
