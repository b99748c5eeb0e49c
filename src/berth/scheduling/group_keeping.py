"""Group keeping: a server of a group with a hard policy is refused where no filter keeps it.

Nova refuses it likewise, by the filters' names (UnsupportedPolicyException): placed as if it were
in no group, it would be where its owner has said that it must not be.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from berth.domain.decision import Refusal, RefusalCode
from berth.domain.request import Request
from berth.domain.server_group import GroupPolicy
from berth.scheduling.filters import group_affinity, group_anti_affinity
from berth.scheduling.policy import Plan, Policy
from berth.tables.hosts import HostTable

KEEPERS: Final[Mapping[GroupPolicy, str]] = {
    GroupPolicy.AFFINITY: group_affinity.NAME,
    GroupPolicy.ANTI_AFFINITY: group_anti_affinity.NAME,
}
"""The filter that keeps each of the hard policies; the soft ones only weigh."""


def plan_kept(
    hosts: HostTable, request: Request, policy: Policy, *, now_s: float, seed: int
) -> Plan:
    """Have the driver plan a request, unless its server group would not be kept.

    Args:
        hosts: the table; as it was when the call returns.
        request: what is asked.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.
        seed: of the only source of chance.

    Raises:
        InvalidInputError: flavor or image hold a spec that cannot be read.
    """
    refusal = None if request.group_uuid is None else unkept_group(hosts, request, policy)
    if refusal is not None:
        return Plan(request.needs.amounts, refusal=refusal)
    return policy.driver.plan(hosts, request, policy, now_s=now_s, seed=seed)


def unkept_group(hosts: HostTable, request: Request, policy: Policy) -> Refusal | None:
    """Refuse a request whose group has a hard policy without its filter; None for any other."""
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    keeper = None if group is None else KEEPERS.get(group.policy)
    if group is None or keeper is None:
        return None
    if any(rule.name == keeper for rule in policy.effective(request.operation).filters):
        return None
    return Refusal(
        code=RefusalCode.UNSUPPORTED_POLICY,
        message=(
            f"The policy {group.policy} of the server group is not supported: {keeper} is not"
            " among the filters of the scheduler's policy. Add it there, or use another group."
        ),
        placed=0,
        asked=len(request.instance_uuids),
        hosts_total=int(np.count_nonzero(hosts.alive)),
    )
