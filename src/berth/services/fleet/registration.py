"""Registration of hosts, which turns the reports of starting agents into records of the ledger.

A process that serves agents has all providers in memory. It compares a report with its tables, and
writes only what differs, with guards on all that the comparison relied on. The cost of a report is
therefore the same for 20 hosts and for 10,000. Other processes read the ledger.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.errors import ConflictError
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.write import Add, Guard, Heartbeats, Put, Rejected, Unit, Write
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import Ledger
from berth.ports.virt import HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.report_checks import (
    NODES_MAX,
    check_node,
    check_not_imported,
    check_provider_is_free,
    check_report,
    check_uuid,
)
from berth.services.providers.provider_trees import (
    StoredProviders,
    check_inventories,
    children_of,
    is_named,
    merged,
    tree_guard,
)
from berth.services.providers.provider_writes import name_guard, provider_guard
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.replica.replica import Replica
from berth.tables.provider.lineage import NO_ROW
from berth.tables.provider.providers import ProviderTable

# A batch has at most this many units. When a fleet starts, a larger batch would hold the ledger's
# lock for too long.
_REGISTERED_AT_ONCE: Final = 200
# Up to this many records are read by key. For more of them, one scan of the table is cheaper.
_READ_ONE_BY_ONE: Final = 16
_TRIES: Final = 3


class HostTree(NamedTuple):
    """The report of one host; `before` contains the uuids of the children in its last report."""

    report: HostReport
    children: tuple[Provider, ...]
    before: AbstractSet[str]

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The host's root provider, then its child providers."""
        return (self.report.provider, *self.children)


@dataclass(frozen=True, slots=True)
class KnownFleet:
    """The stored records that concern the hosts in the given reports.

    Attributes:
        seen: a ledger version from before anything was read.
        services: those of the host names that have a service.
        hosts: the hosts that are registered, by uuid.
        stored: the providers that concern the reports.
        aggregates: the aggregates of each host name.
        trees: the trees of providers in the reports, in the order of the reports.
    """

    seen: int
    services: AbstractSet[str]
    hosts: Mapping[str, Host]
    stored: StoredProviders
    aggregates: Mapping[str, tuple[Aggregate, ...]]
    trees: Sequence[HostTree]


