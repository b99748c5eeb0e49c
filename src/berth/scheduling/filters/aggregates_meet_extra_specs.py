"""AggregateInstanceExtraSpecsFilter: the metadata of the host's aggregates meets the extra specs.

The filter reads specs whose key has no scope or the scope `aggregate_instance_extra_specs`; other
scopes belong to other rules. At least one aggregate of the host must have the key, and one of its
comma-separated values must match the requirement. As in Nova, the filter reads **every** key
without a scope, even one that was meant for another rule (nova-behaviour.md 2.6): use scopes, or do
not combine this filter with such rules.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.aggregates import listed
from berth.scheduling.rules.operators import flaw_of, matches
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "AggregateInstanceExtraSpecsFilter"
_SCOPE = "aggregate_instance_extra_specs"


def build() -> Filter:
    """Build the filter; it has no options (nova-behaviour.md 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("flavor.extra_specs",), columns=("aggregates",)),
        once_per_request=True,
    )


def _keys(query: Query) -> Iterator[tuple[str, str, str]]:
    """Yield each extra spec to be met: its name, the metadata key and the requirement."""
    for name, requirement in query.request.flavor.extra_specs.items():
        scope, colon, rest = name.partition(":")
        if not colon:
            yield name, name, requirement
        elif scope == _SCOPE:
            yield name, rest, requirement


def _meets(hosts: HostTable, key: str, requirement: str, rows: Selection) -> Mask:
    by_aggregate = hosts.memberships.with_key(key).items()
    meeting = [
        number
        for number, words in by_aggregate
        if any(matches(word, requirement) for word in words)
    ]
    return hosts.memberships.by_row.has_any(meeting, rows)


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    kept: Mask | None = None
    for _, key, requirement in _keys(query):
        meets = _meets(hosts, key, requirement, rows)
        kept = meets if kept is None else kept & meets
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    here = np.array([row])
    unmet = [
        f"{name}={requirement} ({flaw_of(requirement) or _had(hosts, key, row)})"
        for name, key, requirement in _keys(query)
        if not _meets(hosts, key, requirement, here)[0]
    ]
    return f"its aggregates do not meet {', '.join(unmet)}"


def _had(hosts: HostTable, key: str, row: int) -> str:
    return f"they have {listed(hosts, [key], row)}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    demands = [(name, _meets(hosts, key, text, rows)) for name, key, text in _keys(query)]
    # A relaxation is a single change, so it helps only hosts that fail no other demand.
    failed = np.sum([~meets for _, meets in demands], axis=0)
    found: list[Relaxation] = []
    for name, meets in demands:
        winners = rows[~meets & (failed == 1)]
        found.extend(without(NAME, name, f"the extra spec {name}", hosts, winners))
    return found
