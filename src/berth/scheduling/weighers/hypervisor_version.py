"""HypervisorVersionWeigher: the version of the host's hypervisor, as a number.

The share is version / (version + scale): 1/2 at `scale`, whose default means version 10.0.0.
"""

from berth.scheduling.rules.measure import BoundMeasure, Rule, check_scale, filled
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.host.hosts import HostTable

NAME = "HypervisorVersionWeigher"


def build(*, multiplier: float = 1.0, scale: float = 10_000_000.0) -> Weigher:
    """Build the weigher (nova-behaviour.md 2.7).

    Under Nova's normalisation the newest version has the same weight as the most free memory,
    however close the oldest version is. With a small multiplier, versions only break ties.

    Args:
        multiplier: above 0 prefers newer hypervisors.
        scale: the version at which the share is 1/2, in the number format that hosts report.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)
    return Weigher(
        name=NAME,
        raw=Rule(_version),
        reads=Reads(request=(), columns=("host",)),
        multiplier=multiplier,
        multiplier_key="hypervisor_version_weight_multiplier",
        share=Rule(_version).then(lambda ops, version: filled(ops, version, scale)),
    )


def _version(hosts: HostTable, query: Query) -> BoundMeasure:
    return BoundMeasure((hosts.hypervisor_version,))
