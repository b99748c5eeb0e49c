"""Handlers for server groups."""

from berth.api.codec import UNSET
from berth.api.compute.schemas.server_groups import (
    NewServerGroup,
    NewServerGroupBody,
    ServerGroupAnswer,
    ServerGroupsAnswer,
    ServerGroupsQuery,
    ServerGroupView,
)
from berth.api.links import limit_of
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import check_edges, whole
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError

# Microversions: 2.13 shows the owner; 2.15 adds the soft policies; 2.64 replaces the list
# `policies` with `policy` and `rules`, and removes `metadata`.
_OWNER = (2, 13)
_SOFT = (2, 15)
_ONE_POLICY = (2, 64)
_RULE = "max_server_per_host"
_HARD = frozenset({GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY})


async def list_server_groups(call: Call) -> Answer:
    """List the server groups of the project or, for administrators, of all projects."""
    query = call.query(ServerGroupsQuery)
    # As in Nova, `all_projects` is ignored, not refused, unless the caller is an administrator.
    everyone = query.all_projects is not None and call.identity.is_admin
    project_id = None if everyone else call.identity.project_id
    groups = await call.parts.server_groups.of_project(project_id)
    start = query.offset or 0
    page = groups[start : start + limit_of(call, query.limit)]
    return Answer(ServerGroupsAnswer(server_groups=[await _view(call, one) for one in page]))


async def create_server_group(call: Call) -> Answer:
    """Create a server group.

    Raises:
        InvalidInputError: a field is invalid, missing, or does not exist in this microversion; the
            error names it.
        QuotaExceededError: the quota of the project does not allow another group.
        ConflictError: every attempt lost a race against another change.
    """
    new = call.body(NewServerGroupBody).server_group
    check_edges(new.name, "server_group.name")
    policy = _policy(new, call.version)
    group = ServerGroup(
        uuid=call.parts.ids.uuid(),
        name=new.name,
        policy=policy,
        project_id=call.identity.project_id,
        user_id=call.identity.user_id,
        max_server_per_host=_max_per_host(new, policy, call.version),
    )
    await call.parts.server_groups.create(group)
    return Answer(ServerGroupAnswer(server_group=await _view(call, group, is_new=True)))


async def show_server_group(call: Call) -> Answer:
    """Show a server group.

    Raises:
        NotFoundError: there is no such group, or it belongs to another project.
    """
    group = await call.parts.server_groups.get(call.key("group_id"), call.project_id)
    return Answer(ServerGroupAnswer(server_group=await _view(call, group)))


async def delete_server_group(call: Call) -> Answer:
    """Delete a server group, but not its servers.

    Raises:
        NotFoundError: there is no such group, or it belongs to another project.
        ConflictError: the group was removed at the same time.
    """
    await call.parts.server_groups.delete(call.key("group_id"), call.project_id)
    return Answer()


def _policy(new: NewServerGroup, version: Version) -> GroupPolicy:
    one = version >= _ONE_POLICY
    name, other = ("policy", new.policies) if one else ("policies", new.policy)
    # The schema accepts the fields of both formats, so a field of the wrong format is refused here.
    if other is not UNSET:
        wrong = "policies" if one else "policy"
        raise InvalidInputError(
            f"server_group.{wrong}", f"does not exist in this microversion; use {name}"
        )
    policy = new.policy if one else (new.policies[0] if new.policies else UNSET)
    if policy is UNSET:
        raise InvalidInputError(f"server_group.{name}", "is required")
    if version < _SOFT and policy not in _HARD:
        raise InvalidInputError(
            "server_group.policies", f"{policy} requires microversion 2.15 or later"
        )
    return policy


def _max_per_host(new: NewServerGroup, policy: GroupPolicy, version: Version) -> int:
    if new.rules is UNSET:
        return 1
    if version < _ONE_POLICY:
        raise InvalidInputError("server_group.rules", "requires microversion 2.64 or later")
    maximum = new.rules.max_server_per_host
    if maximum is UNSET:
        return 1
    if policy is not GroupPolicy.ANTI_AFFINITY:
        raise InvalidInputError(
            "server_group.rules", "are allowed only with the policy anti-affinity; leave them out"
        )
    return whole(maximum, f"server_group.rules.{_RULE}", low=1)


async def _view(call: Call, group: ServerGroup, *, is_new: bool = False) -> ServerGroupView:
    one = call.version >= _ONE_POLICY
    owned = call.version >= _OWNER
    has_rules = group.policy is GroupPolicy.ANTI_AFFINITY
    rules = {_RULE: group.max_server_per_host} if has_rules else dict[str, int]()
    return ServerGroupView(
        id=group.uuid,
        name=group.name,
        # A new group has no members, so the ledger need not be read.
        members=[] if is_new else await call.parts.server_groups.members(group),
        policies=UNSET if one else [group.policy.value],
        metadata=UNSET if one else {},
        policy=group.policy.value if one else UNSET,
        rules=rules if one else UNSET,
        project_id=group.project_id if owned else UNSET,
        user_id=group.user_id if owned else UNSET,
    )
