"""The choice of the PCI devices that an instance receives.

Source: nova-behaviour.md 6.3.

Demands are served one after another, each from the first suitable pools, as in Nova. Where that
fails because one of them takes what another needs, a matching serves all of them, so the order of
the demands never decides whether a guest fits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import DeviceShare
from berth.domain.hardware.pci import (
    DeviceNeed,
    DeviceType,
    NumaPolicy,
    PciAlias,
    PciSpec,
)
from berth.scheduling.hardware.device_matching import Flow, match_devices
from berth.scheduling.hardware.device_packing import packed
from berth.tables.host.pci import SHARING, DeviceKind, FreePool


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """A demand for devices that match any of the specs, as close as the NUMA policy requires."""

    alias: str
    count: int
    specs: tuple[PciSpec, ...]
    numa_policy: NumaPolicy

    def matches(self, kind: DeviceKind) -> bool:
        """Return whether a kind of device matches one of the specs."""
        return any(_meets(kind, spec) for spec in self.specs)

    def may_use(self, kind: DeviceKind) -> bool:
        """Return whether a device of this kind may serve this demand.

        Physical functions and vDPA devices require a spec that names their type. Remotely managed
        devices are never given out.
        """
        types = {spec.dev_type for spec in self.specs}
        for special in (DeviceType.PHYSICAL, DeviceType.VDPA):
            if kind.dev_type is special and special not in types:
                return False
        return self.matches(kind) and not kind.is_remote


def device_demands(
    needs: Sequence[DeviceNeed], aliases: Sequence[PciAlias]
) -> tuple[DeviceDemand, ...]:
    """Return a guest's device requests as demands, with each alias resolved to its specs.

    Raises:
        InvalidInputError: a request names an alias that `aliases` does not contain.
    """
    known = {alias.name: alias for alias in aliases}
    found: list[DeviceDemand] = []
    for need in needs:
        alias = known.get(need.alias)
        if alias is None:
            names = ", ".join(sorted(known)) or "none"
            reason = (
                f"the policy has no alias {need.alias[:80]!r} (it has {names}); add the alias to"
                " the policy, or request devices by an alias that it has"
            )
            raise InvalidInputError("pci_passthrough:alias", reason)
        policy = need.numa_policy or alias.numa_policy
        found.append(DeviceDemand(need.alias, need.count, alias.specs, policy))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class NearCells:
    """The NUMA cells that a guest receives, and all NUMA cells in their sockets.

    `in_sockets` is None if the socket of any NUMA cell of the host is unknown.
    """

    cells: frozenset[int]
    in_sockets: frozenset[int] | None


def give_devices(
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
    near: NearCells | None,
    *,
    values: Mapping[int, int] | None = None,
) -> tuple[DeviceShare, ...] | None:
    """Return devices for all demands, or None if there is no way to serve all of them.

    Demands are served in order if possible: from the first pools, as in Nova, or with `values` from
    the pools that keep NUMA cells whole (see `device_packing`). Otherwise a matching serves them.

    Args:
        pools: the free devices of the host, in the order in which pools are used.
        demands: the demands.
        near: the host's NUMA cells that the guest receives; None for a guest without a topology,
            which may get any device.
        values: the value of keeping each whole NUMA cell whole, by the cell's id (see
            `cell_packing`); None to ignore this.
    """
    found = _served_in_order(pools, demands, near, values)
    return _matched(pools, demands, near) if found is None else found


def leaving_room(
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
    near: NearCells | None,
    given: tuple[DeviceShare, ...],
) -> tuple[DeviceShare, ...]:
    """Return the devices of a guest, or others that leave room for more guests like it.

    If aliases compete for devices, one guest may take devices that the next one needs. The
    instances of a request are equal guests, so the choice decides how many of them fit.

    Args:
        pools: the free devices of the host.
        demands: the demands.
        near: as for `give_devices`.
        given: the devices that `give_devices` returned.
    """
    usable = _usable(pools, demands, near)
    if sum(map(len, usable)) == len({index for one in usable for index in one}):
        return given
    counts = [demand.count for demand in demands]
    left = {pool.key: pool.free for pool in pools}
    for share in given:
        left[share.pool] -= share.count
    _exclude(pools, left, given)
    rest = [pool._replace(free=left[pool.key]) for pool in pools]
    guests, most = 0, sum(pool.free for pool in pools) // sum(counts)
    flow: Flow | None = None
    while guests < most:
        # Bisection is valid because fewer guests fit wherever more do.
        middle = (guests + most + 1) // 2
        found = match_devices(pools, [middle * count for count in counts], usable)
        if found is None:
            most = middle - 1
        else:
            guests, flow = middle, found
    if flow is None or match_devices(rest, [(guests - 1) * n for n in counts], usable) is not None:
        return given
    return _part(pools, demands, flow)


def _part(
    pools: Sequence[FreePool], demands: Sequence[DeviceDemand], flow: Flow
) -> tuple[DeviceShare, ...]:
    """Return the devices of one guest out of those of several equal guests."""
    shares: list[DeviceShare] = []
    for demand, taken in zip(demands, flow, strict=True):
        room = {pools[index].key: count for index, count in taken.items()}
        mine = [pools[index] for index in sorted(taken)]
        shares += _first(mine, room, demand, demand.count)
    return tuple(shares)


def _usable(
    pools: Sequence[FreePool], demands: Sequence[DeviceDemand], near: NearCells | None
) -> list[list[int]]:
    """Return, for each demand, the indices of the pools that may serve it, the closest first."""
    index_of = {pool.key: index for index, pool in enumerate(pools)}
    return [
        [index_of[pool.key] for tier in permitted(pools, demand, near) for pool in tier]
        for demand in demands
    ]


def _served_in_order(
    pools: Sequence[FreePool],
    demands: Sequence[DeviceDemand],
    near: NearCells | None,
    values: Mapping[int, int] | None,
) -> tuple[DeviceShare, ...] | None:
    shares: list[DeviceShare] = []
    left = {pool.key: pool.free for pool in pools}
    node_of = {pool.key: pool.kind.numa_node for pool in pools}
    for demand in demands:
        if values is not None:
            taken = _packed(permitted(pools, demand, near), left, demand, values)
            nodes = {node_of[share.pool] for share in taken}
            values = {node: value for node, value in values.items() if node not in nodes}
        else:
            taken = _first(_as_nova(pools, left, demand, near), left, demand, demand.count)
        if sum(share.count for share in taken) < demand.count:
            return None
        shares += taken
        for share in taken:
            left[share.pool] -= share.count
        _exclude(pools, left, taken)
    return tuple(shares)


def _matched(
    pools: Sequence[FreePool], demands: Sequence[DeviceDemand], near: NearCells | None
) -> tuple[DeviceShare, ...] | None:
    """Return devices for demands that compete for them, by a matching."""
    usable = _usable(pools, demands, near)
    flow = match_devices(pools, [demand.count for demand in demands], usable)
    return None if flow is None else _part(pools, demands, flow)


def _first(
    pools: Iterable[FreePool], left: Mapping[str, int], demand: DeviceDemand, wanted: int
) -> list[DeviceShare]:
    """Return up to `wanted` devices of the first pools."""
    taken: list[DeviceShare] = []
    for pool in pools:
        count = min(left[pool.key], wanted)
        if count:
            taken.append(DeviceShare(pool.key, count, demand.alias))
            wanted -= count
    return taken


def _packed(
    tiers: Sequence[Sequence[FreePool]],
    left: Mapping[str, int],
    demand: DeviceDemand,
    values: Mapping[int, int],
) -> list[DeviceShare]:
    """Return devices that keep NUMA cells whole, those of the first tiers first."""
    taken: list[DeviceShare] = []
    wanted = demand.count
    for tier in tiers:
        usable = [pool for pool in tier if left[pool.key]]
        more = _first(packed(usable, left, wanted, values), left, demand, wanted)
        wanted -= sum(share.count for share in more)
        taken += more
    return taken


def permitted(
    pools: Sequence[FreePool], demand: DeviceDemand, near: NearCells | None
) -> list[list[FreePool]]:
    """Return the pools that may serve a demand, in tiers: those of the first are the closest.

    Devices without a known NUMA cell are in the first tier, if the policy permits them: they may be
    as close as any other.
    """
    usable = [pool for pool in pools if demand.may_use(pool.kind)]
    if near is None:
        return [usable]
    policy = demand.numa_policy
    first: frozenset[int | None] = frozenset(near.cells)
    if policy in (NumaPolicy.LEGACY, NumaPolicy.PREFERRED):
        first |= {None}
    further: frozenset[int | None] = frozenset()
    if policy is NumaPolicy.SOCKET:
        further = frozenset(near.in_sockets or ())
    elif policy is NumaPolicy.PREFERRED:
        further = frozenset(pool.kind.numa_node for pool in usable)
    return [
        [pool for pool in usable if pool.kind.numa_node in first],
        [pool for pool in usable if pool.kind.numa_node in further - first],
    ]


def _as_nova(
    pools: Sequence[FreePool],
    left: Mapping[str, int],
    demand: DeviceDemand,
    near: NearCells | None,
) -> list[FreePool]:
    """Return the pools that Nova uses for a demand, in its order."""
    matching = [pool for pool in pools if demand.matches(pool.kind) and left[pool.key]]
    if near is not None:
        matching = _near_enough(matching, left, demand, near)
    return [pool for pool in matching if demand.may_use(pool.kind)]


def _near_enough(
    pools: list[FreePool], left: Mapping[str, int], demand: DeviceDemand, near: NearCells
) -> list[FreePool]:
    """Return the pools that the demand's policy permits, only the close ones if these suffice."""
    policy = demand.numa_policy

    def inside(cells: frozenset[int | None]) -> list[FreePool]:
        return [pool for pool in pools if pool.kind.numa_node in cells]

    def enough(found: list[FreePool]) -> bool:
        return sum(left[pool.key] for pool in found) >= demand.count

    # Closeness is decided on all matching pools, before `may_use` excludes some, as in Nova.
    mine: frozenset[int | None] = frozenset(near.cells)
    found = inside(mine)
    if policy is NumaPolicy.REQUIRED or enough(found):
        return found
    if policy is NumaPolicy.SOCKET:
        return inside(frozenset(near.in_sockets or ()))
    found = inside(mine | {None})
    if policy is NumaPolicy.LEGACY or enough(found):
        return found
    return found + [pool for pool in pools if pool not in found]


def _exclude(pools: Sequence[FreePool], left: dict[str, int], taken: Sequence[DeviceShare]) -> None:
    """Empty the pools that cannot be used together with the taken devices, as `free_pools` does."""
    used = {share.pool for share in taken}
    busy = {
        (one.pool.address, one.pool.dev_type is DeviceType.PHYSICAL)
        for one in pools
        if one.pool.address and one.key in used and one.pool.dev_type in SHARING
    }
    for one in pools if busy else ():
        is_physical = one.pool.dev_type is DeviceType.PHYSICAL
        if one.pool.dev_type in SHARING and (one.pool.address, not is_physical) in busy:
            # A physical function and its virtual functions are never in use at the same time.
            left[one.key] = 0


def _meets(kind: DeviceKind, spec: PciSpec) -> bool:
    if (kind.vendor_id, kind.product_id) != (spec.vendor_id, spec.product_id):
        return False
    if spec.dev_type is not None and kind.dev_type is not spec.dev_type:
        return False
    return spec.live_migratable is None or kind.live_migratable == str(spec.live_migratable).lower()
