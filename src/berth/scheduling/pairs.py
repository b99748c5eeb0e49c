"""Pairs: what would have to change when no single change is enough (nova.md 7, #1).

A host that exactly two filters remove can be won by what both of them say. Of each pair of
filters the host is named that the first filter finds nearest; what the two say of that one host
is true together.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from berth.domain.decision import Relaxation
from berth.scheduling.rule import Filter, Query, count_hosts, example_names
from berth.tables.bitsets import Mask, Rows
from berth.tables.hosts import HostTable

_PAIRS_MAX = 3
"""Pairs that are told, those that most hosts lack first."""


def relaxations_in_pairs(
    hosts: HostTable,
    query: Query,
    filters: Sequence[Filter],
    verdicts: Sequence[Mask],
    allowed: Mask,
) -> list[Relaxation]:
    """Say which two changes together would let the request fit.

    Args:
        hosts: the table.
        query: the instance that found no host.
        filters: those that were asked.
        verdicts: of each filter, (N,).
        allowed: (N,) hosts that the request allows by name.
    """
    failed = np.zeros(len(hosts), dtype=np.int64)
    for verdict in verdicts:
        failed += ~verdict
    twice = allowed & (failed == 2)  # noqa: PLR2004 - a pair
    if not twice.any():
        return []
    found: list[tuple[Filter, Filter, Rows]] = []
    for (one, lacks), (other, also) in combinations(zip(filters, verdicts, strict=True), 2):
        rows = np.flatnonzero(twice & ~lacks & ~also)
        if rows.size:
            found.append((one, other, rows))
    found.sort(key=lambda pair: -pair[2].size)
    return list(_told(hosts, query, found[:_PAIRS_MAX]))


def _told(
    hosts: HostTable, query: Query, pairs: Sequence[tuple[Filter, Filter, Rows]]
) -> Iterator[Relaxation]:
    for one, other, unsorted in pairs:
        rows = unsorted[hosts.rank[unsorted].argsort()]
        nearest = _nearest(hosts, one.relax(hosts, query, rows), rows)
        changes = [rule.relax(hosts, query, nearest) for rule in (one, other)]
        if not all(changes):
            continue
        parts = tuple(change[0] for change in changes)
        both = " and ".join(map(_what, parts))
        yield Relaxation(
            filter=" + ".join(part.filter for part in parts),
            subject=", ".join(part.subject for part in parts),
            text=f"{both}: {count_hosts(1)}, of {rows.size:,} that lack both",
            hosts=1,
            examples=example_names(hosts, nearest),
            parts=parts,
        )


def _nearest(hosts: HostTable, said: Sequence[Relaxation], rows: Rows) -> Rows:
    """Return the row of the first host that a filter would win most easily."""
    wanted = next((name for change in said for name in change.examples), None)
    for row in rows.tolist():
        if hosts.name(row) == wanted:
            return np.array([row])
    return rows[:1]


def _what(change: Relaxation) -> str:
    """Return the change without the number of hosts that it wins."""
    return change.text.rpartition(": ")[0] or change.text
