"""HypervisorVersionWeigher: the version of the host's hypervisor, as a number.

Its share is version / (version + scale): 1/2 at `scale`, which stands for 10.0.0.
"""

import numpy as np

from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.scheduling.rules.shares import check_scale, filled
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "HypervisorVersionWeigher"


def build(*, multiplier: float = 1.0, scale: float = 10_000_000.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7).

    Under Nova's normalisation the newest version weighs as much as all free memory, however
    near the oldest is; give a small multiplier, so that it only breaks ties.

    Args:
        multiplier: above 0 prefers newer hypervisors.
        scale: version at which the share is 1/2, counted as the hosts report it.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        return filled(hosts.hypervisor_version[rows], scale)

    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=(), columns=("host",)),
        multiplier=multiplier,
        multiplier_key="hypervisor_version_weight_multiplier",
        share=share,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    return hosts.hypervisor_version[rows].astype(np.float64)
