"""NumInstancesWeigher and IoOpsWeigher: the instances on a host, and those that load its disks.

The share is count / (count + scale): 1/2 at `scale`.
"""

from berth.scheduling.rules.measure import BoundMeasure, Rule, check_scale, filled
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.host.hosts import HostTable


def build_num_instances(*, multiplier: float = 0.0, scale: float = 50.0) -> Weigher:
    """Build NumInstancesWeigher: the number of instances on the host (nova-behaviour.md 2.7).

    Args:
        multiplier: above 0 packs instances, below 0 spreads them; 0 turns the weigher off except
            where the metadata of an aggregate turns it on.
        scale: the number of instances at which the share is 1/2; Nova's NumInstancesFilter allows
            50.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)
    return Weigher(
        name="NumInstancesWeigher",
        raw=Rule(_instances),
        reads=Reads(request=(), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="num_instances_weight_multiplier",
        share=Rule(_instances).then(lambda ops, count: filled(ops, count, scale)),
    )


def build_io_ops(*, multiplier: float = -1.0, scale: float = 8.0) -> Weigher:
    """Build IoOpsWeigher: the number of instances that load the host's disks.

    The weigher counts the same instances as IoOpsFilter (nova-behaviour.md 2.7, 5.3).

    Args:
        multiplier: below 0 prefers hosts with fewer such instances.
        scale: the number of such instances at which the share is 1/2; Nova's IoOpsFilter allows 8.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)
    return Weigher(
        name="IoOpsWeigher",
        raw=Rule(_builds),
        reads=Reads(request=(), columns=("instances",)),
        multiplier=multiplier,
        floor=0.0,
        multiplier_key="io_ops_weight_multiplier",
        share=Rule(_builds).then(lambda ops, count: filled(ops, count, scale)),
    )


def _instances(hosts: HostTable, query: Query) -> BoundMeasure:
    return BoundMeasure((hosts.num_instances,))


def _builds(hosts: HostTable, query: Query) -> BoundMeasure:
    return BoundMeasure((hosts.num_io_ops,))
