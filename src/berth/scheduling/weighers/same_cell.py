"""CrossCellWeigher: hosts of the cell that a moved instance comes from, before all others.

Its share is 1 in that cell and 0 elsewhere.
"""

import numpy as np

from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "CrossCellWeigher"


def build(*, multiplier: float = 1_000_000.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7): 1 in the source cell, -1 elsewhere.

    It has nothing to say of requests that are no move across cells: those without `source_cell`.

    Args:
        multiplier: how much staying in the cell weighs beside free resources.
    """
    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=("source_cell",), columns=("host",)),
        multiplier=multiplier,
        multiplier_key="cross_cell_move_weight_multiplier",
        share=_share,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    inside = _share(hosts, query, rows)
    return None if inside is None else 2.0 * inside - 1.0


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    cell = query.request.source_cell
    return hosts.in_cell(cell, rows).astype(np.float64) if cell else None
