"""AvailabilityZoneFilter: the host is in the requested availability zone."""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "AvailabilityZoneFilter"


def build(*, default_availability_zone: str = "nova") -> Filter:
    """Build the filter (nova-behaviour.md 2.6).

    Args:
        default_availability_zone: the availability zone of hosts whose aggregates set none.
    """

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        asked = query.request.availability_zone
        if not asked:
            return None
        kept = hosts.zones.has(asked, rows)
        if asked == default_availability_zone:
            kept |= hosts.zones.is_empty(rows)
        return kept

    def why(hosts: HostTable, query: Query, row: int) -> str:
        mine = sorted(hosts.zones.get(row)) or [default_availability_zone]
        return f"it is in {', '.join(mine)}, not in {query.request.availability_zone}"

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=_relax,
        reads=Reads(request=("availability_zone",), columns=("aggregates",)),
        # Placements move no host to another availability zone.
        once_per_request=True,
        options={"default_availability_zone": default_availability_zone},
    )


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    asked = query.request.availability_zone or ""
    return without(NAME, asked, f"the availability zone {asked}", hosts, rows)
