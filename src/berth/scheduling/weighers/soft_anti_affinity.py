"""ServerGroupSoftAntiAffinityWeigher: the fewer members of the group on a host, the better.

Its share is 1 / (members + 1): 1 without a member, 1/2 with one, ever nearer to 0.
"""

from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.scheduling.rules.shares import filled
from berth.tables.columnar.bitsets import Selection, spread
from berth.tables.host.hosts import HostTable

NAME = "ServerGroupSoftAntiAffinityWeigher"


def build(*, multiplier: float = 1.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7); it counts under the policy soft-anti-affinity.

    Args:
        multiplier: how much being apart weighs beside free resources.
    """
    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=("group",), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="soft_anti_affinity_weight_multiplier",
        share=_share,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    group = query.group
    if group is None or group.policy is not GroupPolicy.SOFT_ANTI_AFFINITY:
        return None
    return 0 - spread(hosts.occupants.group_rows(group.uuid), rows)


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    raw = _raw(hosts, query, rows)
    return None if raw is None else 1.0 - filled(0 - raw, 1.0)
