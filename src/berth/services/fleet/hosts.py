"""Hosts and their compute services, as operators see them and as agents register them."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.ratios import Ratio
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Add,
    Guard,
    Heartbeats,
    Outcome,
    Put,
    Rejected,
    Remove,
    Unit,
    Write,
)
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import InstanceQuery, Ledger
from berth.ports.virt import HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.providers.guarded_saves import (
    AGGREGATES_GUARD,
    save_guarded,
    service_guard,
)
from berth.services.providers.provider_trees import (
    StoredProviders,
    check_inventories,
    children_of,
    is_named,
    merged,
    part_name,
    tree_guard,
)
from berth.services.providers.provider_writes import name_guard, provider_guard
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.hosts import HostTable
from berth.tables.host.pci import FreePool

# A batch has at most this many units. When a fleet starts, a larger batch would hold the ledger's
# lock for too long.
_REGISTERED_AT_ONCE = 200
# Up to this many records are read by key. For more of them, one scan of the table is cheaper.
_READ_ONE_BY_ONE = 16
_REGISTER_TRIES = 3


@dataclass(frozen=True, slots=True)
class HostView:
    """A host with its data in the host table.

    `used` and `inventories` are by resource class, and `used` includes holds. `zones` are its
    availability zones; empty if no aggregate puts it in one. `cells` and `pools` are its NUMA cells
    and PCI pools, with what is free in each.
    """

    host: Host
    service: Service | None
    inventories: Mapping[str, Inventory]
    used: Mapping[str, int]
    traits: frozenset[str]
    zones: frozenset[str]
    aggregates: tuple[Aggregate, ...]
    num_instances: int
    children: tuple[Provider, ...] = ()
    """The host's child providers, with the names that its agent reported; `used` includes holds."""
    cells: tuple[FreeCell, ...] = ()
    pools: tuple[FreePool, ...] = ()


def host_view(hosts: HostTable, row: int) -> HostView:
    """Return the view of the host in one row of the host table."""
    host = hosts.host(row)
    return HostView(
        host=host,
        service=hosts.services.get(host.name),
        inventories=hosts.inventories(row),
        used=hosts.used(row),
        traits=hosts.traits.get(row),
        zones=hosts.zones.get(row),
        aggregates=hosts.memberships.of_host(host.name),
        num_instances=int(hosts.num_instances[row]),
        children=tuple(
            replace(child, name=part_name(host, child), used=hosts.trees.used(slot))
            for slot in hosts.trees.on_row(row)
            for child in [hosts.trees.provider(slot)]
        ),
        cells=hosts.numa.cells(row),
        pools=hosts.pci.pools(row),
    )


