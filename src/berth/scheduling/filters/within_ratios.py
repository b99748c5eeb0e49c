"""CoreFilter, RamFilter, DiskFilter and their Aggregate variants: limits by allocation ratio.

A flavor's size must fit within the host's physical amount times its allocation ratio, as in Nova's
filters (nova-behaviour.md 2.6, 3): no instance gets more than the host physically has, all
instances together get at most the ratio times as much, and reserved amounts count as used. The
Aggregate variants take the ratio from the metadata of the host's aggregates.

Unlike Nova's, these filters pass no limits to the host to check. The ledger checks its own limit
with the host's ratio, which is the lowest of its aggregates' ratios if they set any.
ResourcesFilter checks the same limit and is in every policy, so a higher ratio here lets no further
host pass.
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.granular.group_fit import takes_from_root
from berth.scheduling.rules.quantities import CPUS, DISK, MEMORY, Quantity, Shortfall, say, say_free
from berth.scheduling.rules.rule import UNCOUNTED, Filter, Query, Reads, bound_by, unlimited
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Floats, Ints
from berth.tables.host.hosts import HostTable

# Counts above this are practically unlimited, and may not fit into integers.
_ENDLESS = 2.0**40


def build_core() -> Filter:
    """Build CoreFilter: the flavor's VCPUs fit within the host's ratio. It has no options."""
    return _ratio_filter("CoreFilter", CPUS)


def build_ram() -> Filter:
    """Build RamFilter: the flavor's memory fits within the host's ratio. It has no options."""
    return _ratio_filter("RamFilter", MEMORY)


def build_disk() -> Filter:
    """Build DiskFilter: the flavor's disks fit within the host's ratio. It has no options."""
    return _ratio_filter("DiskFilter", DISK)


def build_aggregate_core() -> Filter:
    """Build AggregateCoreFilter: the aggregates' key `cpu_allocation_ratio` sets the ratio."""
    return _ratio_filter("AggregateCoreFilter", CPUS, by_aggregate=True)


def build_aggregate_ram() -> Filter:
    """Build AggregateRamFilter: the aggregates' key `ram_allocation_ratio` sets the ratio."""
    return _ratio_filter("AggregateRamFilter", MEMORY, by_aggregate=True)


def build_aggregate_disk() -> Filter:
    """Build AggregateDiskFilter: the aggregates' key `disk_allocation_ratio` sets the ratio."""
    return _ratio_filter("AggregateDiskFilter", DISK, by_aggregate=True)


def _ratio_filter(name: str, quantity: Quantity, *, by_aggregate: bool = False) -> Filter:
    """Build the filter for one quantity.

    A host with unknown CPUs (a total of 0) passes the CPU filters, as in Nova; for any other
    quantity a total of 0 leaves no room. A host that already exceeds its limit is removed even for
    a flavor that requests nothing.

    Args:
        name: the filter's name.
        quantity: the quantity of the flavor that is compared with the host.
        by_aggregate: take the lowest ratio above 0 that the host's aggregates set under the
            quantity's key, and the host's own ratio only if they set none.
    """
    limit = _RatioLimit(quantity, by_aggregate=by_aggregate)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        asked = quantity.asked(query.request.flavor)
        short = Shortfall(name, quantity, asked, rows)
        return short.asking_for_less(hosts, limit.most(hosts, rows))

    return Filter(
        name=name,
        keep=limit.keep,
        why=limit.why,
        relax=relax,
        reads=Reads(
            request=quantity.reads,
            columns=("used", "aggregates") if by_aggregate else ("used",),
        ),
        bound=bound_by(limit.repeats),
        repeats=limit.repeats,
    )


class _RatioLimit:
    """The limit on one quantity, by the hosts' own ratios or by those of their aggregates."""

    def __init__(self, quantity: Quantity, *, by_aggregate: bool) -> None:
        self._quantity = quantity
        self._by_aggregate = by_aggregate

    def keep(self, hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        asked = self._quantity.asked(query.request.flavor)
        total, taken = self._total_and_taken(hosts, rows)
        # As in Nova, the amount in use is subtracted and not added to the request: in a sum with a
        # huge amount in use, a small request would be lost to rounding. A huge ratio overflows to
        # infinity, which compares as intended.
        with np.errstate(over="ignore"):
            free = total * self._ratio(hosts, rows) - taken
        kept: Mask = (total >= asked) & (free >= asked)
        if self._quantity is CPUS:
            kept |= total == 0
        return kept

    def why(self, hosts: HostTable, query: Query, row: int) -> str:
        here = np.array([row])
        asked = self._quantity.asked(query.request.flavor)
        total, taken = self._total_and_taken(hosts, here)
        what = f"{self._quantity.resource_class}: {say(asked)} requested"
        if total[0] < asked:
            return f"{what}, at most {total[0]:,} per instance"
        ratio = float(self._ratio(hosts, here)[0])
        free = say_free(float(total[0]) * ratio - float(taken[0]))
        return f"{what}, {free} of {total[0]:,} x {say(ratio)} ({self._origin(hosts, row)})"

    def repeats(self, hosts: HostTable, query: Query, rows: Rows) -> Ints:
        """See `rule.Repeats`."""
        amount = query.needs.amounts.get(self._quantity.resource_class, 0)
        asked = self._quantity.asked(query.request.flavor)
        total, taken = self._total_and_taken(hosts, rows)
        with np.errstate(over="ignore"):
            limit = total * self._ratio(hosts, rows)
            left = limit - taken - asked
            times = np.floor(left / amount) + 1 if amount else np.full(rows.size, np.inf)
        is_exempt = (total == 0) & (self._quantity is CPUS)
        counted = ~is_exempt & (times < _ENDLESS)
        counts = unlimited(hosts, query, rows)
        counts[counted] = times[counted]
        # Rounding of the quotient must not move the count away from the verdicts of `keep`.
        counts[counted & (limit - (taken + counts * amount) >= asked)] += 1
        counts[counted & (limit - (taken + (counts - 1) * amount) < asked)] -= 1
        return np.where(takes_from_root(hosts, query.needs, rows), counts, UNCOUNTED)

    def most(self, hosts: HostTable, rows: Rows) -> Floats:
        """Return the largest size that fits on each row; below 0 on a row above its limit."""
        total, taken = self._total_and_taken(hosts, rows)
        most: Floats = np.minimum(total, total * self._ratio(hosts, rows) - taken)
        return most

    def _total_and_taken(self, hosts: HostTable, rows: Selection) -> tuple[Ints, Ints]:
        columns = hosts.resource(self._quantity.resource_class)
        if columns is None:
            nothing = np.zeros(count_of(rows), dtype=np.int64)
            return nothing, nothing
        return columns.total[rows], columns.reserved[rows] + columns.used[rows]

    def _ratio(self, hosts: HostTable, rows: Selection) -> Floats:
        columns = hosts.resource(self._quantity.resource_class)
        own = np.zeros(count_of(rows)) if columns is None else columns.ratio[rows]
        if not self._by_aggregate:
            return own
        least = hosts.memberships.least_of(self._quantity.ratio_key, rows, above=0.0)
        return own if least is None else np.where(np.isnan(least), own, least)

    def _origin(self, hosts: HostTable, row: int) -> str:
        key = self._quantity.ratio_key
        giver = hosts.memberships.least_at(key, row, above=0.0) if self._by_aggregate else None
        return f"{key} of the host" if giver is None else f"{key} of aggregate {giver.name}"
