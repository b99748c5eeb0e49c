"""LeftCapacityWeigher: the share of a host's own capacity that is left with the instance on it.

It is the mean over the resource classes that the instance asks for, so a small host and a large
one that are equally full count alike, and no class counts twice for having larger numbers. A class
that the host does not have counts as used up.
"""

import numpy as np

from berth.scheduling.rule import Query, Reads, Scores, Weigher
from berth.scheduling.whole_hosts import WholeHosts, asked_of
from berth.tables.bitsets import Selection, count_of
from berth.tables.hosts import HostTable

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
    )


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    asked = asked_of(query.needs)
    if not asked:
        return None
    left = np.zeros(count_of(rows))
    table = WholeHosts(hosts, rows)
    for name in table.classes:
        if name in asked:
            whole = table.of(name)
            free, share = whole.shares(asked[name])
            left += np.where(whole.capacity > 0, np.maximum(free - share, 0.0), 0.0)
    return left / len(asked)
