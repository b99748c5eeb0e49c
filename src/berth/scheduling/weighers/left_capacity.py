"""LeftCapacityWeigher: the share of a host's own capacity that is left with the instance on it.

It is the mean over the resource classes that the instance asks for, so a small host and a large
one that are equally full count alike, and no class counts twice for having larger numbers. A class
that the host does not have counts as used up.
"""

from collections.abc import Mapping

import numpy as np

from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher, by_array
from berth.scheduling.rules.whole_hosts import FEW, WholeHosts, asked_of
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "LeftCapacityWeigher"


def build(*, multiplier: float = 1.0) -> Weigher:
    """Make the weigher; it is Berth's own.

    Args:
        multiplier: above 0 spreads, below 0 packs (best fit over several resources).
    """
    return Weigher(
        name=NAME,
        raw=_share,
        reads=Reads(request=("needs.amounts", "needs.groups"), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        multiplier_key="left_capacity_weight_multiplier",
        share=_share,
        raw_of_one=_share_of_one,
        share_of_one=_share_of_one,
    )


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    asked = asked_of(query.needs)
    if not asked:
        return None
    table = WholeHosts(hosts, rows)
    amounts = {name: asked[name] for name in table.classes if name in asked}
    weigh = _of_few if count_of(rows) <= FEW else _of_many
    return weigh(table, amounts, count_of(rows)) / len(asked)


def _share_of_one(hosts: HostTable, query: Query) -> ReadOne:
    asked = asked_of(query.needs)
    if len(hosts.trees) or not asked:
        return by_array(_share, hosts, query)
    asks = [(columns, asked[name]) for name, columns in hosts.resources() if name in asked]

    def read(row: int) -> float:
        left = 0.0
        for columns, amount in asks:
            capacity = columns.capacity.item(row)
            if capacity > 0:
                share = (capacity - columns.used.item(row)) / capacity - amount / capacity
                if share > 0:
                    left += share
        return left / len(asked)

    return read


def _of_many(table: WholeHosts, amounts: Mapping[str, int], count: int) -> Scores:
    """Sum what is left of classes on so many hosts, as shares."""
    left = np.zeros(count)
    for name, amount in amounts.items():
        whole = table.of(name)
        share = whole.free_share()
        share -= whole.share(amount)
        np.maximum(share, 0.0, out=share)
        if whole.lacking is not None:
            share[whole.lacking] = 0.0
        left += share
    return left


def _of_few(table: WholeHosts, amounts: Mapping[str, int], count: int) -> Scores:
    """Return what `_of_many` does, operation by operation."""
    left = [0.0] * count
    for name, amount in amounts.items():
        for row, (free, capacity) in enumerate(table.pairs(name)):
            share = free / capacity - amount / capacity if capacity > 0 else 0.0
            if share > 0:
                left[row] += share
    return np.array(left, dtype=np.float64)
