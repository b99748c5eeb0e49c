"""The hard policies of server groups, which no placement may violate.

If the scheduler's policy lacks the filter of a group's policy, requests for the group are refused,
as in Nova (UnsupportedPolicyException). Otherwise, the plan is checked again before it is claimed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from berth.domain.compute.decision import GROUP_BROKEN, Placement, Refusal, RefusalCode
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.filters.server_groups import AFFINITY, ANTI_AFFINITY
from berth.scheduling.rules.split_groups import is_split
from berth.tables.host.hosts import HostTable

GROUP_FILTERS: Final[Mapping[GroupPolicy, str]] = {
    GroupPolicy.AFFINITY: AFFINITY,
    GroupPolicy.ANTI_AFFINITY: ANTI_AFFINITY,
}
"""The name of the filter that enforces each hard policy; the soft policies have weighers."""

# Messages do not name the host, because the owner of the server reads them and must not learn it.
_CHOSEN: Final = "the host that was named or chosen"


def plan_with_group_policy(
    hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
) -> Plan:
    """Return the driver's plan for a request, or a refusal because of its server group's policy.

    The refusal says that the policy is not supported or that the driver's plan would violate it.

    Args:
        hosts: the table, which is unchanged when the call returns.
        request: the request.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.
        seed: the seed of every random choice.

    Raises:
        InvalidInputError: the flavor, the image or a hint is invalid, or the policy lacks a filter
            that the request requires.
    """
    refusal = None if request.group_uuid is None else unsupported_group(hosts, request, policy)
    if refusal is not None:
        return Plan(request.needs.amounts, refusal=refusal)
    plan = policy.driver.plan(hosts, request, policy, now_s=now_s, seed=seed)
    if request.group_uuid is None or plan.refusal is not None:
        return plan
    broken = group_violation(hosts, request.group_uuid, plan.placements)
    if broken is None:
        return plan
    message = f"{GROUP_BROKEN.removesuffix('.')}: {broken}"
    refusal = _refusal(hosts, request, RefusalCode.GROUP_POLICY, message, GROUP_BROKEN)
    return Plan(plan.amounts, filters=plan.filters, refusal=refusal)


def group_violation(
    hosts: HostTable, group_uuid: str, placements: Sequence[Placement]
) -> str | None:
    """Return the way in which placements violate their group's hard policy; None if they do not.

    This is the last check before a claim: filters skip forced hosts, a driver may be a plugin, and
    an alternate was chosen some time ago. Nova makes the same check on the chosen host
    (nova-behaviour.md 5.2). The claim carries the group's guard in addition, because another
    scheduler may place a member in the meantime.

    Args:
        hosts: the table, on which instances that move must be in no group.
        group_uuid: the server group.
        placements: the placements of members of the group, all of one request.
    """
    group = hosts.server_groups.get(group_uuid)
    if group is None or group.policy not in GROUP_FILTERS or not placements:
        return None
    # The counts are copied, because placements are added to them below.
    members = Counter(hosts.occupants.groups.rows(group_uuid))
    rows = {one.instance_uuid: hosts.row_of(one.provider_uuid) for one in placements}
    if group.policy is GroupPolicy.AFFINITY:
        return _apart(hosts, group, members, rows)
    for uuid, row in rows.items():
        here = hosts.occupants.by_uuid.get(uuid)
        if row is None or (here is not None and here.row == row):
            # An instance on an unknown host, or one that stays on its host, adds no member.
            continue
        # Instances of the same request count as members for each other.
        members[row] += 1
        if members[row] > group.max_server_per_host:
            most = group.max_server_per_host
            noun = "member" if most == 1 else "members"
            return f"{_CHOSEN} has {most} {noun} of the group; at most {most} may share a host."
    return None


def _apart(
    hosts: HostTable, group: ServerGroup, members: Counter[int], rows: Mapping[str, int | None]
) -> str | None:
    # Until the move ends, placing a member on either host may turn out to violate the policy.
    if is_split(hosts, group.uuid):
        return (
            "a member of the group is moving between two hosts and may end on either; retry when"
            " the move has ended."
        )
    if members:
        is_away = any(row is not None and row not in members for row in rows.values())
        return f"{_CHOSEN} has no member of the group." if is_away else None
    if hosts.orphans.has_member(group.uuid):
        return "a member of the group is on a host that is missing; retry when the host is back."
    return "the members would be on several hosts." if len(set(rows.values())) > 1 else None


def unsupported_group(hosts: HostTable, request: Request, policy: Policy) -> Refusal | None:
    """Return the refusal of a request whose group has a policy that no filter enforces, or None."""
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    keeper = None if group is None else GROUP_FILTERS.get(group.policy)
    if group is None or keeper is None:
        return None
    if any(rule.name == keeper for rule in policy.effective(request.operation).filters):
        return None
    return _refusal(
        hosts,
        request,
        RefusalCode.UNSUPPORTED_POLICY,
        f"The policy {group.policy} of the server group is not supported: {keeper} is not"
        " among the filters of the scheduler's policy. Add it there, or use another group.",
        f"The policy {group.policy} of the server group is not supported. Use another group.",
    )


def _refusal(
    hosts: HostTable, request: Request, code: RefusalCode, message: str, summary: str
) -> Refusal:
    return Refusal(
        code=code,
        message=message,
        placed=0,
        asked=len(request.instance_uuids),
        hosts_total=int(np.count_nonzero(hosts.alive)),
        summary=summary,
    )
