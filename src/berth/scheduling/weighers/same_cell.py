"""CrossCellWeigher: a moved instance prefers hosts in the cell that it comes from.

The share is 1 in that cell and 0 elsewhere.
"""

from berth.scheduling.rules.measure import BoundMeasure, Computed, Rule
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.host.hosts import HostTable

NAME = "CrossCellWeigher"


def build(*, multiplier: float = 1_000_000.0) -> Weigher:
    """Build the weigher (nova-behaviour.md 2.7): 1 in the source cell, -1 elsewhere.

    The weigher applies only to requests with a `source_cell`: moves that may leave the cell.

    Args:
        multiplier: the weight of staying in the cell, relative to the other weighers.
    """
    return Weigher(
        name=NAME,
        raw=Rule(_is_inside).then(lambda _, inside: 2.0 * inside - 1.0),
        reads=Reads(request=("source_cell",), columns=("host",)),
        multiplier=multiplier,
        multiplier_key="cross_cell_move_weight_multiplier",
        share=Rule(_is_inside),
    )


def _is_inside(hosts: HostTable, query: Query) -> BoundMeasure | None:
    cell = query.request.source_cell
    return BoundMeasure((Computed(lambda rows: hosts.in_cell(cell, rows)),)) if cell else None
