"""AggregateTypeAffinityFilter: the host's aggregates are kept for no other flavor.

The metadata key `instance_type` lists names of flavors. A host of which some aggregate has it
is for those flavors alone; any other host is open to all.
"""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.admission import admits, listed
from berth.scheduling.rules.rule import Filter, Query, Reads, count_hosts, example_names
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "AggregateTypeAffinityFilter"
_KEYS = ("instance_type",)


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("flavor.name",), columns=("aggregates",)),
        once_per_request=True,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    return admits(hosts, _KEYS, query.request.flavor.name, rows)


def _why(hosts: HostTable, query: Query, row: int) -> str:
    flavor = query.request.flavor.name
    return f"it is kept for the flavors {listed(hosts, _KEYS, row)}, not for {flavor}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    # It names no flavor, since one may be private and the owner of the request reads it.
    return [
        Relaxation(
            filter=NAME,
            subject="flavor",
            text=f"a flavor that hosts are kept for: {count_hosts(rows.size)}",
            hosts=int(rows.size),
            examples=example_names(hosts, rows),
        )
    ]
