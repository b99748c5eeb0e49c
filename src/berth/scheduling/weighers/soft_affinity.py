"""ServerGroupSoftAffinityWeigher: members of the request's group that are on the host.

Its share is members / (members + 1): 0 without a member, 1/2 with one, ever nearer to 1.
"""

from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.scheduling.rules.shares import filled
from berth.tables.columnar.bitsets import Selection, spread
from berth.tables.host.hosts import HostTable

NAME = "ServerGroupSoftAffinityWeigher"


def build(*, multiplier: float = 1.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7); it counts under the policy soft-affinity.

    Args:
        multiplier: how much togetherness weighs beside free resources.
    """
    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=("group",), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="soft_affinity_weight_multiplier",
        share=_share,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    group = query.group
    if group is None or group.policy is not GroupPolicy.SOFT_AFFINITY:
        return None
    return spread(hosts.occupants.group_rows(group.uuid), rows)


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    members = _raw(hosts, query, rows)
    return None if members is None else filled(members, 1.0)
