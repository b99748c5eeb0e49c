"""DifferentHostFilter: none of the named instances is on the host."""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of, is_row
from berth.tables.host.hosts import HostTable

NAME = "DifferentHostFilter"
_HINT = "different_host"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=(f"hints.{_HINT}",), columns=("instances",)),
        once_per_request=True,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    named = query.request.hints.get(_HINT)
    if not named:
        return None
    kept = np.ones(count_of(rows), dtype=np.bool_)
    for uuid in named:
        occupant = hosts.occupants.by_uuid.get(uuid)
        if occupant is not None:
            kept &= ~is_row(occupant.row, rows)
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    here = hosts.occupants.on_row(row).intersection(query.request.hints.get(_HINT, ()))
    return f"it has {', '.join(sorted(here))}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, _HINT, f"the hint {_HINT}", hosts, rows)
