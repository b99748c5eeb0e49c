"""RAMWeigher: physical memory that is free, in MB.

Its share is free / (total - reserved): 0 for a host without memory or with none left.
"""

import numpy as np

from berth.domain.inventory.resources import MEMORY_MB
from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher, always
from berth.scheduling.rules.shares import part
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "RAMWeigher"


def build(*, multiplier: float = 1.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7).

    The value is total - reserved - used, without the ratio, so a host that is overcommitted
    counts as having none.

    Args:
        multiplier: above 0 spreads, below 0 packs.
    """
    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=(), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        multiplier_key="ram_weight_multiplier",
        share=_share,
        raw_of_one=_raw_of_one,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    columns = hosts.resource(MEMORY_MB)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.float64)
    return columns.physical_free[rows].astype(np.float64)


def _raw_of_one(hosts: HostTable, query: Query) -> ReadOne:
    columns = hosts.resource(MEMORY_MB)
    if columns is None:
        return always(0.0)
    free = columns.physical_free
    return lambda row: float(free.item(row))


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    columns = hosts.resource(MEMORY_MB)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.float64)
    return part(columns.physical_free[rows], columns.total[rows] - columns.reserved[rows])
