"""TypeAffinityFilter: the host is empty, or all its instances have the requested flavor.

Other instances of the request have that flavor as well, so placing them changes no verdict.
"""

from collections import Counter
from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, unlimited, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, spread
from berth.tables.host.hosts import HostTable

NAME = "TypeAffinityFilter"


def build() -> Filter:
    """Build the filter; it has no options (nova-behaviour.md 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("flavor.flavor_id",), columns=("instances",)),
        # Instances of the same flavor never change the verdict.
        repeats=unlimited,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    alike = hosts.occupants.flavor_rows(query.request.flavor.flavor_id)
    # Comparing two counts is cheaper than comparing the flavors of all instances on each row.
    kept: Mask = spread(alike, rows) == hosts.num_instances[rows]
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    mine = query.request.flavor.flavor_id
    found = (hosts.occupants.by_uuid.get(uuid) for uuid in hosts.occupants.on_row(row))
    flavors = Counter(one.resident.flavor_id for one in found if one is not None)
    others = ", ".join(
        f"{flavors[name]} of flavor {name}" for name in sorted(flavors.keys() - {mine})
    )
    return f"it has instances that are not of flavor {mine}: {others}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, "flavor", "keeping flavors apart", hosts, rows)
