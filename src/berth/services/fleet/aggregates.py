"""Aggregates: sets of hosts, and the availability zones that they define."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Put, Remove, Unit
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.providers.guarded_saves import AGGREGATES_GUARD, save_guarded
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica

# More instances than any host has.
_HOST_MAX: Final = 100_000


class Aggregates:
    """Manages aggregates, and keeps each host in at most one availability zone.

    A guard serializes the changes, so that none is lost and no two of them together put a host in
    two availability zones.

    Args:
        ledger: stores the aggregates.
        follower: keeps the replica up to date with the ledger.
        replica: the host table.
        ratios: writes the ratios in force, and the memberships, into the hosts' providers.
        clock: provides the times in records.
        ids: makes the uuids of new aggregates.
        default_zone: the availability zone of hosts to which no aggregate assigns one.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        ratios: AllocationRatios,
        clock: Clock,
        ids: Ids,
        default_zone: str = "nova",
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._ratios = ratios
        self._clock = clock
        self._ids = ids
        self._default_zone = default_zone

    async def create(self, name: str, metadata: Mapping[str, str]) -> Aggregate:
        """Create an aggregate without hosts, and return it.

        Raises:
            ConflictError: the name is taken, or every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """
        aggregate = Aggregate(
            aggregate_id=await self._ledger.next_id(Kind.AGGREGATE),
            uuid=self._ids.uuid(),
            name=name,
            metadata=dict(metadata),
            created_at_s=self._clock.now_s(),
        )

        async def read() -> Unit:
            await self._check_name(name, None)
            return (Add(aggregate),)

        await save_guarded(self._ledger, AGGREGATES_GUARD, read)
        return aggregate

    async def all(self) -> list[Aggregate]:
        """Return all aggregates, ordered by id.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        found = await self._ledger.all(Aggregate)
        return sorted(found, key=lambda aggregate: aggregate.aggregate_id)

    async def get(self, aggregate_id: int) -> Aggregate:
        """Return the aggregate with the given id.

        Raises:
            NotFoundError: there is no such aggregate.
            UnavailableError: the ledger cannot be reached.
        """
        aggregate = await self._ledger.get(Aggregate, str(aggregate_id))
        if aggregate is None:
            raise NotFoundError("aggregate", str(aggregate_id))
        return aggregate

    async def delete(self, aggregate_id: int) -> None:
        """Remove an aggregate that has no hosts.

        Raises:
            NotFoundError: there is no such aggregate.
            InvalidInputError: the aggregate still has hosts.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            if (await self.get(aggregate_id)).hosts:
                text = f"{aggregate_id} still has hosts; remove them first"
                raise InvalidInputError("aggregate", text)
            return (Remove(Kind.AGGREGATE, str(aggregate_id)),)

        await save_guarded(self._ledger, AGGREGATES_GUARD, read)

    async def rename(self, aggregate_id: int, name: str) -> Aggregate:
        """Rename an aggregate, and return it.

        Raises:
            NotFoundError: there is no such aggregate.
            ConflictError: the name is taken, or every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """
        return await self._change(aggregate_id, lambda old: replace(old, name=name), new_name=name)

    async def set_metadata(
        self, aggregate_id: int, metadata: Mapping[str, str | None], *, force: bool = False
    ) -> Aggregate:
        """Set metadata of an aggregate, and return it; the value None removes a key.

        With `force`, hosts may leave the availability zones that servers on them are bound to.

        Raises:
            NotFoundError: there is no such aggregate.
            ConflictError: a host would be in two availability zones or leave the one that a server
                on it is bound to, or every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Aggregate) -> Aggregate:
            merged = {**old.metadata, **metadata}
            kept = {key: value for key, value in merged.items() if value is not None}
            return replace(old, metadata=kept)

        return await self._change(aggregate_id, change, force=force)

    async def add_host(self, aggregate_id: int, host: str, *, force: bool = False) -> Aggregate:
        """Add a host to an aggregate, and return the aggregate.

        With `force`, the host may leave the availability zone that servers on it are bound to.

        Raises:
            NotFoundError: there is no such host or aggregate.
            ConflictError: the host is already a member, would be in two availability zones or leave
                the one that a server on it is bound to, or every attempt lost a race against
                another change.
            UnavailableError: the ledger cannot be reached.
        """
        await self._follower.catch_up()
        if not self._replica.hosts.host_names.of_name(host):
            raise NotFoundError("compute host", host)

        def change(old: Aggregate) -> Aggregate:
            if host in old.hosts:
                raise ConflictError(f"host {host} is already in aggregate {aggregate_id}")
            return replace(old, hosts=old.hosts | {host})

        return await self._change(aggregate_id, change, force=force)

    async def remove_host(self, aggregate_id: int, host: str, *, force: bool = False) -> Aggregate:
        """Remove a host from an aggregate, and return the aggregate.

        With `force`, the host may leave the availability zone that servers on it are bound to.

        Raises:
            NotFoundError: there is no such aggregate, or the host is not a member.
            ConflictError: the host would leave the availability zone that a server on it is bound
                to, or every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        def change(old: Aggregate) -> Aggregate:
            if host not in old.hosts:
                raise NotFoundError(f"host in aggregate {aggregate_id} named", host)
            return replace(old, hosts=old.hosts - {host})

        return await self._change(aggregate_id, change, force=force)

    async def _check_name(self, name: str, aggregate_id: int | None) -> None:
        if any(o.name == name and o.aggregate_id != aggregate_id for o in await self.all()):
            raise ConflictError(f"aggregate {name} already exists")

    async def _change(
        self,
        aggregate_id: int,
        change: Callable[[Aggregate], Aggregate],
        *,
        new_name: str | None = None,
        force: bool = False,
    ) -> Aggregate:
        changed: list[Aggregate] = []

        async def read() -> Unit:
            if new_name is not None:
                await self._check_name(new_name, aggregate_id)
            old = await self.get(aggregate_id)
            aggregate = change(old)
            await self._check_zones(aggregate)
            if not force:
                await self._check_bound(old, aggregate)
            changed[:] = [replace(aggregate, updated_at_s=self._clock.now_s())]
            # Old members are included, because the ratio of a host that leaves also changes.
            concerned.update(old.hosts | aggregate.hosts)
            moved.update(old.hosts ^ aggregate.hosts)
            await self._follower.catch_up()
            return (Put(changed[0]), *await self._ratios.puts(concerned, changed[0], moved))

        concerned: set[str] = set()
        moved: set[str] = set()
        await save_guarded(self._ledger, AGGREGATES_GUARD, read)
        # A host registered between `read` and the commit got its ratios from the old aggregate.
        await self._settle(concerned, changed[0], moved)
        return changed[0]

    async def _settle(
        self, names: Collection[str], changed: Aggregate, moved: Collection[str]
    ) -> None:
        """Correct hosts that were registered while one of their aggregates changed."""

        async def read() -> Unit:
            await self._follower.catch_up()
            newest = await self._ledger.get(Aggregate, str(changed.aggregate_id))
            return tuple(await self._ratios.puts(names, newest, moved if newest else ()))

        # Usually there is nothing to correct, and a read is cheaper than an empty commit.
        if await read():
            await save_guarded(self._ledger, AGGREGATES_GUARD, read)

    async def _check_zones(self, changed: Aggregate) -> None:
        zones = changed.availability_zones
        if not zones:
            return
        for other in await self.all():
            if other.aggregate_id == changed.aggregate_id or not other.availability_zones:
                continue
            both = sorted(changed.hosts & other.hosts)
            # Several aggregates may define the same availability zone.
            if both and other.availability_zones != zones:
                raise ConflictError(
                    f"host {both[0]} would be in more than one availability zone: "
                    f"{', '.join(sorted(zones | other.availability_zones))}; remove it from an "
                    "aggregate of the other zone first"
                )

    async def _check_bound(self, old: Aggregate, changed: Aggregate) -> None:
        """Check that no server would be outside the availability zone that it asked for.

        Such a server could not be moved, because only hosts of its zone would be considered.

        Raises:
            ConflictError: a host would leave the zone that a server on it is bound to.
        """
        zones = old.availability_zones, changed.availability_zones
        if old.hosts == changed.hosts and zones[0] == zones[1]:
            return
        others = [one for one in await self.all() if one.aggregate_id != old.aggregate_id]
        for host in sorted(old.hosts | changed.hosts):
            left = self._zones_of(host, [*others, old]) - self._zones_of(host, [*others, changed])
            if not left:
                continue
            here = await self._ledger.instances(InstanceQuery(host=host, limit=_HOST_MAX))
            bound = sorted(one.uuid for one in here if one.requested_zone in left)
            if bound:
                noun = "server is" if len(bound) == 1 else "servers are"
                raise ConflictError(
                    f"host {host} would leave availability zone {', '.join(sorted(left))}, to "
                    f"which {len(bound)} {noun} bound ({bound[0]}, for one); move them to other "
                    "hosts of the zone, unbind them from it, or repeat the change with --force "
                    "(X-Berth-Force: true)"
                )

    def _zones_of(self, host: str, aggregates: Iterable[Aggregate]) -> frozenset[str]:
        """Return the availability zones of a host that is in some of the aggregates."""
        named = [one.availability_zones for one in aggregates if host in one.hosts]
        return frozenset[str]().union(*named) or frozenset({self._default_zone})
