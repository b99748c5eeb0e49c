"""Pairs of changes, for requests that no single change would make fit (nova-behaviour.md 7, #1).

A host that exactly two filters remove would pass after one change for each filter. Each of the two
filters names the hosts for which its change is smallest. Of these hosts, the result names the one
with the smallest two changes together, so both changes apply to the same host.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.evaluation.guarded_rules import GuardedRules
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.columnar.bitsets import Mask, Rows

# At most this many pairs of filters are reported, those that remove the most hosts first.
_PAIRS_MAX = 3

# The size of a change without an amount. A change of an amount has a size of at most 1, so it is
# preferred.
_BEYOND = 2.0


@dataclass(frozen=True, slots=True)
class _PairedChange:
    """A host that two filters remove, and the change that each of them proposes for it.

    `near` says for each filter whether the host is among the nearest for that filter.
    """

    row: int
    changes: tuple[Relaxation, ...]
    near: tuple[bool, ...]


def proposals_in_pairs(
    rules: GuardedRules,
    query: Query,
    filters: Sequence[Filter],
    verdicts: Sequence[Mask],
    allowed: Rows,
) -> Iterator[tuple[Relaxation, ...]]:
    """Yield a few proposals of changes that together may make the request fit.

    A proposal for a host that one filter removes for several reasons, or that two filters remove,
    has at least two changes. Whether they work together must be checked.

    Args:
        rules: calls the filters on the table.
        query: the query of the instance that found no host.
        filters: the filters that ran.
        verdicts: (K,) for each filter, True for allowed hosts that pass it.
        allowed: K rows, the hosts that the request allows by name.
    """
    failed = np.sum([~verdict for verdict in verdicts], axis=0)
    for rule, lacks in zip(filters, verdicts, strict=True):
        rows = allowed[~lacks & (failed == 1)]
        for change in rules.relax(rule, query, rows):
            if change.parts:
                yield change.parts
    twice = failed == 2  # noqa: PLR2004 - a pair
    found: list[tuple[Filter, Filter, Rows]] = []
    for (one, lacks), (other, also) in combinations(zip(filters, verdicts, strict=True), 2):
        rows = allowed[twice & ~lacks & ~also]
        if rows.size:
            found.append((one, other, rows))
    # Only the pairs that remove the most hosts are evaluated, because an evaluation calls `relax`
    # of both filters for every nearest host.
    found.sort(key=lambda pair: -pair[2].size)
    for one, other, unsorted in found[:_PAIRS_MAX]:
        rows = unsorted[rules.hosts.rank[unsorted].argsort()]
        nearest = _nearest(query, list(_offers(rules, query, (one, other), rows)))
        if nearest is not None:
            yield _merged(part for change in nearest.changes for part in change.parts or (change,))


def _merged(parts: Iterable[Relaxation]) -> tuple[Relaxation, ...]:
    """Return changes without those that a larger reduction of the same amount includes."""
    found: dict[str, Relaxation] = {}
    for part in parts:
        known = found.get(part.subject)
        if known is None or abs(part.change or 0) > abs(known.change or 0):
            found[part.subject] = part
    return tuple(found.values())


def _offers(
    rules: GuardedRules, query: Query, pair: tuple[Filter, Filter], rows: Rows
) -> Iterator[_PairedChange]:
    """Yield the changes for each host that is nearest for either filter, sorted by name."""
    near = [_near(rules, query, rule, rows) for rule in pair]
    found = np.array(sorted(near[0] | near[1]), dtype=np.intp)
    for row in found[rules.hosts.rank[found].argsort()].tolist():
        each = [rules.relax(rule, query, np.array([row])) for rule in pair]
        if all(each):
            changes = tuple(changes[0] for changes in each)
            yield _PairedChange(row, changes, tuple(row in rows_near for rows_near in near))


def _near(rules: GuardedRules, query: Query, rule: Filter, rows: Rows) -> frozenset[int]:
    """Return the few rows that are nearest for a filter; the first row if it names none."""
    names = {name for change in rules.relax(rule, query, rows) for name in change.examples}
    # Relaxations name hosts and not rows, so all nodes of a named host are included.
    named = [row for name in names for row in rules.hosts.host_names.of_name(name)]
    found = rows[np.isin(rows, named)] if named else rows[:1]
    return frozenset(found.tolist() or rows[:1].tolist())


def _nearest(query: Query, offers: Sequence[_PairedChange]) -> _PairedChange | None:
    """Return the host with the smallest changes, or None if there is no host.

    Of hosts with equally small changes, one that the filters name as nearest is preferred, then the
    first by name. A filter that proposes the same change for all hosts does not count here.
    """
    if not offers:
        return None
    greatest: dict[str, float] = {}
    for change in (change for offer in offers for change in offer.changes):
        if change.change is not None:
            most = max(greatest.get(change.subject, 1.0), abs(change.change))
            greatest[change.subject] = most
    greatest |= {name: float(amount) for name, amount in query.needs.amounts.items()}
    texts_by_rule = zip(*((one.what for one in offer.changes) for offer in offers), strict=True)
    tells_apart = [len(set(texts)) > 1 for texts in texts_by_rule]

    def distance(offer: _PairedChange) -> tuple[float, int]:
        near = zip(tells_apart, offer.near, strict=True)
        return _size(offer, greatest), -sum(counts and is_near for counts, is_near in near)

    return min(offers, key=distance)


def _size(offer: _PairedChange, greatest: Mapping[str, float]) -> float:
    """Return the size of the two changes together.

    Amounts in different units cannot be added, so each is measured as a fraction of the requested
    amount, or of the greatest change of its kind.
    """
    return sum(
        _BEYOND if one.change is None else abs(one.change) / greatest[one.subject]
        for one in offer.changes
    )
