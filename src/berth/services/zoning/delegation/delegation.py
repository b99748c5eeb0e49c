"""Delegates instances to child zones and records this in the ledger before and after the call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Guard, Put, QuotaCheck, Rejected, Remove, Unit, Write
from berth.domain.zones.offer import OfferRefusalReason
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.domain.zones.zone_orders import BuildItem, BuildOrder, ReleaseOrder, Withdrawal
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.ports.zones import ChildZones, NotAskedError
from berth.services.providers.guarded_saves import rejection_text, save
from berth.services.zoning.offers.child_orders import portable_request
from berth.services.zoning.offers.group_homes import home_guard, home_of, is_together

Flaws = Mapping[str, OfferRefusalReason | None]
"""The reason for the refusal of each instance, by uuid; None if it was built or is being built."""


class Delegation(NamedTuple):
    """An instance that a child is to build.

    `blob` is the child's offer for the instance, and `sent_ms` the time of sending in Unix
    milliseconds.
    """

    instance: Instance
    blob: bytes
    sent_ms: int


WithdrawnCheck = Callable[[Sequence[Delegation]], Awaitable[frozenset[str]]]
"""Returns the uuids of the delegated instances that a parent has withdrawn since they were sent."""


class Settlement(NamedTuple):
    """The answers of children about instances, as two sets of uuids.

    Instances in `present` are being built or exist; those in `absent` do not exist and will not be
    built. The state of all others is unknown, because their child did not answer or was removed.
    """

    present: frozenset[str]
    absent: frozenset[str]


_UNSETTLED: Final = Settlement(frozenset(), frozenset())


class Delegator:
    """Delegates instances to children, and withdraws them.

    Args:
        ledger: stores the remote instances.
        zone_of: returns a child by its id, or None if it has been removed.
        children: the client of the child zones.
        clock: provides the time of day.
        telemetry: receives failures of children that do not answer.
        zone: the name of this zone.
        timeout_s: seconds that a child may take to answer.
        limits: returns the quota check of a project, or None if it has no limits; without this
            argument no project has limits.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        ledger: Ledger,
        zone_of: Callable[[int], Zone | None],
        children: ChildZones,
        clock: Clock,
        telemetry: Telemetry,
        zone: str,
        timeout_s: float,
        limits: Callable[[str], QuotaCheck | None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._zone_of = zone_of
        self._children = children
        self._clock = clock
        self._telemetry = telemetry
        self._zone = zone
        self._timeout_s = timeout_s
        self._limits = limits

    def name_of(self, zone_id: int) -> str:
        """Return the name of a child, of this zone for 0, or `zone ID` for a removed child."""
        if not zone_id:
            return self._zone
        zone = self._zone_of(zone_id)
        return f"zone {zone_id}" if zone is None else zone.name

    async def send(
        self,
        request: Request,
        group: ServerGroup | None,
        zone_id: int,
        delegations: Sequence[Delegation],
        *,
        withdrawn: WithdrawnCheck | None = None,
        earlier: Mapping[str, RemoteInstance] | None = None,
    ) -> Flaws:
        """Delegate instances to a child and return the reasons for the refusals, by uuid.

        The reason is None for an instance that the child builds.

        Args:
            request: the request that the instances belong to.
            group: its server group, which the child may not know yet.
            zone_id: the child's id.
            delegations: the instances, each with the child's offer.
            withdrawn: returns the uuids of the instances that a parent has withdrawn. It is called
                after the remote instances are recorded, so a concurrent release either sees the
                records or has left a tombstone that this check sees.
            earlier: remote instances from an earlier attempt at the same child, by uuid. When
                the child refuses now, the earlier record is restored, because the child may have
                built the instance from the first order.

        Raises:
            ConflictError: a record of an accepted instance cannot be written.
            UnavailableError: this zone's ledger cannot be reached.
        """
        zone = self._zone_of(zone_id)
        if zone is None or not await self._record(request, group, zone_id, delegations):
            # The quota may be exhausted, or the group may just have moved to another zone. The
            # parent gets the same refusal for all of these, so it learns nothing about quotas here.
            uuids = (one.instance.uuid for one in delegations)
            return dict.fromkeys(uuids, OfferRefusalReason.GONE)
        marked = frozenset[str]() if withdrawn is None else await withdrawn(delegations)
        left: list[Delegation] = []
        for one in delegations:
            if one.instance.uuid not in marked:
                left.append(one)
            elif await self._is_latest(one):
                await self._forget(one.instance.uuid)
        flaws: dict[str, OfferRefusalReason | None] = dict.fromkeys(
            marked, OfferRefusalReason.WITHDRAWN
        )
        if left:
            refusals = await self._send(request, group, zone, left)
            if withdrawn is not None:
                left = [one for one in left if await self._is_latest(one)]
            await self._note(left, zone.zone_id, refusals, earlier or {})
            flaws |= refusals
        return flaws

    async def _record(
        self,
        request: Request,
        group: ServerGroup | None,
        zone_id: int,
        delegations: Sequence[Delegation],
    ) -> bool:
        """Record the instances that are about to be sent; return whether sending is allowed.

        The record precedes the call: after a crash, or when the answer is lost, only the record
        tells which child may be running an instance.
        """
        unit: list[Write] = [Put(self._remote(one, zone_id)) for one in delegations]
        within = None if self._limits is None else self._limits(request.project_id)
        if within is not None:
            unit.append(within)
        if group is not None and is_together(group):
            seen = await self._ledger.version()
            stored = await self._ledger.get(ServerGroup, group.uuid)
            if home_of(stored) not in {None, zone_id}:
                return False
            # The guard is shared, so that members may go to the home zone simultaneously. No member
            # may go while the home itself is being changed.
            unit.append(Guard(home_guard(group.uuid), seen, is_shared=True))
        (outcome,) = await self._ledger.commit([tuple(unit)])
        return not isinstance(outcome, Rejected)

    async def _is_latest(self, delegation: Delegation) -> bool:
        """Return whether no newer order for the instance has arrived from the parent."""
        remote = await self._ledger.get(RemoteInstance, delegation.instance.uuid)
        return remote is None or remote.sent_ms <= delegation.sent_ms

    async def _send(
        self,
        request: Request,
        group: ServerGroup | None,
        zone: Zone,
        delegations: Sequence[Delegation],
    ) -> Flaws:
        uuids = [one.instance.uuid for one in delegations]
        order = BuildOrder(
            request=replace(portable_request(request), instance_uuids=tuple(uuids)),
            audience=self._zone,
            items=tuple(
                BuildItem(_fresh(one.instance), one.blob, one.sent_ms) for one in delegations
            ),
            group=None if group is None else replace(group, zone_id=None),
        )
        try:
            outcomes = await self._children.build(zone, order, timeout_s=self._timeout_s)
        except NotAskedError:
            return dict.fromkeys(uuids, OfferRefusalReason.GONE)
        except UnavailableError:
            # The child may have built the instances, so their records stay. Requests about them go
            # to the child until a release clarifies whether they exist.
            return dict.fromkeys(uuids, OfferRefusalReason.UNSETTLED)
        flaw_by_uuid = {one.instance_uuid: one.flaw for one in outcomes}
        return {uuid: flaw_by_uuid.get(uuid, OfferRefusalReason.UNSETTLED) for uuid in uuids}

    async def _forget(self, uuid: str) -> None:
        try:
            await save(self._ledger, Remove(Kind.REMOTE_INSTANCE, uuid))
        except ConflictError:
            return  # another process has removed it

    async def settle(self, remotes: Sequence[RemoteInstance], *, keeps_built: bool) -> Settlement:
        """Ask children about instances that were sent, and prevent late builds of absent ones.

        The records of absent instances are removed; those of present ones get the stage THERE.

        Args:
            remotes: remote instances of one project, at any children.
            keeps_built: whether built instances stay at the child; otherwise it deletes them.

        Raises:
            UnavailableError: this zone's ledger cannot be reached.
        """
        by_zone: dict[int, list[RemoteInstance]] = {}
        for one in remotes:
            by_zone.setdefault(one.zone_id, []).append(one)
        found = await asyncio.gather(
            *(
                self._settle(zone_id, some, keeps_built=keeps_built)
                for zone_id, some in by_zone.items()
            )
        )
        there = frozenset(chain.from_iterable(one.present for one in found))
        back = frozenset(chain.from_iterable(one.absent for one in found))
        return Settlement(there, back)

    async def _settle(
        self, zone_id: int, remotes: Sequence[RemoteInstance], *, keeps_built: bool
    ) -> Settlement:
        zone, uuids = self._zone_of(zone_id), frozenset(one.instance_uuid for one in remotes)
        if zone is None:
            # An operator has removed the child, so its instances stay open until it is added again.
            return _UNSETTLED
        order = ReleaseOrder(
            self._zone,
            withdrawn=tuple(Withdrawal(one.instance_uuid, one.sent_ms) for one in remotes),
            project_id=remotes[0].project_id,
            keeps_built=keeps_built,
        )
        try:
            kept = await self._children.release(zone, order, timeout_s=self._timeout_s)
        except UnavailableError as error:
            self._telemetry.failure(
                "zone_release_unconfirmed", error, zone=zone.name, instances=len(uuids)
            )
            return _UNSETTLED
        there = kept & uuids
        writes: list[Write] = [
            Put(replace(one, stage=RemoteInstanceStage.THERE))
            if one.instance_uuid in there
            else Remove(Kind.REMOTE_INSTANCE, one.instance_uuid)
            for one in remotes
        ]
        for write in writes:
            try:
                await save(self._ledger, write)
            except ConflictError:
                continue  # another process has removed it
        return Settlement(there, uuids - there)

    async def _note(
        self,
        delegations: Sequence[Delegation],
        zone_id: int,
        flaws: Flaws,
        earlier: Mapping[str, RemoteInstance],
    ) -> None:
        """Record the accepted instances, and remove the records of the refused ones.

        Raises:
            ConflictError: a record of an accepted instance cannot be written.
        """
        puts: list[Write] = []
        removals: list[Unit] = []
        for one in delegations:
            uuid = one.instance.uuid
            flaw = flaws[uuid]
            if flaw is None:
                remote = self._remote(one, zone_id)
                puts.append(Put(replace(remote, stage=RemoteInstanceStage.THERE)))
            elif flaw is OfferRefusalReason.UNSETTLED:
                continue  # the record stays, because a release has to name its timestamp
            elif uuid in earlier:
                puts.append(Put(earlier[uuid]))
            else:
                removals.append((Remove(Kind.REMOTE_INSTANCE, uuid),))
        # Another process may have removed the record of a refused instance. That must not undo the
        # records of the accepted ones, which a later release needs, so each removal is a unit.
        units = [tuple(puts), *removals] if puts else removals
        for unit, outcome in zip(units, await self._ledger.commit(units), strict=True):
            if isinstance(outcome, Rejected) and isinstance(unit[0], Put):
                raise ConflictError(rejection_text(outcome))

    def _remote(self, delegation: Delegation, zone_id: int) -> RemoteInstance:
        instance, now_s = delegation.instance, self._clock.now_s()
        return RemoteInstance(
            instance_uuid=instance.uuid,
            zone_id=zone_id,
            stage=RemoteInstanceStage.SENDING,
            project_id=instance.project_id,
            user_id=instance.user_id,
            reservation_id=instance.reservation_id,
            request_id=instance.request_id,
            sent_ms=delegation.sent_ms,
            created_at_s=now_s,
            updated_at_s=now_s,
            counts_as=(instance.flavor.vcpus, instance.flavor.memory_mb),
            group_uuid=instance.group_uuid or "",
        )


def _fresh(instance: Instance) -> Instance:
    """Return an instance as a new record for the child's ledger, with revision 0."""
    return replace(instance, revision=0)
