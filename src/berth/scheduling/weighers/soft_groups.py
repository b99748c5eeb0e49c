"""The weighers for server groups with a soft policy: members of the request's group on the host.

Each weigher has a multiplier key of its own and applies only to groups with its policy, as in Nova
(nova-behaviour.md 2.7).
"""

from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.measure import BoundMeasure, Computed, Rule, filled
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.columnar.bitsets import spread
from berth.tables.host.hosts import HostTable


def build_affinity(*, multiplier: float = 1.0) -> Weigher:
    """Build ServerGroupSoftAffinityWeigher: the more members on a host, the better.

    The share is members / (members + 1): 0 without a member, 1/2 with one.

    Args:
        multiplier: the weight of keeping members together, relative to the other weighers.
    """
    members = _members_under(GroupPolicy.SOFT_AFFINITY)
    return Weigher(
        name="ServerGroupSoftAffinityWeigher",
        raw=members,
        reads=Reads(request=("group",), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="soft_affinity_weight_multiplier",
        share=members.then(lambda ops, count: filled(ops, count, 1.0)),
    )


def build_anti_affinity(*, multiplier: float = 1.0) -> Weigher:
    """Build ServerGroupSoftAntiAffinityWeigher: the fewer members on a host, the better.

    The share is 1 / (members + 1): 1 without a member, 1/2 with one.

    Args:
        multiplier: the weight of keeping members apart, relative to the other weighers.
    """
    members = _members_under(GroupPolicy.SOFT_ANTI_AFFINITY)
    return Weigher(
        name="ServerGroupSoftAntiAffinityWeigher",
        raw=members.then(lambda _, count: 0 - count),
        reads=Reads(request=("group",), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="soft_anti_affinity_weight_multiplier",
        share=members.then(lambda ops, count: 1.0 - filled(ops, count, 1.0)),
    )


def _members_under(policy: GroupPolicy) -> Rule:
    """Return the rule that counts members, for requests whose group has the policy."""

    def bind(hosts: HostTable, query: Query) -> BoundMeasure | None:
        group = query.group
        if group is None or group.policy is not policy:
            return None
        # The counts are looked up at each read: the table replaces them when a group empties.
        counts, uuid = hosts.occupants.groups.rows, group.uuid
        return BoundMeasure(
            (
                Computed(
                    lambda rows: spread(counts(uuid), rows),
                    lambda row: counts(uuid).get(row, 0),
                ),
            )
        )

    return Rule(bind)
