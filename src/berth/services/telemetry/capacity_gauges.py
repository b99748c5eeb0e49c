"""Gauges of capacity: amounts by resource class, and the slots of flavors, by availability zone."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU
from berth.ports.clock import Clock
from berth.ports.measures import (
    FLAVOR_SLOTS,
    RESOURCE_ALLOCATABLE,
    RESOURCE_CAPACITY,
    RESOURCE_HELD,
    RESOURCE_INVENTORY,
    RESOURCE_LARGEST,
    RESOURCE_RESERVED,
    RESOURCE_STRANDED,
    RESOURCE_USED,
)
from berth.ports.telemetry import Measure, Reading
from berth.scheduling.plan.capacity import Capacity
from berth.services.replica.replica import Replica
from berth.services.replica.stats import usable_hosts
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.class_columns import ClassColumns, Floats, Ints
from berth.tables.host.hosts import HostTable

# The number of series is bounded by these limits. Classes that every fleet has come first, and
# others by name.
_CLASSES_MAX: Final = 40
_CLASSES_FIRST: Final = (VCPU, PCPU, MEMORY_MB, DISK_GB)
_ZONES_MAX: Final = 50
_OTHER_ZONES: Final = "other"
_PUBLIC_MAX: Final = 20
# Most rules compute the number of servers. For the others, a trial placement takes 0.25 ms.
_TRIALS_MAX: Final = 200
# Two scrapers share a survey, and a process without scrapers makes none.
_FRESH_S: Final = 5.0
_REQUEST: Final = "metrics-of-flavors"

Zones = NDArray[np.intp]


class CapacityCounter(Protocol):
    """Counts the servers that fit; see `DecisionService`."""

    async def capacity(self, request: Request, *, trials_max: int) -> Capacity:
        """Return the remaining capacity for instances like those of the request."""
        ...


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """What the gauges take from settings and policy, which may change.

    `service_down_time_s` returns the seconds without a heartbeat after which a host is down,
    `default_zone` the availability zone of hosts to which no aggregate assigns one. `flavors` are
    the names of the watched flavors; if empty, public flavors are watched.
    """

    service_down_time_s: Callable[[], float]
    default_zone: Callable[[], str]
    flavors: tuple[str, ...] = ()


class _Fleet(NamedTuple):
    """The availability zones of the rows, and the rows that servers can be placed on.

    `names` are the Z zones. `zone` is (N,), the index of the zone of each row. `usable` is (N,).
    """

    names: list[str]
    zone: Zones
    usable: Mask

    def sums(self, amounts: NDArray[np.int64 | np.float64], at: Rows | None = None) -> Floats:
        """Return the sum of amounts in each zone: (Z,).

        Args:
            amounts: (N,), or (K,) with `at`.
            at: (K,) the row of each amount; None for all rows.
        """
        zone = self.zone if at is None else self.zone[at]
        return np.bincount(zone, weights=amounts, minlength=len(self.names)).astype(np.float64)

    def largest(self, amounts: Ints, at: Rows | None = None) -> Floats:
        """Return the largest amount in each zone, at least 0: (Z,); see `sums`."""
        found = np.zeros(len(self.names), dtype=np.float64)
        np.maximum.at(found, self.zone if at is None else self.zone[at], amounts)
        return found


class CapacityGauges:
    """Reads the gauges of capacity from the host table.

    Sums are computed with NumPy at each reading: 10,000 hosts take some milliseconds. The slots of
    flavors are counted anew after 5 s, slice by slice, so that other tasks run in between.

    Args:
        replica: provides the hosts and the flavors.
        counter: counts the slots of flavors.
        clock: provides the time of day.
        rules: settings, and parts of the policy.
    """

    def __init__(
        self, replica: Replica, counter: CapacityCounter, clock: Clock, rules: CapacityRules
    ) -> None:
        self._replica = replica
        self._counter = counter
        self._clock = clock
        self._rules = rules
        self._surveyed: list[Reading] = []
        self._surveyed_ns: int | None = None
        self._turn = asyncio.Lock()

    async def read(self) -> list[Reading]:
        """Return the current values of all gauges of capacity."""
        async with self._turn:
            if self._surveyed_ns is None or self._age_s(self._surveyed_ns) >= _FRESH_S:
                self._surveyed = await self._survey()
                self._surveyed_ns = self._clock.ticks_ns()
        return [*self._amounts(), *self._surveyed]

    def _age_s(self, since_ns: int) -> float:
        return (self._clock.ticks_ns() - since_ns) / 1_000_000_000

    def watched(self) -> list[Flavor]:
        """Return the watched flavors, in the order of their ids."""
        found = sorted(self._replica.flavors.values(), key=lambda flavor: flavor.flavor_id)
        if self._rules.flavors:
            return [flavor for flavor in found if flavor.name in self._rules.flavors]
        return [flavor for flavor in found if flavor.is_public][:_PUBLIC_MAX]

    # ---- amounts ----------------------------------------------------------------------------

    def _amounts(self) -> Iterator[Reading]:
        hosts = self._replica.hosts
        fleet = self._fleet(hosts)
        below = hosts.trees.branches(hosts.all_rows)
        rows_below = below.owners
        held = _held_by_class(hosts.held_by_row)
        held_below = _held_by_class(hosts.trees.held_by_slot)
        for name in self._classes(hosts):
            parts: list[dict[Measure, Floats]] = []
            own, child = hosts.resource(name), hosts.trees.resource(name)
            if own is not None:
                on_hold = _spread(held.get(name, {}), len(hosts))
                at = np.arange(len(hosts))
                parts.append(_parts(fleet, own, at, at, on_hold))
            if child is not None and below.slots.size:
                size = int(below.slots.max()) + 1
                on_hold = _spread(held_below.get(name, {}), size)[below.slots]
                parts.append(_parts(fleet, child, below.slots, rows_below, on_hold))
            yield from _readings(fleet.names, name, parts)

    def _classes(self, hosts: HostTable) -> list[str]:
        names = {*hosts.resource_classes, *hosts.trees.resource_classes}
        first = [name for name in _CLASSES_FIRST if name in names]
        return [*first, *sorted(names.difference(first))][:_CLASSES_MAX]

    def _fleet(self, hosts: HostTable) -> _Fleet:
        now_s, down_s = self._clock.now_s(), self._rules.service_down_time_s()
        names, zone = _zones(hosts, self._rules.default_zone())
        return _Fleet(names, zone, usable_hosts(hosts, now_s, down_s))

    # ---- flavors ----------------------------------------------------------------------------

    async def _survey(self) -> list[Reading]:
        """Count the slots of each watched flavor, and what remains of the amounts beside them."""
        slots: list[Reading] = []
        best: dict[str, Ints] = {}
        flavors = self.watched()
        for flavor in flavors:
            await asyncio.sleep(0)
            slots += await self._slots(flavor, best)
        return [*slots, *self._stranded(best)] if flavors else []

    async def _slots(self, flavor: Flavor, best: dict[str, Ints]) -> list[Reading]:
        """Return the slots of a flavor by zone, and note in `best` what they would use."""
        request = Request(_REQUEST, (instance_uuid_of(_REQUEST, 0),), flavor)
        try:
            found = await self._counter.capacity(request, trials_max=_TRIALS_MAX)
        except InvalidInputError:
            # No server of this flavor can be created; the API says why in its response to a create.
            return []
        # The count is that of the table as it is now.
        hosts = self._replica.hosts
        for name, amount in request.needs.amounts.items():
            used = np.zeros(len(hosts), dtype=np.int64)
            used[found.rows] = found.counts * amount
            most = best.get(name)
            # Hosts may have been added since the previous flavor.
            if most is not None:
                both = min(used.size, most.size)
                np.maximum(used[:both], most[:both], out=used[:both])
            best[name] = used
        fleet = self._fleet(hosts)
        counts = fleet.sums(found.counts, found.rows).tolist()
        return [
            Reading(FLAVOR_SLOTS, count, (flavor.name, zone))
            for zone, count in zip(fleet.names, counts, strict=True)
        ]

    def _stranded(self, best: Mapping[str, Ints]) -> Iterator[Reading]:
        hosts = self._replica.hosts
        fleet = self._fleet(hosts)
        for name in self._classes(hosts):
            columns = hosts.resource(name)
            if columns is None or name not in best:
                continue
            free = _allocatable(fleet, columns, np.arange(len(hosts)), np.arange(len(hosts)))
            useful = best[name][: free.size]
            free[: useful.size] = np.maximum(free[: useful.size] - useful, 0)
            for zone, amount in zip(fleet.names, fleet.sums(free).tolist(), strict=True):
                yield Reading(RESOURCE_STRANDED, amount, (name, zone))


def _zones(hosts: HostTable, default: str) -> tuple[list[str], Zones]:
    """Return the names of the availability zones, and the index of each row's zone: (N,).

    A host in several zones counts in the first by name. Zones beyond the limit count together.
    """
    everyone = hosts.all_rows
    zone = np.full(len(hosts), -1, dtype=np.intp)
    names: list[str] = []
    for name in sorted(hosts.zones.names):
        inside = hosts.zones.has(name, everyone) & hosts.alive & (zone < 0)
        if not inside.any():
            continue
        if len(names) >= _ZONES_MAX:
            name = _OTHER_ZONES  # noqa: PLW2901 - the rest shares a name
        if name not in names:
            names.append(name)
        zone[inside] = names.index(name)
    if default not in names:
        names.append(default)
    zone[zone < 0] = names.index(default)
    return names, zone


def _parts(
    fleet: _Fleet, columns: ClassColumns, at: Rows, rows: Rows, on_hold: Ints
) -> dict[Measure, Floats]:
    """Return the gauges of one class by zone, of K providers.

    Args:
        fleet: the zones.
        columns: the columns of the class.
        at: (K,) the index of each provider in the columns.
        rows: (K,) the row of each provider's host.
        on_hold: (K,) the held amounts.
    """
    room = np.where(fleet.usable[rows], np.maximum(columns.room[at], 0), 0)
    return {
        RESOURCE_INVENTORY: fleet.sums(columns.total[at], rows),
        RESOURCE_RESERVED: fleet.sums(columns.reserved[at], rows),
        RESOURCE_CAPACITY: fleet.sums(columns.capacity[at], rows),
        RESOURCE_USED: fleet.sums(columns.used[at] - on_hold, rows),
        RESOURCE_HELD: fleet.sums(on_hold, rows),
        RESOURCE_ALLOCATABLE: fleet.sums(_allocatable(fleet, columns, at, rows), rows),
        RESOURCE_LARGEST: fleet.largest(room, rows),
    }


def _allocatable(fleet: _Fleet, columns: ClassColumns, at: Rows, rows: Rows) -> Ints:
    """Return the free amounts of providers on usable hosts, at least 0: (K,); see `_parts`."""
    free: Ints = np.where(fleet.usable[rows], np.maximum(columns.free[at], 0), 0)
    return free


def _readings(
    zones: Sequence[str], name: str, parts: Sequence[Mapping[Measure, Floats]]
) -> Iterator[Reading]:
    """Yield the gauges of a class; zones without any of it are left out."""
    if not parts:
        return
    first, *rest = parts
    merged = dict(first)
    for part in rest:
        for measure, values in part.items():
            add = np.maximum if measure is RESOURCE_LARGEST else np.add
            merged[measure] = add(merged[measure], values)
    present = np.any([values != 0 for values in merged.values()], axis=0)
    for index in np.flatnonzero(present).tolist():
        for measure, values in merged.items():
            yield Reading(measure, values.item(index), (name, zones[index]))


def _held_by_class(held: Mapping[int, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Return the held amounts by class and index."""
    found: dict[str, dict[int, int]] = {}
    for index, amounts in held.items():
        for name, amount in amounts.items():
            found.setdefault(name, {})[index] = amount
    return found


def _spread(amounts: Mapping[int, int], size: int) -> Ints:
    """Return the amount of each index below `size`, 0 for those that are missing."""
    found = np.zeros(size, dtype=np.int64)
    for index, amount in amounts.items():
        if index < size:
            found[index] = amount
    return found
