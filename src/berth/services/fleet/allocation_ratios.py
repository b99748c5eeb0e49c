"""Allocation ratios: the ratio in force for each host, and the overrides of operators.

The ratio in force is stored in the host's inventories, so the ledger can check claims with it and
no table has to compute it. It is updated when a host is registered, when the gateway audits a
report about it, and in the unit that changes an aggregate or an override. The same unit updates the
memberships that clients of the Placement API see at the host's root provider.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.compute.ratios import NEVER, Ratio, resolve_ratio
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import RATIO_MAX, Inventory
from berth.domain.ledger.write import Guard, Put, Unit, Write
from berth.ports.ledger import Ledger
from berth.ports.virt import HostReport
from berth.services.providers.guarded_saves import AGGREGATES_GUARD, save_guarded
from berth.services.providers.provider_writes import provider_guard
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.tables.host.hosts import HostTable

# Up to this many providers are read by key. For more of them, one scan of the table is cheaper.
_READ_ONE_BY_ONE = 64


@dataclass(frozen=True, slots=True)
class RatioSettings:
    """The ratios in this process's settings, by resource class; 0 means none.

    `own` are forced on each host whose agent reports to this process, and only aggregates override
    them. `initial` are stored with a host when it is first registered, and apply if no other source
    sets a ratio. `defaults` apply to classes without any of these.
    """

    own: Mapping[str, float] = field(default_factory=dict[str, float])
    initial: Mapping[str, float] = field(default_factory=dict[str, float])
    defaults: Mapping[str, float] = field(default_factory=dict[str, float])


_NO_SETTINGS: Final = RatioSettings()


class AllocationRatios:
    """Determines the ratios of hosts, and sets them in the hosts' inventories.

    Args:
        ledger: stores the providers.
        replica: provides the hosts and the aggregates.
        settings: the ratios in this process's settings.
    """

    def __init__(
        self, *, ledger: Ledger, replica: Replica, settings: RatioSettings = _NO_SETTINGS
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._settings = settings

    def of(self, host: Host, aggregates: Iterable[Aggregate], name: str) -> Ratio:
        """Return the ratio in force for one resource class of a host."""
        return resolve_ratio(name, host, aggregates=aggregates, defaults=self._settings.defaults)

    def settled(
        self,
        report: HostReport,
        earlier: Host | None,
        aggregates: Iterable[Aggregate],
        stored: Provider | None = None,
    ) -> HostReport:
        """Return a report with the ratios in force in its inventories.

        A host's own ratio for a class is its entry in `allocation_ratios` (0: the host sets none),
        or else the ratio of the reported inventory. A ratio that a client of the Placement API
        wrote into an inventory becomes an operator's override, unless an aggregate or this
        process's settings set another (as in Nova since Stein, nova-behaviour.md 3).

        Args:
            report: the agent's report.
            earlier: the host as registered before, or None for a new one.
            aggregates: all aggregates.
            stored: the host's root provider in the ledger, or None for a new one.
        """
        reported = report.provider.inventories
        own = {name: inventory.allocation_ratio for name, inventory in reported.items()}
        own.update(report.host.allocation_ratios)
        initial = self._settings.initial if earlier is None else earlier.initial_ratios
        own_aggregates = [one for one in aggregates if report.host.name in one.hosts]
        operators = {} if earlier is None else self._operators(earlier, own_aggregates, stored)
        host = replace(
            report.host,
            allocation_ratios=own,
            forced_ratios={name: one for name, one in self._settings.own.items() if one},
            operator_ratios=operators,
            initial_ratios=dict(initial),
        )
        return replace(
            report, host=host, provider=self.with_ratios(report.provider, host, own_aggregates)
        )

    def _operators(
        self, earlier: Host, own_aggregates: Collection[Aggregate], stored: Provider | None
    ) -> dict[str, float]:
        """Return the overrides of a host, including those made through the Placement API."""
        found = dict(earlier.operator_ratios)
        if stored is None:
            return found
        # Where the settings force a ratio, the stored one may differ only because the settings have
        # changed, so it is not taken as an operator's override.
        free = replace(earlier, forced_ratios={})
        for name, inventory in stored.inventories.items():
            ratio, was = inventory.allocation_ratio, self.of(earlier, own_aggregates, name)
            owned = stored.owned_classes is None or name in stored.owned_classes
            is_theirs = was != self.of(free, (), name) or bool(self._settings.own.get(name))
            if ratio == was.value or is_theirs or name in NEVER or not owned:
                continue
            if inventory.total and 0 < ratio <= RATIO_MAX:
                found[name] = ratio
        return found

    async def puts(
        self,
        names: Collection[str],
        changed: Aggregate | None = None,
        moved: Collection[str] = (),
    ) -> list[Write]:
        """Return the writes that update hosts' providers after a change of an aggregate.

        Inventories that clients of the Placement API added keep their ratios.

        Args:
            names: the names of the hosts; names that the replica does not have are ignored.
            changed: the aggregate as it will be, or None to compare only the ratios.
            moved: the names of the hosts that join or leave the aggregate.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        seen = await self._ledger.version()
        hosts = self._replica.hosts
        concerned = [
            (host, own_aggregates)
            for name in sorted(names)
            for own_aggregates in [_aggregates_of(hosts, name, changed)]
            for row in sorted(hosts.host_names.of_name(name))
            for host in [hosts.host(row)]
            # Only hosts with wrong ratios are written, because an aggregate may have thousands.
            if name in moved or self._is_wrong(hosts, row, host, own_aggregates)
        ]
        providers = await self._providers([host.uuid for host, _ in concerned])
        writes: list[Write] = []
        for host, own_aggregates in concerned:
            old = providers.get(host.uuid)
            if old is None:
                continue
            new = self.with_ratios(old, host, own_aggregates)
            if changed is not None and host.name in moved:
                new = _mirrored(new, changed.uuid, is_member=host.name in changed.hosts)
            if new != old:
                writes += (Guard(provider_guard(host.uuid), seen), Put(new))
        return writes

    def _is_wrong(
        self, hosts: HostTable, row: int, host: Host, aggregates: Collection[Aggregate]
    ) -> bool:
        inventories = hosts.inventories(row)
        return any(
            inventory.allocation_ratio != self.of(host, aggregates, name).value
            for name, inventory in inventories.items()
        )

    def with_ratios(
        self, provider: Provider, host: Host, aggregates: Collection[Aggregate]
    ) -> Provider:
        """Return a host's root provider with the ratios in force in its inventories.

        Inventories that clients of the Placement API added keep their ratios.
        """
        owned = provider.owned_classes
        inventories: dict[str, Inventory] = {
            name: replace(inventory, allocation_ratio=self.of(host, aggregates, name).value)
            if owned is None or name in owned
            else inventory
            for name, inventory in provider.inventories.items()
        }
        return replace(provider, inventories=inventories)

    async def _providers(self, uuids: Collection[str]) -> dict[str, Provider]:
        if len(uuids) > _READ_ONE_BY_ONE:
            return {one.uuid: one for one in await self._ledger.all(Provider)}
        found = [await self._ledger.get(Provider, uuid) for uuid in uuids]
        return {one.uuid: one for one in found if one is not None}


