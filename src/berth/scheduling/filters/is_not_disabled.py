"""ComputeStatusFilter: the host does not have the trait COMPUTE_STATUS_DISABLED.

The filter does what Nova's pre-filter `compute_status_filter` does (nova-behaviour.md 2.8), for
fleets whose traits come from Placement. Hosts of Berth's own agents never have the trait:
ComputeFilter checks whether their service is disabled.
"""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "ComputeStatusFilter"
_TRAIT = "COMPUTE_STATUS_DISABLED"


def build() -> Filter:
    """Build the filter; it has no options."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=(), columns=("traits",)),
        once_per_request=True,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    return ~hosts.traits.has(_TRAIT, rows)


def _why(hosts: HostTable, query: Query, row: int) -> str:
    return f"it has the trait {_TRAIT}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, _TRAIT, f"the trait {_TRAIT} on hosts", hosts, rows)
