"""IsolatedAggregatesFilter: the host is in no aggregate kept for a trait that nobody asks for.

Nova's pre-filter `isolate_aggregates` (nova-behaviour.md 2.8): an aggregate with the metadata
`trait:X=required` takes only requests that require X.
"""

from collections.abc import Mapping, Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "IsolatedAggregatesFilter"
_SCOPE = "trait:"
_REQUIRED = frozenset({"required"})


def build(*, enable_isolated_aggregate_filtering: bool = True) -> Filter:
    """Make the filter.

    Args:
        enable_isolated_aggregate_filtering: False switches it off.
    """

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not enable_isolated_aggregate_filtering:
            return None
        closed = {number for ids in _closed(hosts, query).values() for number in ids}
        return ~hosts.memberships.has_any(closed, rows)

    return Filter(
        name=NAME,
        keep=keep,
        why=_why,
        relax=_relax,
        reads=Reads(
            request=("needs.traits_required", "needs.groups"),
            columns=("aggregates",),
        ),
        once_per_request=True,
        options={"enable_isolated_aggregate_filtering": enable_isolated_aggregate_filtering},
    )


def _closed(hosts: HostTable, query: Query) -> Mapping[str, frozenset[int]]:
    """Return the aggregates that are kept for traits which the request does not require."""
    needs = query.needs
    mine = needs.traits_required.union(*(group.traits_required for group in needs.groups))
    keys = (key for key in hosts.memberships.by_key if key.startswith(_SCOPE))
    return {
        key: frozenset(
            number
            for number, words in hosts.memberships.with_key(key).items()
            if words == _REQUIRED
        )
        for key in keys
        if key.removeprefix(_SCOPE) not in mine
    }


def _why(hosts: HostTable, query: Query, row: int) -> str:
    here = hosts.memberships.by_row.get(row)
    kept_for = [
        f"{hosts.aggregates[number].name} is kept for {key.removeprefix(_SCOPE)}"
        for key, ids in sorted(_closed(hosts, query).items())
        for number in sorted(ids & here)
    ]
    return f"{', '.join(kept_for)}, which the request does not require"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, "aggregates", "keeping aggregates for traits", hosts, rows)