def _mirrored(provider: Provider, aggregate_uuid: str, *, is_member: bool) -> Provider:
    """Return a provider that has joined or left an aggregate, as `is_member` says."""
    if (aggregate_uuid in provider.aggregates) is is_member:
        return provider
    others = tuple(uuid for uuid in provider.aggregates if uuid != aggregate_uuid)
    return replace(provider, aggregates=(*others, aggregate_uuid) if is_member else others)


def _aggregates_of(hosts: HostTable, name: str, changed: Aggregate | None) -> list[Aggregate]:
    """Return the aggregates of a host, ordered by id, as they are after a change of one."""
    own_aggregates = {one.aggregate_id: one for one in hosts.memberships.of_host(name)}
    if changed is not None:
        own_aggregates.pop(changed.aggregate_id, None)
        if name in changed.hosts:
            own_aggregates[changed.aggregate_id] = changed
    return [own_aggregates[number] for number in sorted(own_aggregates)]


class RatioOverrides:
    """Sets operators' allocation ratios of hosts, and updates the capacity in the same unit.

    Args:
        ledger: stores the hosts and their providers.
        follower: keeps the replica up to date with the ledger.
        replica: provides the rows and the aggregates of a host.
    """

    def __init__(self, ledger: Ledger, follower: Follower, replica: Replica) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._ratios = AllocationRatios(ledger=ledger, replica=replica)

    async def set(self, name: str, ratios: Mapping[str, float]) -> None:
        """Set ratios of a host by resource class; 0 removes one, and the others stay.

        An override applies unless an aggregate or the gateway's settings set another ratio.

        Raises:
            NotFoundError: there is no such host.
            InvalidInputError: the host has no inventory of a class, or a ratio is out of range.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            seen = await self._ledger.version()
            await self._follower.catch_up()
            table = self._replica.hosts
            rows = sorted(table.host_names.of_name(name))
            if not rows:
                raise NotFoundError("host", name)
            own_aggregates = table.memberships.of_host(name)
            writes: list[Write] = []
            for uuid in (table.uuid(row) for row in rows):
                host = await self._ledger.get(Host, uuid)
                provider = await self._ledger.get(Provider, uuid)
                if host is None or provider is None:
                    raise NotFoundError("host", name)
                _check(provider, ratios)
                after = {**host.operator_ratios, **ratios}
                kept = {one: ratio for one, ratio in after.items() if ratio}
                host = replace(host, operator_ratios=kept)
                provider = self._ratios.with_ratios(provider, host, own_aggregates)
                writes += (Guard(provider_guard(uuid), seen), Put(host), Put(provider))
            return tuple(writes)

        await save_guarded(self._ledger, AGGREGATES_GUARD, read)
        await self._follower.catch_up()


def _check(provider: Provider, ratios: Mapping[str, float]) -> None:
    for name, ratio in ratios.items():
        where = f"ratios.{name[:80]}"
        if name not in provider.inventories:
            classes = ", ".join(sorted(provider.inventories))
            raise InvalidInputError(
                where, f"the host has no inventory of this class; use one of {classes}"
            )
        if not 0 <= ratio <= RATIO_MAX:
            raise InvalidInputError(where, f"must be between 0 and {RATIO_MAX}, not {ratio}")
