"""QuietHostFilter: hosts with few instances only."""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "QuietHostFilter"


def build(*, instances_max: int = 10) -> Filter:
    """Make the filter.

    Args:
        instances_max: instances that a host may have, with the one that is asked for.

    Raises:
        ValueError: no host could ever pass.
    """
    if instances_max < 1:
        raise ValueError(f"instances_max: {instances_max} must be at least 1")

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        kept: Mask = hosts.num_instances[rows] < instances_max
        return kept

    def why(hosts: HostTable, query: Query, row: int) -> str:
        return f"it has {hosts.num_instances[row]} of at most {instances_max} instances"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        return without(NAME, "instances_max", "the limit on instances", hosts, rows)

    reads = Reads(request=(), columns=("instances",))
    return Filter(NAME, keep, why, relax, reads)
