"""DifferentHostFilter and SameHostFilter: hosts without, or with, instances that a hint names."""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.request import without_mark
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of, is_row
from berth.tables.host.hosts import HostTable


def build_different_host() -> Filter:
    """Build DifferentHostFilter: the host has no instance that the hint `different_host` names.

    The filter has no options (nova-behaviour.md 2.6).
    """
    return _hint_filter("DifferentHostFilter", "different_host", shares_host=False)


def build_same_host() -> Filter:
    """Build SameHostFilter: the host has at least one instance that the hint `same_host` names.

    The filter has no options (nova-behaviour.md 2.6).
    """
    return _hint_filter("SameHostFilter", "same_host", shares_host=True)


def _hint_filter(name: str, hint: str, *, shares_host: bool) -> Filter:
    """Build a filter that keeps the hosts of the hint's instances, or else all other hosts."""

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        named = query.request.hints.get(hint)
        if not named:
            return None
        has_some = np.zeros(count_of(rows), dtype=np.bool_)
        for uuid in named:
            occupant = hosts.occupants.by_uuid.get(uuid)
            # An unknown instance is on no host. It must neither fail the request nor match. The
            # same holds for one that the tenant may not see, whose id bears a mark.
            if occupant is not None:
                has_some |= is_row(occupant.row, rows)
        return has_some if shares_host else ~has_some

    def why(hosts: HostTable, query: Query, row: int) -> str:
        named = query.request.hints.get(hint, ())
        if shares_host:
            return f"it has none of {', '.join(map(without_mark, named))}"
        return f"it has {', '.join(sorted(hosts.occupants.on_row(row).intersection(named)))}"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        return without(name, hint, f"the hint {hint}", hosts, rows)

    return Filter(
        name=name,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=(f"hints.{hint}",), columns=("instances",)),
        once_per_request=True,
    )