class Registration:
    """Registers hosts.

    Args:
        ledger: stores the records.
        follower: keeps the tables up to date with the ledger.
        replica: the host table.
        ratios: returns the allocation ratios in force.
        clock: provides the times in records.
        ids: makes the uuids of new services.

    Attributes:
        providers: the table of all providers, kept up to date by the same follower; if None, the
            ledger is read instead.
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
        self.providers: ProviderReplica | None = None

    async def register(self, reports: Sequence[HostReport]) -> None:
        """See `Hosts.register`."""
        new = set[str]()
        for _ in range(_TRIES):
            reports = await self._try(reports, new)
            if not reports:
                return
        raise ConflictError(
            f"cannot register host {reports[0].host.name}: it or an aggregate kept changing; "
            "try again"
        )

    async def _try(self, reports: Sequence[HostReport], new: set[str]) -> list[HostReport]:
        """Register hosts, and return the reports that lost a race against another change.

        Args:
            reports: the agents' reports.
            new: uuids of hosts that an earlier attempt found to be new; this attempt adds more to
                it.
        """
        for report in reports:
            check_report(report)
            await check_node(report, self._ledger)
        known = await self._read(reports)
        self._check_owners(reports, known)
        planned = [(one, unit) for one, unit in self._plan(known, new) if unit]
        refused: list[HostReport] = []
        for first in range(0, len(planned), _REGISTERED_AT_ONCE):
            some = planned[first : first + _REGISTERED_AT_ONCE]
            outcomes = await self._ledger.commit([unit for _, unit in some])
            pairs = zip(some, outcomes, strict=True)
            refused += [one for (one, _), outcome in pairs if isinstance(outcome, Rejected)]
        if not planned:
            return []
        # A concurrent change of an aggregate could not see new hosts, so their ratios may be stale.
        names = {one.host.name for one, _ in planned}
        now = await self._aggregates_now(names)
        stale = {name for name in names if now[name] != known.aggregates[name]}
        return [*refused, *(one for one, _ in planned if one.host.name in stale)]

    def _check_owners(self, reports: Sequence[HostReport], known: KnownFleet) -> None:
        """Reject reports whose UUID is taken, and hosts with too many nodes.

        Raises:
            ConflictError: see `Hosts.register`.
        """
        new = Counter[str]()
        for report in reports:
            name, uuid = report.host.name, report.host.uuid
            host = known.hosts.get(uuid)
            check_uuid(report, host)
            check_not_imported(name, host or self._named(name))
            if host is None:
                check_provider_is_free(report, known.stored.by_uuid.get(uuid))
                new[name] += 1
                if len(self._replica.hosts.host_names.of_name(name)) + new[name] > NODES_MAX:
                    raise ConflictError(
                        f"cannot register another node of host {name}: it has {NODES_MAX} already; "
                        "remove the host to start anew"
                    )

    def _named(self, name: str) -> Host | None:
        """Return a registered host with a name; of several nodes, any."""
        hosts = self._replica.hosts
        row = next(iter(hosts.host_names.of_name(name)), None)
        return None if row is None else hosts.host(row)

    def _plan(self, known: KnownFleet, new: set[str]) -> list[tuple[HostReport, Unit]]:
        """Return each report with the writes that it requires; none if nothing has changed."""
        now_s, added = self._clock.now_s(), set[str]()
        planned: list[tuple[HostReport, Unit]] = []
        for tree in known.trees:
            name, uuid = tree.report.host.name, tree.report.host.uuid
            stored = known.stored.by_uuid.get(uuid)
            # Records of older versions have neither owned traits nor aggregates.
            if uuid not in known.hosts or stored is None or stored.owned_traits is None:
                new.add(uuid)
            joined = [one.uuid for one in known.aggregates[name]] if uuid in new else []
            service: Write = Heartbeats((name,), now_s)
            is_known = name in known.services or name in added
            if not is_known:
                service = Add(
                    Service(name, self._ids.uuid(), last_seen_s=now_s, created_at_s=now_s)
                )
                # Several nodes of one host share a service, which is added once.
                added.add(name)
            writes = tree_writes(
                self._settled(tree, known), known.stored, joined, (known.seen, now_s)
            )
            if is_known and _is_nothing_new(writes, known):
                writes = []
            planned.append((tree.report, (service, *writes) if writes or not is_known else ()))
        return planned

    def _settled(self, tree: HostTree, known: KnownFleet) -> HostTree:
        """Return a host's tree with the allocation ratios in force in its report."""
        report, uuid = tree.report, tree.report.host.uuid
        aggregates, stored = known.aggregates[report.host.name], known.stored.by_uuid.get(uuid)
        settled = self._ratios.settled(report, known.hosts.get(uuid), aggregates, stored)
        return tree._replace(report=settled)

    # ---- reading ------------------------------------------------------------------------------

    def _loaded_table(self) -> ProviderTable | None:
        """Return the provider table, or None if this process has none or has not loaded it yet."""
        providers = self.providers
        return None if providers is None or not self._follower.is_loaded else providers.table

    async def _read(self, reports: Sequence[HostReport]) -> KnownFleet:
        if self._loaded_table() is not None:
            await self._follower.catch_up()
            # The catch-up may have replaced the table. A provider that waits for its parent is in
            # no tree of the table. That is rare, so the ledger is read in this case.
            table = self._loaded_table()
            if table is not None and not table.unattached:
                return self._known_here(reports, table)
        return await self._known_in_ledger(reports)

    def _known_here(self, reports: Sequence[HostReport], table: ProviderTable) -> KnownFleet:
        """Return the records that concern the reported hosts from this process's tables."""
        hosts, names = self._replica.hosts, _names(reports)
        rows = [(one.host.uuid, hosts.row_of(one.host.uuid)) for one in reports]
        found = {uuid: hosts.host(row) for uuid, row in rows if row is not None}
        trees = trees_of(reports, found)
        return KnownFleet(
            seen=self._follower.version,
            services={name for name in names if hosts.services.get(name) is not None},
            hosts=found,
            stored=stored_providers(table, trees),
            aggregates={name: hosts.memberships.of_host(name) for name in names},
            trees=trees,
        )

    async def _known_in_ledger(self, reports: Sequence[HostReport]) -> KnownFleet:
        """Read the records that concern the reported hosts from the ledger."""
        names, seen = _names(reports), await self._ledger.version()
        services = await self._services_in_ledger(names)
        hosts = await self._hosts_in_ledger({report.host.uuid for report in reports})
        trees = trees_of(reports, hosts)
        return KnownFleet(
            seen=seen,
            services=services,
            hosts=hosts,
            stored=await self._stored_in_ledger(trees),
            aggregates=by_host(await self._ledger.all(Aggregate), names),
            trees=trees,
        )

    async def _aggregates_now(self, names: AbstractSet[str]) -> Mapping[str, tuple[Aggregate, ...]]:
        """Return the aggregates of host names, as they are at the end of a registration."""
        if self._loaded_table() is None:
            return by_host(await self._ledger.all(Aggregate), names)
        await self._follower.catch_up()
        return {name: self._replica.hosts.memberships.of_host(name) for name in names}

    async def _services_in_ledger(self, names: AbstractSet[str]) -> set[str]:
        """Return the given host names that have a service."""
        if len(names) > _READ_ONE_BY_ONE:
            return {service.host for service in await self._ledger.all(Service)} & names
        return {name for name in sorted(names) if await self._ledger.get(Service, name) is not None}

    async def _hosts_in_ledger(self, uuids: AbstractSet[str]) -> dict[str, Host]:
        """Return hosts as they were registered before, by uuid."""
        if len(uuids) > _READ_ONE_BY_ONE:
            hosts = await self._ledger.all(Host)
        else:
            found = [await self._ledger.get(Host, uuid) for uuid in sorted(uuids)]
            hosts = [host for host in found if host is not None]
        return {host.uuid: host for host in hosts if host.uuid in uuids}

    async def _stored_in_ledger(self, trees: Sequence[HostTree]) -> StoredProviders:
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


