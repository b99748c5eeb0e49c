"""NumInstancesWeigher: instances that are on the host.

Its share is instances / (instances + scale): 1/2 at `scale` instances.
"""

import numpy as np

from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher
from berth.scheduling.rules.shares import check_scale, filled, filled_by
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "NumInstancesWeigher"


def build(*, multiplier: float = 0.0, scale: float = 50.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7).

    Args:
        multiplier: above 0 packs, below 0 spreads; 0 leaves it to aggregates.
        scale: instances at which the share is 1/2; Nova's NumInstancesFilter allows 50.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        return filled(hosts.num_instances[rows], scale)

    def share_of_one(hosts: HostTable, query: Query) -> ReadOne:
        return lambda row: filled_by(hosts.num_instances.item(row), scale)

    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=(), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="num_instances_weight_multiplier",
        share=share,
        raw_of_one=_raw_of_one,
        share_of_one=share_of_one,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    return hosts.num_instances[rows].astype(np.float64)


def _raw_of_one(hosts: HostTable, query: Query) -> ReadOne:
    return lambda row: float(hosts.num_instances.item(row))
