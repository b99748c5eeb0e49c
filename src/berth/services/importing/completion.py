"""Completes the records of a Nova cloud with the groups and assignments of its servers.

The result is what the ledger should contain. Each record that is left out has a finding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance
from berth.domain.compute.ratios import ratio_key
from berth.domain.hardware.assignment import Assignment
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.ports.nova import ImportFinding, ImportKind, NovaCloud

_RATIOS = (VCPU, MEMORY_MB, DISK_GB)


@dataclass(frozen=True, slots=True)
class HostTrees:
    """The trees of providers by their roots.

    Attributes:
        providers: all providers by UUID.
        roots: the UUID of the root of each provider.
        hosts: the hosts by (name, node).
        host_roots: the UUIDs of the root providers of hosts.
    """

    providers: Mapping[str, Provider]
    roots: Mapping[str, str]
    hosts: Mapping[tuple[str, str], Host]
    host_roots: frozenset[str]


def trees_of(cloud: NovaCloud) -> HostTrees:
    """Return the provider trees of a cloud."""
    providers = {one.uuid: one for one in cloud.providers}
    return HostTrees(
        providers,
        {uuid: _root_of(uuid, providers) for uuid in providers},
        {(one.name, one.node): one for one in cloud.hosts},
        frozenset(one.uuid for one in cloud.hosts),
    )


def _root_of(uuid: str, providers: Mapping[str, Provider]) -> str:
    seen = set[str]()
    while uuid not in seen:
        seen.add(uuid)
        above = providers[uuid].parent_uuid
        if above is None or above not in providers:
            break
        uuid = above
    return uuid


def completed(cloud: NovaCloud) -> NovaCloud:
    """Return a cloud as the ledger should contain it, with a finding for each omission."""
    trees = trees_of(cloud)
    findings = list(cloud.findings)
    hosts: list[Host] = []
    for host in cloud.hosts:
        if host.uuid in trees.providers:
            below = sorted(
                uuid
                for uuid, root in trees.roots.items()
                if root == host.uuid and uuid != host.uuid
            )
            hosts.append(replace(host, child_uuids=tuple(below)))
        else:
            reason = "has no resource provider in Placement, so its capacity is unknown"
            advice = "start its nova-compute, or delete its compute service, then import again"
            findings.append(ImportFinding(ImportKind.HOST, host.name, reason, advice))
    names = {one.name for one in hosts}
    services = [one for one in cloud.services if one.host in names]
    for service in cloud.services:
        if service.host not in names:
            reason = "is the service of a host without a compute node or resource provider"
            advice = "start its nova-compute, or delete the service, then import again"
            findings.append(ImportFinding(ImportKind.SERVICE, service.host, reason, advice))
    servers = _servers(cloud, trees, findings)
    known = {one.uuid for one in servers}
    findings += _lost_members(cloud, known)
    findings += _ratio_notes(cloud.aggregates, hosts, trees)
    return replace(
        cloud,
        hosts=tuple(hosts),
        services=tuple(services),
        servers=tuple(servers),
        findings=tuple(findings),
    )


def _servers(cloud: NovaCloud, trees: HostTrees, findings: list[ImportFinding]) -> list[Instance]:
    """Return the servers with their groups and assignments."""
    group_of = {uuid: group for group, uuids in cloud.members.items() for uuid in uuids}
    held = {one.consumer.uuid: one.allocations for one in cloud.holdings}
    servers: list[Instance] = []
    for server in cloud.servers:
        whole = replace(server, group_uuid=group_of.get(server.uuid))
        host = trees.hosts.get((server.host or "", server.node or ""))
        if server.host is not None and host is None:
            reason = "is on a host that Nova does not list"
            advice = "check the compute service of its host, or evacuate the server in Nova"
            findings.append(ImportFinding(ImportKind.SERVER, server.uuid, reason, advice))
        elif host is not None:
            amounts = held.get(server.uuid, {})
            whole = replace(whole, assignment=assignment_of(amounts, host.uuid, trees))
            findings += _misplaced(server, amounts, host, trees)
        servers.append(whole)
    return servers


def assignment_of(
    held: Mapping[str, Mapping[str, int]], root_uuid: str, trees: HostTrees
) -> Assignment:
    """Return the assignment of a server that holds exactly the given allocations.

    The amounts are those of Placement, not computed from the flavor, because the rules by which
    Nova computes them may differ from Berth's. Allocations on the providers of other hosts are
    left out, so the audit reports them.

    Args:
        held: amounts by provider and class.
        root_uuid: the root provider of the server's host.
        trees: the provider trees.
    """
    others = trees.host_roots - {root_uuid}
    return Assignment(
        allocations={
            uuid: amounts
            for uuid, amounts in sorted(held.items())
            if uuid != root_uuid and trees.roots.get(uuid) not in others
        },
        root=dict(held.get(root_uuid, {})),
    )


def _misplaced(
    server: Instance, held: Mapping[str, Mapping[str, int]], host: Host, trees: HostTrees
) -> Iterator[ImportFinding]:
    """Yield findings about allocations that do not match the host of a server."""
    if not held:
        reason = "holds no allocations in Placement, so its capacity is not counted"
        advice = "repair it with `nova-manage placement heal_allocations`, then import again"
        yield ImportFinding(ImportKind.ALLOCATIONS, server.uuid, reason, advice)
    others = trees.host_roots - {host.uuid}
    if any(trees.roots.get(uuid) in others for uuid in held):
        reason = "holds allocations on a host other than its own"
        advice = "find the cause with `nova-manage placement audit`; they are imported as they are"
        yield ImportFinding(ImportKind.ALLOCATIONS, server.uuid, reason, advice)


def _lost_members(cloud: NovaCloud, servers: set[str]) -> Iterator[ImportFinding]:
    for group, members in sorted(cloud.members.items()):
        if any(uuid not in servers for uuid in members):
            reason = "has members that are not imported"
            advice = "nothing; Berth derives the members of a group from its servers"
            yield ImportFinding(ImportKind.SERVER_GROUP, group, reason, advice)


def _ratio_notes(
    aggregates: tuple[Aggregate, ...], hosts: list[Host], trees: HostTrees
) -> Iterator[ImportFinding]:
    """Yield a finding for each ratio of an aggregate that differs from those of its hosts.

    Nova's Placement ignores these metadata. Berth applies them when it settles the ratios of a
    host, for instance after a change of one of its aggregates.
    """
    for aggregate in aggregates:
        for name in _RATIOS:
            text = aggregate.metadata.get(ratio_key(name))
            if text is None:
                continue
            own = (
                trees.providers[host.uuid].inventories.get(name)
                for host in hosts
                if host.name in aggregate.hosts
            )
            if any(one is not None and str(one.allocation_ratio) != text for one in own):
                reason = (
                    f"sets {ratio_key(name)}={text[:40]}, which Nova's Placement ignores; Berth "
                    "applies it to its hosts at the next change of one of their aggregates"
                )
                advice = "remove the metadata in Nova, or set the hosts' inventories to the ratio"
                key = aggregate.name
                yield ImportFinding(ImportKind.AGGREGATE, key, reason, advice)