def by_host(
    aggregates: Iterable[Aggregate], names: Collection[str]
) -> dict[str, tuple[Aggregate, ...]]:
    """Return the aggregates of each of the given host names, sorted by id."""
    ordered = sorted(aggregates, key=lambda one: one.aggregate_id)
    return {name: tuple(one for one in ordered if name in one.hosts) for name in names}


def trees_of(reports: Iterable[HostReport], hosts: Mapping[str, Host]) -> list[HostTree]:
    """Return the trees of providers in reports.

    Args:
        reports: the agents' reports.
        hosts: the hosts that are registered, by uuid.

    Raises:
        InvalidInputError: a report is invalid; see `Hosts.register`.
    """
    trees: list[HostTree] = []
    for report in reports:
        check_inventories(report)
        old = hosts.get(report.host.uuid)
        before = frozenset(old.child_uuids) if old else frozenset[str]()
        trees.append(HostTree(report, children_of(report), before))
    return trees


def stored_providers(table: ProviderTable, trees: Sequence[HostTree]) -> StoredProviders:
    """Return the stored providers that a registration needs from the provider table.

    These are the reported providers and those of the last report, all their ancestors, the children
    of those that are no longer reported, and the owners of the reported names.
    """
    rows = set[int]()
    for tree in trees:
        reported = {one.uuid for one in tree.providers}
        for one in tree.providers:
            rows.update(table.by_name.rows(one.name))
        for uuid in reported | tree.before:
            row = table.row_of(uuid)
            if row is not None and uuid not in reported:
                rows.update(table.lineage.children_of(row))
            while row is not None and row != NO_ROW:
                rows.add(row)
                row = table.lineage.parent.item(row)
    return StoredProviders(sorted(map(table.record, rows), key=lambda one: one.uuid))


def tree_writes(
    tree: HostTree, stored: StoredProviders, joined: Sequence[str], at: tuple[int, float]
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
        # A concurrent move of a parent under one of these providers would form a loop.
        roots.update(map(stored.root_of, parents))
    guards += (Guard(tree_guard(uuid), seen) for uuid in sorted(roots))
    if joined:
        together = dict.fromkeys((*records[0].aggregates, *joined))
        records[0] = replace(records[0], aggregates=tuple(together))
    host = replace(tree.report.host, child_uuids=(*uuids, *left))
    return [*guards, Put(host), *map(Put, records), *retired]


def _is_nothing_new(writes: Iterable[Write], known: KnownFleet) -> bool:
    """Return whether the ledger already has everything that the given writes would write."""
    return all(isinstance(one, Guard) or _is_stored(one, known) for one in writes)


def _is_stored(write: Write, known: KnownFleet) -> bool:
    record = write.record if isinstance(write, Put) else None
    if isinstance(record, Host):
        return record == known.hosts.get(record.uuid)
    stored = known.stored.by_uuid.get(record.uuid) if isinstance(record, Provider) else None
    if stored is None or not isinstance(record, Provider):
        return False
    # The ledger keeps the usage and the generation of a provider that is written.
    same = replace(record, used=stored.used, generation=stored.generation)
    return replace(same, updated_at_s=stored.updated_at_s) == stored


def _is_as_reported(stored: Provider | None, reported: Provider) -> bool:
    """Return whether a provider exists with the name and the parent that its agent reports."""
    if stored is None or stored.parent_uuid != reported.parent_uuid:
        return False
    return is_named(stored, reported)


def _names(reports: Iterable[HostReport]) -> set[str]:
    return {report.host.name for report in reports}
