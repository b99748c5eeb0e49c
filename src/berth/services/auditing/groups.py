"""The audit of server groups, whose members' hosts must satisfy the hard policies."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode
from berth.domain.ledger.record import Kind
from berth.ports.ledger import Ledger
from berth.services.auditing.audit_snapshot import AuditSnapshot

_HARD = frozenset({GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY})


def members_of(snapshot: AuditSnapshot) -> Mapping[str, Sequence[Instance]]:
    """Return the placed members of each group with a hard policy, by the group's uuid."""
    found: dict[str, list[Instance]] = {}
    for instance in snapshot.instances.values():
        group = snapshot.groups.get(instance.group_uuid or "")
        if group is not None and group.policy in _HARD and instance.host is not None:
            found.setdefault(group.uuid, []).append(instance)
    return found


def suspect_group(group: ServerGroup, members: Sequence[Instance]) -> Iterator[Discrepancy]:
    """Yield the members' violation of a group's policy, if there is one."""
    # Members are counted by host and node, because a policy is about compute nodes.
    counts = Counter((one.host or "", one.node or "") for one in members)
    if group.policy is GroupPolicy.AFFINITY:
        if len(counts) > 1:
            names = ", ".join(sorted(host for host, _ in counts))
            yield _broken(group, f"its members are on {len(counts)} hosts: {names}")
        return
    # Microversion 2.64 added this rule to anti-affinity; groups without it have a value of 1.
    most = group.max_server_per_host
    crowded = {host: count for (host, _), count in sorted(counts.items()) if count > most}
    if crowded:
        where = ", ".join(f"{count} are on {host}" for host, count in crowded.items())
        yield _broken(group, f"at most {most} of its members may be on one host, but {where}")


async def recheck_group(
    ledger: Ledger, snapshot: AuditSnapshot, suspicion: Discrepancy
) -> Discrepancy | None:
    """Return the discrepancy if the members' current hosts still violate the policy.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    group = await ledger.get(ServerGroup, suspicion.key)
    if group is None:
        return None
    found = [
        # A member that has moved since the snapshot may have ended the violation, so the members
        # are read with their current hosts.
        await ledger.get(Instance, one.uuid)
        for one in snapshot.instances.values()
        if one.group_uuid == group.uuid
    ]
    members = [
        one
        for one in found
        if one is not None and one.host is not None and one.status is not Status.DELETED
    ]
    return next(suspect_group(group, members), None)


def _broken(group: ServerGroup, text: str) -> Discrepancy:
    return Discrepancy(
        code=DiscrepancyCode.GROUP_BROKEN,
        kind=Kind.SERVER_GROUP,
        key=group.uuid,
        text=f"server group {group.name} ({group.uuid}) requires {group.policy}: {text}",
        advice=(
            "migrate members until the policy holds; a migration that names no host respects it"
        ),
    )
