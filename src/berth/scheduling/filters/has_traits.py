"""TraitsFilter: the host has the required traits and no forbidden trait.

A flavor may also require any one of a set of traits. Required traits, and those of a set, may be on
a child provider; forbidden traits are looked up on the root provider only.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "TraitsFilter"


def build() -> Filter:
    """Build the filter; it has no options (nova-behaviour.md 2.8, 6.4)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(
            request=("needs.traits_required", "needs.traits_forbidden", "needs.traits_any"),
            columns=("traits",),
        ),
        once_per_request=True,
        # Forcing a host does not give it a missing trait.
        on_forced=True,
    )


def _demands(hosts: HostTable, query: Query, rows: Selection) -> Iterator[tuple[str, Mask]]:
    """Yield each demand as text, with the rows that meet it."""
    for name in sorted(query.needs.traits_required):
        yield f"trait {name}", _in_tree(hosts, {name}, rows)
    for name in sorted(query.needs.traits_forbidden):
        yield f"the ban on trait {name}", ~hosts.traits.has(name, rows)
    for names in query.needs.traits_any:
        yield f"one of the traits {', '.join(sorted(names))}", _in_tree(hosts, names, rows)


def _in_tree(hosts: HostTable, names: AbstractSet[str], rows: Selection) -> Mask:
    """Return, for each row, whether its root or a child has one of the traits.

    GranularGroupsFilter checks whether that child also provides resources.
    """
    found = hosts.traits.has_any(names, rows)
    if len(hosts.trees):
        branches = hosts.trees.branches(rows)
        found[branches.owners[hosts.trees.traits.has_any(names, branches.slots)]] = True
    return found


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    kept: Mask | None = None
    for _, meets in _demands(hosts, query, rows):
        kept = meets if kept is None else kept & meets
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    here = np.array([row])
    unmet = [what for what, meets in _demands(hosts, query, here) if not meets[0]]
    return f"it does not meet {' and '.join(unmet)}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    demands = list(_demands(hosts, query, rows))
    # A relaxation is a single change, so it helps only hosts that fail no other demand.
    failed = np.sum([~meets for _, meets in demands], axis=0)
    found: list[Relaxation] = []
    for what, meets in demands:
        winners = rows[~meets & (failed == 1)]
        found.extend(without(NAME, what, what, hosts, winners))
    return found
