"""RetryFilter: no build of this request has failed on the host."""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of, is_row
from berth.tables.host.hosts import HostTable

NAME = "RetryFilter"


def build() -> Filter:
    """Build the filter; it has no options (nova-behaviour.md 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("retried",), columns=("host",)),
        once_per_request=True,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    if not query.request.retried:
        return None
    kept = np.ones(count_of(rows), dtype=np.bool_)
    for name, node in query.request.retried:
        for row in hosts.host_names.of_name(name):
            # Only the node where the build failed is removed, so the host's other nodes are tried.
            if hosts.node(row) == node:
                kept &= ~is_row(row, rows)
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    return "a build of this request failed there"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, "retried", "the exclusion of hosts where a build failed", hosts, rows)
