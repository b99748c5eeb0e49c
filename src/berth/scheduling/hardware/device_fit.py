"""The choice of the PCI devices that an instance receives: pool by pool, as in Nova.

Source: nova-behaviour.md 6.3.

Demands are served one after another, each from the first suitable pools. There is no search, so a
demand may take a device that a later one needs, in exactly the cases in which it does so in Nova.
"""

from collections.abc import Sequence
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
    pools: Sequence[FreePool], demands: Sequence[DeviceDemand], near: NearCells | None
) -> tuple[DeviceShare, ...] | None:
    """Return devices for all demands, or None if a demand cannot be served.

    Args:
        pools: the free devices of the host, in the order in which pools are used.
        demands: served in this order.
        near: the host's NUMA cells that the guest receives; None for a guest without a topology,
            which may get any device.
    """
    shares: list[DeviceShare] = []
    left = {pool.key: pool.free for pool in pools}
    for demand in demands:
        taken = _meet(pools, left, demand, near)
        if taken is None:
            return None
        shares += taken
        for share in taken:
            left[share.pool] -= share.count
        _exclude(pools, left, taken)
    return tuple(shares)


def _meet(
    pools: Sequence[FreePool],
    left: dict[str, int],
    demand: DeviceDemand,
    near: NearCells | None,
) -> list[DeviceShare] | None:
    matching = [pool for pool in pools if demand.matches(pool.kind) and left[pool.key]]
    if near is not None:
        matching = _near_enough(matching, left, demand, near)
    taken: list[DeviceShare] = []
    wanted = demand.count
    for pool in matching:
        key = pool.key
        if wanted and demand.may_use(pool.kind):
            count = min(left[key], wanted)
            taken.append(DeviceShare(key, count, demand.alias))
            wanted -= count
    return None if wanted else taken


def _near_enough(
    pools: list[FreePool], left: dict[str, int], demand: DeviceDemand, near: NearCells
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
