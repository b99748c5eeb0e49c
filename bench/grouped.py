"""Warm decisions about members of a server group, on hosts in aggregates."""

from dataclasses import dataclass, replace
from pathlib import Path

from bench.alone import alone
from bench.cases import GroupedCases
from bench.desk import Desk
from bench.fleet import snapshot
from bench.timing import Times
from bench.workload import WarmDecisions
from berth.config.policy_file import load_policy
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Policy

_GROUP = ServerGroup("group", "group", GroupPolicy.SOFT_ANTI_AFFINITY, "project", "user")
_MULTIPLIER = {"cpu_weight_multiplier": "2.0"}


@dataclass(frozen=True, slots=True)
class GroupedTimes:
    """Times of warm decisions, without and with a soft anti-affinity group and aggregates."""

    hosts: int
    plain: Times
    group: Times
    aggregates: Times
    both: Times


def measure_grouped(policy_name: str, cases: GroupedCases) -> GroupedTimes:
    """Return the times, measured in a separate process."""
    return alone(_measure_named, policy_name, cases)


def _measure_named(policy_name: str, cases: GroupedCases) -> GroupedTimes:
    return measure(load_policy(Path(policy_name)), cases)


def measure(policy: Policy, cases: GroupedCases) -> GroupedTimes:
    """Return the four times; in each, as many instances are held as the group has members."""
    plain = snapshot(cases.hosts)
    names = [host.name for host in plain.hosts]
    aggregates = aggregates_of(names, cases)
    in_aggregates = replace(plain, aggregates=aggregates)

    def times(state: Snapshot, *, grouped: bool) -> Times:
        desk = Desk(replace(state, server_groups=(_GROUP,)), policy, held_max=cases.members)
        group_uuid = _GROUP.uuid if grouped else None
        return WarmDecisions(desk, group_uuid=group_uuid).times(cases.samples).decision

    return GroupedTimes(
        hosts=cases.hosts,
        plain=times(plain, grouped=False),
        group=times(plain, grouped=True),
        aggregates=times(in_aggregates, grouped=False),
        both=times(in_aggregates, grouped=True),
    )


def aggregates_of(names: list[str], cases: GroupedCases) -> tuple[Aggregate, ...]:
    """Return aggregates such that each host is in several; the first has a multiplier."""
    members: list[set[str]] = [set() for _ in range(cases.aggregates)]
    for index, name in enumerate(names):
        for step in range(cases.aggregates_a_host):
            members[(index + step * (1 + index // cases.aggregates)) % cases.aggregates].add(name)
    return tuple(
        Aggregate(
            aggregate_id=1 + index,
            uuid=f"aggregate-{index}",
            name=f"aggregate-{index}",
            hosts=frozenset(mine),
            metadata={} if index else _MULTIPLIER,
        )
        for index, mine in enumerate(members)
    )
