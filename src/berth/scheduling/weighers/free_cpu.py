"""CPUWeigher: CPUs that are free, counting the allocation ratio.

Its share is free / (total x ratio - reserved): 0 for a host without CPUs or with none left.
"""

import numpy as np

from berth.domain.inventory.resources import VCPU, check_name
from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher, always
from berth.scheduling.rules.shares import part
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "CPUWeigher"


def build(*, multiplier: float = 1.0, resource_class: str = VCPU) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7): total x ratio - reserved - used.

    Args:
        multiplier: above 0 spreads, below 0 packs.
        resource_class: the class that counts processors, for fleets that count them otherwise
            (in thousandths, say).
    """
    check_name(resource_class, "resource_class")

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        columns = hosts.resource(resource_class)
        if columns is None:
            return np.zeros(count_of(rows), dtype=np.float64)
        return columns.ratio_free[rows]

    def raw_of_one(hosts: HostTable, query: Query) -> ReadOne:
        columns = hosts.resource(resource_class)
        return always(0.0) if columns is None else columns.ratio_free.item

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        columns = hosts.resource(resource_class)
        if columns is None:
            return np.zeros(count_of(rows), dtype=np.float64)
        whole = columns.total[rows] * columns.ratio[rows] - columns.reserved[rows]
        return part(columns.ratio_free[rows], whole)

    return Weigher(
        name=NAME,
        raw=raw,
        reads=Reads(request=(), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        multiplier_key="cpu_weight_multiplier",
        share=share,
        raw_of_one=raw_of_one,
    )
