"""IoOpsWeigher: instances that are being built on the host.

Its share is builds / (builds + scale): 1/2 at `scale` builds.
"""

import numpy as np

from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher
from berth.scheduling.rules.shares import check_scale, filled, filled_by
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "IoOpsWeigher"


def build(*, multiplier: float = -1.0, scale: float = 8.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7).

    Args:
        multiplier: below 0 prefers hosts that are busy with fewer builds.
        scale: builds at which the share is 1/2; Nova's IoOpsFilter allows 8.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        return filled(hosts.num_io_ops[rows], scale)

    def share_of_one(hosts: HostTable, query: Query) -> ReadOne:
        return lambda row: filled_by(hosts.num_io_ops.item(row), scale)

    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=(), columns=("instances",)),
        multiplier=multiplier,
        floor=0.0,
        multiplier_key="io_ops_weight_multiplier",
        share=share,
        raw_of_one=_raw_of_one,
        share_of_one=share_of_one,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    return hosts.num_io_ops[rows].astype(np.float64)


def _raw_of_one(hosts: HostTable, query: Query) -> ReadOne:
    return lambda row: float(hosts.num_io_ops.item(row))
