"""The PCI devices of the hosts: the free devices of each pool, and of each kind by row."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.domain.hardware.assignment import DeviceShare
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.tables.columnar.bitsets import Selection
from berth.tables.columnar.column_set import grown
from berth.tables.columnar.interned import ValueIds

Ints = NDArray[np.int64]

_TRUE = ("1", "t", "true", "on", "y", "yes")

SHARING = (DeviceType.PHYSICAL, DeviceType.VIRTUAL, DeviceType.VDPA)
"""Types for which a physical function and the functions at its address exclude each other."""


class DeviceKind(NamedTuple):
    """The properties of a device that an alias may request, and its closest NUMA cell."""

    vendor_id: str
    product_id: str
    dev_type: DeviceType
    live_migratable: str | None
    is_remote: bool
    numa_node: int | None


class FreePool(NamedTuple):
    """A pool with its `PciPool.key`, its kind and the number of free devices."""

    pool: PciPool
    key: str
    kind: DeviceKind
    free: int


@dataclass(slots=True)
class _Pools:
    """The pools of one row in order of use, and the shares that instances have taken."""

    pools: tuple[PciPool, ...] = ()
    taken: Counter[DeviceShare] = field(default_factory=Counter[DeviceShare])
    free: tuple[FreePool, ...] = ()

    @property
    def used(self) -> Mapping[str, int]:
        """The number of devices in use of each pool, by pool key."""
        used: dict[str, int] = {}
        for share, times in self.taken.items():
            used[share.pool] = used.get(share.pool, 0) + share.count * times
        return used


def kind_of(pool: PciPool) -> DeviceKind:
    """Return the kind of a pool's devices."""
    return DeviceKind(
        vendor_id=pool.vendor_id.lower(),
        product_id=pool.product_id.lower(),
        dev_type=pool.dev_type,
        live_migratable=pool.tags.get("live_migratable"),
        is_remote=pool.tags.get("remote_managed", "").strip().lower() in _TRUE,
        numa_node=pool.numa_node,
    )


def plainest_first(pools: Iterable[PciPool]) -> tuple[PciPool, ...]:
    """Return pools in the order in which they are used: fewest tags first, as in Nova.

    An address counts as a tag.
    """
    return tuple(sorted(pools, key=lambda pool: len(pool.tags) + bool(pool.address)))


def free_pools(pools: Sequence[FreePool], used: Mapping[str, int]) -> tuple[FreePool, ...]:
    """Return pools with their numbers of free devices, in the same order.

    A physical function and its virtual functions are never in use at the same time.

    Args:
        pools: the pools of one host; their `free` is ignored.
        used: the number of devices in use of each pool, by pool key.
    """
    busy = {
        (one.pool.address, one.pool.dev_type is DeviceType.PHYSICAL)
        for one in pools
        if one.pool.address and one.pool.dev_type in SHARING and used.get(one.key, 0)
    }
    found: list[FreePool] = []
    for one in pools:
        # A report may make a pool smaller than its usage.
        free = max(one.pool.count - used.get(one.key, 0), 0)
        others = (one.pool.address, one.pool.dev_type is not DeviceType.PHYSICAL)
        if one.pool.dev_type in SHARING and others in busy:
            free = 0
        found.append(one if free == one.free else one._replace(free=free))
    return tuple(found)


class PciDevices:
    """The device pools of every row, and their usage by the instances on the row.

    Only rows with pools use memory, and arrays exist only for kinds that some host has.

    Attributes:
        kinds: for each kind, the number of free devices by row.
    """

    def __init__(self, rows: int) -> None:
        self.kinds: dict[DeviceKind, Ints] = {}
        self._rows = rows
        self._total: Ints = np.zeros(0, dtype=np.int64)
        self._pools: dict[int, _Pools] = {}
        self._pools_of: dict[DeviceKind, int] = {}
        self._state_ids: Ints = np.zeros(0, dtype=np.int64)
        self._states = ValueIds[tuple[tuple[str, int], ...]]()

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have no devices."""
        self._rows = rows
        if self._total.size:
            self._total = grown(self._total, rows)
            self._state_ids = grown(self._state_ids, rows)
        for kind, column in self.kinds.items():
            self.kinds[kind] = grown(column, rows)

    def free(self, rows: Selection) -> Ints:
        """Return the number of free devices of any kind: (K,) for K rows."""
        self._make_arrays()
        found: Ints = self._total[rows]
        return found

    def pools(self, row: int) -> tuple[FreePool, ...]:
        """Return the pools of a row with their free devices, in order of use."""
        mine = self._pools.get(row)
        return mine.free if mine else ()

    def state_ids(self, rows: Selection) -> Ints:
        """Return the state ids of K rows: (K,); equal ids mean equal `pools`, 0 means no pools."""
        self._make_arrays()
        found: Ints = self._state_ids[rows]
        return found

    def put(self, row: int, pools: Sequence[PciPool]) -> None:
        """Replace the pools of a row; the usage by instances is kept."""
        if not pools and row not in self._pools:
            return
        mine = self._pools.setdefault(row, _Pools())
        ordered = plainest_first(pools)
        if ordered != mine.pools:
            mine.pools = ordered
            self._update_free(
                row, mine, tuple(FreePool(pool, pool.key, kind_of(pool), 0) for pool in ordered)
            )
        self._forget_empty(row, mine)

    def take(self, row: int, shares: Sequence[DeviceShare]) -> None:
        """Add the devices that an instance uses on a row."""
        if shares:
            mine = self._pools.setdefault(row, _Pools())
            mine.taken.update(shares)
            self._update_free(row, mine, mine.free)

    def release(self, row: int, shares: Sequence[DeviceShare]) -> None:
        """Undo one `take` of equal shares; shares that are not in use are ignored."""
        mine = self._pools.get(row) if shares else None
        if mine is not None:
            mine.taken -= Counter(shares)
            self._update_free(row, mine, mine.free)
            self._forget_empty(row, mine)

    def clear(self, row: int) -> None:
        """Remove the devices and the usage of a row."""
        self.put(row, ())
        self._pools.pop(row, None)

    def _forget_empty(self, row: int, mine: _Pools) -> None:
        if not mine.pools and not mine.taken:
            del self._pools[row]

    def _update_free(self, row: int, mine: _Pools, pools: Sequence[FreePool]) -> None:
        """Compute the free devices of a row's pools, and drop kinds that no pool has any more."""
        before = mine.free
        mine.free = free_pools(pools, mine.used)
        state = tuple((one.key, one.free) for one in mine.free)
        self._make_arrays()
        self._state_ids[row] = self._states.number(state) if state else 0
        # New pools are added before old ones are subtracted, so that the array of a kind that stays
        # is not dropped in between.
        for pool in mine.free:
            self._pools_of[pool.kind] = self._pools_of.get(pool.kind, 0) + 1
            self._add(pool.kind, row, pool.free)
        for pool in before:
            self._add(pool.kind, row, -pool.free)
            self._pools_of[pool.kind] -= 1
            if not self._pools_of[pool.kind]:
                del self._pools_of[pool.kind], self.kinds[pool.kind]

    def _make_arrays(self) -> None:
        if not self._total.size:
            self._total = np.zeros(self._rows, dtype=np.int64)
            self._state_ids = np.zeros(self._rows, dtype=np.int64)

    def _add(self, kind: DeviceKind, row: int, count: int) -> None:
        column = self.kinds.get(kind)
        if column is None:
            column = self.kinds[kind] = np.zeros(self._rows, dtype=np.int64)
        column[row] += count
        self._total[row] += count