class Hosts:
    """Manages hosts and their compute services.

    Args:
        ledger: stores the records.
        follower: keeps the replica up to date with the ledger.
        replica: the host table.
        ratios: returns the allocation ratios in force.
        clock: the source of the times of heartbeats.
        ids: makes the uuids of new services.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        ratios: AllocationRatios,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._ratios = ratios
        self._clock = clock
        self._ids = ids

    async def all(self) -> list[HostView]:
        """Return all hosts, ordered by name."""
        await self._follower.catch_up()
        hosts = self._replica.hosts
        rows = sorted((int(row) for row in hosts.alive_rows()), key=lambda row: hosts.rank[row])
        return [host_view(hosts, row) for row in rows]

    async def get(self, key: str) -> HostView:
        """Return the host with the given uuid or name; of several nodes with the name, the first.

        Raises:
            NotFoundError: there is no such host.
        """
        await self._follower.catch_up()
        hosts = self._replica.hosts
        row = hosts.row_of(key)
        if row is None:
            # A host with several nodes has several rows with one name. The rank makes the choice
            # among them stable.
            row = min(hosts.host_names.of_name(key), key=lambda row: hosts.rank[row], default=None)
        if row is None:
            raise NotFoundError("host", key)
        return host_view(hosts, row)

    def ratio_of(self, view: HostView, name: str) -> Ratio:
        """Return the allocation ratio in force for a resource class of a host, with its source."""
        return self._ratios.of(view.host, view.aggregates, name)

    async def services(self) -> list[Service]:
        """Return all compute services."""
        services = await self._ledger.all(Service)
        return [self._replica.with_heartbeat(service) for service in services]

    async def set_service(
        self,
        host: str,
        *,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> Service:
        """Enable, disable or force down a compute service, and return it.

        None leaves a state unchanged. The reason is stored only when the service is disabled.

        Raises:
            NotFoundError: there is no such service.
        """
        changed: list[Service] = []

        async def read() -> Unit:
            service = await self._ledger.get(Service, host)
            if service is None:
                raise NotFoundError("compute service", host)
            if disabled is not None:
                reason = disabled_reason if disabled else None
                service = replace(service, disabled=disabled, disabled_reason=reason)
            if forced_down is not None:
                service = replace(service, forced_down=forced_down)
            changed[:] = [service]
            return (Put(service),)

        # The guard is needed because the agent counts failed builds in the same record.
        await save_guarded(self._ledger, service_guard(host), read)
        return changed[0]

    async def register(self, reports: Sequence[HostReport]) -> None:
        """Register hosts as their agents report them at start; new hosts are added.

        What an operator has set on a service stays, and so do the aggregates, traits and
        inventories that clients of the Placement API gave its providers. Child providers that a
        host no longer reports are removed; one that is in use stays, without inventories, until it
        is free.

        Raises:
            InvalidInputError: a host's child providers do not form a tree, or an agent may not
                report an inventory.
            ConflictError: other processes kept changing the same hosts or the aggregates.
            UnavailableError: the ledger cannot be reached; register again.
        """
        new = set[str]()
        for _ in range(_REGISTER_TRIES):
            aggregates = await self._ledger.all(Aggregate)
            refused = await self._register(reports, aggregates, new)
            # A concurrent change of an aggregate could not see new hosts, so their ratios may be
            # stale.
            is_stale = await self._ledger.all(Aggregate) != aggregates
            # After a change of an aggregate all reports are merged again, as any of them may be a
            # member.
            reports = reports if is_stale else refused
            if not reports:
                return
        raise ConflictError(
            f"cannot register host {reports[0].host.name}: it or an aggregate kept changing; "
            "try again"
        )

    async def _register(
        self, reports: Sequence[HostReport], aggregates: Sequence[Aggregate], new: set[str]
    ) -> list[HostReport]:
        """Register hosts, and return the reports that lost a race against another change.

        Args:
            reports: the agents' reports.
            aggregates: all aggregates.
            new: uuids of hosts that an earlier attempt found to be new; this attempt adds more to
                it.
        """
        seen = await self._ledger.version()
        known = await self._known({report.host.name for report in reports})
        earlier = await self._earlier({report.host.uuid for report in reports})
        trees: list[_Tree] = []
        for report in reports:
            check_inventories(report)
            old = earlier.get(report.host.uuid)
            before = frozenset(old.child_uuids) if old else frozenset[str]()
            trees.append(_Tree(report, children_of(report), before))
        stored = await self._stored(trees)
        trees = [self._settled(tree, earlier, aggregates, stored) for tree in trees]
        now_s = self._clock.now_s()
        units: list[Unit] = []
        for tree in trees:
            host = tree.report.host
            service: Write = Heartbeats((host.name,), now_s)
            if host.name not in known:
                service = Add(
                    Service(host.name, self._ids.uuid(), last_seen_s=now_s, created_at_s=now_s)
                )
                # Several nodes of one host share a service, which is added once.
                known.add(host.name)
            known_as = stored.by_uuid.get(host.uuid)
            # Records of older versions have neither owned traits nor aggregates.
            if host.uuid not in earlier or known_as is None or known_as.owned_traits is None:
                new.add(host.uuid)
            mine = [one.uuid for one in aggregates if host.name in one.hosts]
            joined = mine if host.uuid in new else []
            units.append((service, *_tree_writes(tree, stored, joined, (seen, now_s))))
        outcomes: list[Outcome] = []
        for first in range(0, len(units), _REGISTERED_AT_ONCE):
            outcomes += await self._ledger.commit(units[first : first + _REGISTERED_AT_ONCE])
        pairs = zip(reports, outcomes, strict=True)
        return [report for report, outcome in pairs if isinstance(outcome, Rejected)]

    def _settled(
        self,
        tree: "_Tree",
        earlier: Mapping[str, Host],
        aggregates: Sequence[Aggregate],
        stored: StoredProviders,
    ) -> "_Tree":
        """Return a host's tree with the allocation ratios in force in its report."""
        uuid = tree.report.host.uuid
        known = stored.by_uuid.get(uuid)
        report = self._ratios.settled(tree.report, earlier.get(uuid), aggregates, known)
        return tree._replace(report=report)

    async def _known(self, names: AbstractSet[str]) -> set[str]:
        """Return the given host names that have a service."""
        if len(names) > _READ_ONE_BY_ONE:
            return {service.host for service in await self._ledger.all(Service)} & names
        return {name for name in sorted(names) if await self._ledger.get(Service, name) is not None}

    async def _stored(self, trees: Sequence["_Tree"]) -> StoredProviders:
        """Return the stored providers that a registration of hosts needs, or all of them.

        Other providers are read only when a provider is new, renamed, removed, or not where its
        agent reports it.
        """
        reported = {one.uuid: one for tree in trees for one in tree.providers}
        gone = any(tree.before - reported.keys() for tree in trees)
        if len(reported) <= _READ_ONE_BY_ONE and not gone:
            found = [await self._ledger.get(Provider, uuid) for uuid in sorted(reported)]
            few = {one.uuid: one for one in found if one is not None}
            if all(_is_as_reported(few.get(uuid), one) for uuid, one in reported.items()):
                return StoredProviders(few.values())
        return StoredProviders(await self._ledger.all(Provider))

    async def _earlier(self, uuids: AbstractSet[str]) -> dict[str, Host]:
        """Return hosts as they were registered before, by uuid."""
        if len(uuids) > _READ_ONE_BY_ONE:
            hosts = await self._ledger.all(Host)
        else:
            found = [await self._ledger.get(Host, uuid) for uuid in sorted(uuids)]
            hosts = [host for host in found if host is not None]
        return {host.uuid: host for host in hosts if host.uuid in uuids}

    async def remove(self, name: str) -> None:
        """Remove a host without instances, its service and its memberships in aggregates.

        All providers below the host's root provider are removed, including those of clients of the
        Placement API.

        Raises:
            NotFoundError: there is no such service.
            ConflictError: the host has instances, or another host is below it.
        """

        async def read() -> Unit:
            seen = await self._ledger.version()
            if await self._ledger.get(Service, name) is None:
                raise NotFoundError("compute service", name)
            # An instance that is placed after this check has allocations, and the ledger rejects
            # the removal of a provider in use.
            if await self._ledger.instances(InstanceQuery(host=name, limit=1)):
                raise ConflictError(
                    f"cannot remove host {name}: it still has instances; move or delete them first"
                )
            await self._follower.catch_up()
            hosts = self._replica.hosts
            # The guard makes the ledger reject writers that have read the service and would restore
            # it.
            writes: list[Write] = [Guard(service_guard(name), seen), Remove(Kind.SERVICE, name)]
            writes += [
                Put(replace(aggregate, hosts=aggregate.hosts - {name}))
                for aggregate in hosts.memberships.of_host(name)
            ]
            own = [hosts.uuid(row) for row in hosts.host_names.of_name(name)]
            going = _all_below(name, own, StoredProviders(await self._ledger.all(Provider)), hosts)
            writes += [Guard(tree_guard(uuid), seen) for uuid in own]
            writes += [Guard(provider_guard(uuid), seen) for uuid in going]
            writes += [Remove(Kind.HOST, uuid) for uuid in own]
            writes += [Remove(Kind.PROVIDER, uuid) for uuid in going]
            return tuple(writes)

        await save_guarded(self._ledger, AGGREGATES_GUARD, read)


