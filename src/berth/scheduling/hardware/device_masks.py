"""The hosts with the requested devices, computed for many hosts together.

Source: nova-behaviour.md 6.3.

Columns count free devices by kind. If no kind can serve two of the demands and none excludes
another, comparing sums is enough. Otherwise hosts are evaluated one by one
(`device_fit.give_devices`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.domain.hardware.pci import DeviceType, NumaPolicy
from berth.scheduling.hardware.device_fit import DeviceDemand
from berth.scheduling.rules.rule import Scores
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable
from berth.tables.host.pci import SHARING, DeviceKind


@dataclass(frozen=True, slots=True)
class DeviceSources:
    """The kinds of devices that a demand may use."""

    demand: DeviceDemand
    usable: tuple[DeviceKind, ...]


def sources_of(hosts: HostTable, demands: Iterable[DeviceDemand]) -> list[DeviceSources]:
    """Return, for each demand, the kinds of devices for it that some host has."""
    kinds = tuple(hosts.pci.kinds)
    found: list[DeviceSources] = []
    for demand in demands:
        usable = tuple(kind for kind in kinds if demand.may_use(kind))
        found.append(DeviceSources(demand, usable))
    return found


def are_independent(sources: Sequence[DeviceSources]) -> bool:
    """Return whether no demand can take devices that another needs."""
    types = {kind.dev_type for one in sources for kind in one.usable}
    # A physical function excludes its virtual functions, although they are different kinds.
    if DeviceType.PHYSICAL in types and types & set(SHARING) - {DeviceType.PHYSICAL}:
        return False
    pairs = combinations((set(one.usable) for one in sources), 2)
    return all(one.isdisjoint(other) for one, other in pairs)


def have_enough(hosts: HostTable, sources: Iterable[DeviceSources], rows: Selection) -> Mask:
    """Return, for each row, whether it has enough devices for each demand, on any NUMA cell.

    A host that fails lacks some of the devices. A host that passes has all of them if the demands
    are independent; see `are_independent`.
    """
    enough = np.ones(count_of(rows), dtype=np.bool_)
    for one in sources:
        enough &= usable_devices(hosts, one, rows) >= one.demand.count
    return enough


def devices_bound(hosts: HostTable, demands: Sequence[DeviceDemand]) -> Scores | None:
    """Return the maximum number of guests for which each host has devices: (N,) float64.

    The result is None if no devices are requested; see `rule.Bound`.
    """
    if not demands:
        return None
    counts = [
        usable_devices(hosts, one, hosts.all_rows) // one.demand.count
        for one in sources_of(hosts, demands)
    ]
    bound: Scores = np.minimum.reduce(counts).astype(np.float64)
    return bound


def usable_devices(hosts: HostTable, source: DeviceSources, rows: Selection) -> Ints:
    """Return the number of free devices for a demand on each row, on any NUMA cell: (K,)."""
    return _sum(hosts, source.usable, rows)


def cells_with_devices(hosts: HostTable, sources: Iterable[DeviceSources], rows: Selection) -> Mask:
    """Return, for each NUMA cell of the rows, whether it is close to enough devices for a guest.

    The demands must be independent; see `are_independent`.

    Returns:
        (K, C) bool; undefined where a row has no such cell.
    """
    layout = _Layout.of(hosts, rows)
    enough = np.ones(layout.ids.shape, dtype=np.bool_)
    for one in sources:
        enough &= layout.available(hosts, one, rows) >= one.demand.count
    return enough


@dataclass(frozen=True, slots=True)
class _Layout:
    """The ids and sockets of the cells of K rows: (K, C), -1 for none."""

    ids: Ints
    sockets: Ints

    @classmethod
    def of(cls, hosts: HostTable, rows: Selection) -> "_Layout":
        """Return the NUMA layout of the rows."""
        places = hosts.numa.places(rows)
        there = places >= 0
        columns = hosts.numa.columns
        return cls(
            np.where(there, columns.cell_id[places], -1),
            np.where(there, columns.socket[places], -1),
        )

    def available(self, hosts: HostTable, source: DeviceSources, rows: Selection) -> Ints:
        """Return the number of devices that a guest on each NUMA cell may use: (K, C)."""
        near = self._near(hosts, source.usable, rows)
        policy = source.demand.numa_policy
        if policy is NumaPolicy.REQUIRED:
            return near
        if policy is NumaPolicy.SOCKET:
            return np.maximum(near, self._in_socket(near))
        if policy is NumaPolicy.PREFERRED:
            every = _sum(hosts, source.usable, rows)[:, np.newaxis]
            return np.broadcast_to(every, near.shape)
        return near + _sum(hosts, _homeless(source.usable), rows)[:, np.newaxis]

    def _near(self, hosts: HostTable, kinds: Iterable[DeviceKind], rows: Selection) -> Ints:
        near = np.zeros(self.ids.shape, dtype=np.int64)
        for kind in kinds:
            if kind.numa_node is not None:
                free = hosts.pci.kinds[kind][rows][:, np.newaxis]
                near += np.where(self.ids == kind.numa_node, free, 0)
        return near

    def _in_socket(self, near: Ints) -> Ints:
        """Return the sums over the cells of each cell's socket; 0 where a socket is unknown."""
        found = np.zeros(near.shape, dtype=np.int64)
        for index in range(near.shape[1]):
            same = self.sockets == self.sockets[:, index, np.newaxis]
            found += np.where(same, near[:, index, np.newaxis], 0)
        unknown = ((self.ids >= 0) & (self.sockets < 0)).any(axis=1)
        # On a host with an unknown socket, no two NUMA cells are known to be in the same socket.
        found[unknown] = 0
        return found


def _homeless(kinds: Iterable[DeviceKind]) -> Iterator[DeviceKind]:
    return (kind for kind in kinds if kind.numa_node is None)


def _sum(hosts: HostTable, kinds: Iterable[DeviceKind], rows: Selection) -> Ints:
    total = np.zeros(count_of(rows), dtype=np.int64)
    for kind in kinds:
        total += hosts.pci.kinds[kind][rows]
    return total
