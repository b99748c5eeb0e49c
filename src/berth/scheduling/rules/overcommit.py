"""Overcommit: what a flavor asks for fits under physical amount times allocation ratio.

This is the law of Nova's filters for CPUs, memory and disk, and of those that take the ratio
from aggregates (nova-behaviour.md 2.6, 3): no instance gets more than the host physically has,
and all
together at most so many times as much; what is reserved counts as used. Unlike Nova's, they set
no limits for the host to check: the ledger checks its own, by the ratio that the host has, which
is the lowest of its aggregates where these have one. ResourcesFilter asks for that, too, and is
in every policy: a host that one of these filters would let take more is removed all the same.
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.quantities import CPUS, Quantity, Shortfall, say
from berth.scheduling.rules.rule import Filter, Query, Reads
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Floats, Ints
from berth.tables.host.hosts import HostTable


def overcommit_filter(name: str, quantity: Quantity, *, by_aggregate: bool = False) -> Filter:
    """Make the filter for one quantity.

    A host whose CPUs are unknown (a total of 0) passes, as in Nova; with any other quantity it
    has room for nothing. A flavor that asks for nothing is refused by a host that is above its
    limit already.

    Args:
        name: the filter's.
        quantity: what of the flavor is held against what of the host.
        by_aggregate: take the least ratio that the host's aggregates give under the key of the
            quantity, where there is one above 0, instead of the host's own.
    """
    law = _Law(quantity, by_aggregate=by_aggregate)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        asked = quantity.asked(query.request.flavor)
        short = Shortfall(name, quantity, asked, rows)
        return short.asking_for_less(hosts, law.most(hosts, rows))

    return Filter(
        name=name,
        keep=law.keep,
        why=law.why,
        relax=relax,
        reads=Reads(
            request=quantity.reads,
            columns=("used", "aggregates") if by_aggregate else ("used",),
        ),
    )


class _Law:
    """One quantity against one kind of ratio."""

    def __init__(self, quantity: Quantity, *, by_aggregate: bool) -> None:
        self._quantity = quantity
        self._by_aggregate = by_aggregate

    def keep(self, hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        asked = self._quantity.asked(query.request.flavor)
        total, taken = self._total_and_taken(hosts, rows)
        # In this order, as Nova does: beside a huge amount in use a small one would be lost. Of a
        # ratio that is huge itself there is no end of what is free.
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
        what = f"{self._quantity.resource_class}: {say(asked)} asked"
        if total[0] < asked:
            return f"{what}, {total[0]:,} at most at once"
        ratio = float(self._ratio(hosts, here)[0])
        free = say(float(total[0]) * ratio - float(taken[0]))
        return f"{what}, {free} free of {total[0]:,} x {say(ratio)} ({self._origin(hosts, row)})"

    def most(self, hosts: HostTable, rows: Rows) -> Floats:
        """Return what one instance could get of each row, below 0 when that is above its limit."""
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