def _all_below(
    name: str, own: Sequence[str], stored: StoredProviders, hosts: HostTable
) -> list[str]:
    """Return the uuids of a host's root providers and of all their descendants, each once.

    Raises:
        ConflictError: the provider of another host is among them.
    """
    found = list(dict.fromkeys(one for uuid in own for one in stored.subtree(uuid)))
    for uuid in found:
        row = hosts.row_of(uuid)
        if row is not None and uuid not in own:
            other = hosts.host(row).name
            raise ConflictError(
                f"cannot remove host {name}: the provider of host {other} is below it; move that "
                "provider first"
            )
    return found


def _is_as_reported(stored: Provider | None, reported: Provider) -> bool:
    """Return whether a provider exists with the name and the parent that its agent reports."""
    if stored is None or stored.parent_uuid != reported.parent_uuid:
        return False
    return is_named(stored, reported)


class _Tree(NamedTuple):
    """The report of one host; `before` contains the uuids of the children in its last report."""

    report: HostReport
    children: tuple[Provider, ...]
    before: AbstractSet[str]

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The host's root provider, then its child providers."""
        return (self.report.provider, *self.children)


def _tree_writes(
    tree: _Tree, stored: StoredProviders, joined: Sequence[str], at: tuple[int, float]
) -> list[Write]:
    """Return the writes that bring a host and its providers in line with the report.

    Args:
        tree: the report of one host.
        stored: the host's providers in the ledger.
        joined: uuids of aggregates that the host's root provider joins.
        at: a ledger version from before anything was read, and the Unix time.
    """
    seen, now_s = at
    records: list[Provider] = []
    guards: list[Write] = []
    parents = stored.parents_after(tree.providers)
    for one in tree.providers:
        old = stored.by_uuid.get(one.uuid)
        name = stored.names.of(one, old)
        records.append(merged(one, old, name, parents[one.uuid], now_s))
        guards.append(Guard(provider_guard(one.uuid), seen))
        if old is None or old.name != name:
            guards.append(Guard(name_guard(name), seen))
    uuids = [child.uuid for child in tree.children]
    gone = sorted(tree.before - set(uuids))
    retired, left = stored.retire(gone)
    guards += (Guard(provider_guard(uuid), seen) for uuid in gone)
    roots = set[str]()
    if tree.before or uuids:
        # A concurrent removal of the host must not leave a child behind.
        roots.add(tree.report.host.uuid)
    if stored.are_moved(parents):
        # A concurrent move of a parent below one of these providers would form a loop.
        roots.update(map(stored.root_of, parents))
    guards += (Guard(tree_guard(uuid), seen) for uuid in sorted(roots))
    if joined:
        together = dict.fromkeys((*records[0].aggregates, *joined))
        records[0] = replace(records[0], aggregates=tuple(together))
    host = replace(tree.report.host, child_uuids=(*uuids, *left))
    return [*guards, Put(host), *map(Put, records), *retired]
