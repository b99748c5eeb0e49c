"""Hosts and their compute services, as operators see them and as agents register them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity, identity_guard
from berth.domain.compute.ratios import Ratio
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Guard,
    Put,
    Remove,
    Unit,
    Write,
)
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import InstanceQuery, Ledger
from berth.ports.virt import HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.registration import Registration
from berth.services.providers.guarded_saves import (
    AGGREGATES_GUARD,
    save_guarded,
    service_guard,
)
from berth.services.providers.provider_trees import (
    StoredProviders,
    part_name,
    tree_guard,
)
from berth.services.providers.provider_writes import provider_guard
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.replica.replica import Replica
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.hosts import HostTable
from berth.tables.host.pci import FreePool


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
        clock: provides the times in records.
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
        self._registration = Registration(
            ledger=ledger,
            follower=follower,
            replica=replica,
            ratios=ratios,
            clock=clock,
            ids=ids,
        )

    def compare_with(self, providers: ProviderReplica) -> None:
        """From now on, compare reports with the tables of this process instead of the ledger.

        Args:
            providers: the replica of all providers, kept up to date by the same follower.
        """
        self._registration.providers = providers

    async def all(self) -> list[HostView]:
        """Return all hosts, ordered by name.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        await self._follower.catch_up()
        hosts = self._replica.hosts
        rows = sorted((int(row) for row in hosts.alive_rows()), key=lambda row: hosts.rank[row])
        return [host_view(hosts, row) for row in rows]

    async def get(self, key: str) -> HostView:
        """Return the host with the given uuid or name; of several nodes with the name, the first.

        Raises:
            NotFoundError: there is no such host.
            UnavailableError: the ledger cannot be reached.
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
        """Return all compute services.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
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

        Args:
            host: the name of the host.
            disabled: whether the service accepts no new instances.
            disabled_reason: the reason, for operators.
            forced_down: whether the service counts as down regardless of heartbeats.

        Raises:
            NotFoundError: there is no such service.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
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

        # The guard is needed because gateways count failed builds in the same record.
        await save_guarded(self._ledger, service_guard(host), read)
        return changed[0]

    async def register(self, reports: Sequence[HostReport]) -> None:
        """Register hosts as their agents report them at start; new hosts are added.

        Operators' settings of a service stay, and so do the aggregates, traits and inventories that
        clients of the Placement API gave the hosts' providers. Child providers that a host no
        longer reports are removed; one that is in use stays, without inventories, until it is free.

        Raises:
            InvalidInputError: a host's child providers do not form a tree, or one of the reported
                inventories is invalid.
            ConflictError: a UUID belongs to another host, or other processes kept changing the same
                hosts or the aggregates.
            UnavailableError: the ledger cannot be reached; register again.
        """
        await self._registration.register(reports)

    async def remove(self, name: str) -> None:
        """Remove a host without instances, its service and its memberships in aggregates.

        All providers under the host's root provider are removed, including those of clients of the
        Placement API. The host's keys are revoked, so its agent cannot register it again until the
        host is enrolled anew.

        Raises:
            NotFoundError: there is no such service.
            ConflictError: the host has instances, another host's provider is under its own, or
                every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
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
            identity = await self._ledger.get(HostIdentity, name)
            if identity is not None and identity.revoked_at_s is None:
                writes.append(Guard(identity_guard(name), seen))
                writes.append(Put(identity.revoked(self._clock.now_s())))
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
                f"cannot remove host {name}: the provider of host {other} is under its own; move "
                "that provider first"
            )
    return found
