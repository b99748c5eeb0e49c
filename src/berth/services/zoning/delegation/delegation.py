"""Sending: instances that are passed on to child zones, written down before and after."""

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
from berth.domain.ledger.write import Guard, Put, QuotaCheck, Rejected, Remove, Write
from berth.domain.zones.offer import OfferRefusalReason
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.domain.zones.zone_orders import BuildItem, BuildOrder, ReleaseOrder, Withdrawal
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.ports.zones import ChildZones, NotAskedError
from berth.services.providers.guarded_saves import save
from berth.services.zoning.offers.group_homes import home_guard, home_of, is_together
from berth.services.zoning.offers.selection import portable_request

Flaws = Mapping[str, OfferRefusalReason | None]
"""Why each instance was refused, by uuid; None for those that are there."""


class Delegation(NamedTuple):
    """An instance that goes to a child, and the child's offer for it."""

    instance: Instance
    blob: bytes
    sent_ms: int


WithdrawnCheck = Callable[[Sequence[Delegation]], Awaitable[frozenset[str]]]
"""Tells the uuids of the parcels that were released since they were sent."""


class Settlement(NamedTuple):
    """Uuids of instances that are there, and of those that are not and will not be.

    Of the others nothing is known, as their child did not answer.
    """

    present: frozenset[str]
    absent: frozenset[str]


_UNSETTLED: Final = Settlement(frozenset(), frozenset())


class Delegator:
    """Sends instances to children, and takes them back.

    Args:
        ledger: keeps the errands.
        zone_of: returns a child by its number, None when there is none any more.
        children: asks them.
        clock: tells the time.
        telemetry: is told of children that do not answer.
        zone: the name of this zone.
        timeout_s: how long a child may take.
        limits: returns what keeps a project within its limits; nobody has any without it.
    """

    def __init__(  # noqa: PLR0913 - one part each
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
        """Return what a child is called, or this zone for 0; one that is gone has its number."""
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
        """Have a child build instances; tell of each what came of it.

        Args:
            request: what they were asked by.
            group: its server group, which the child may not know.
            zone_id: the child.
            delegations: what it is to build.
            withdrawn: tells which of them are not to be sent any more. It is asked when their
                errands stand, so that a release sees them, or its mark is seen.
            earlier: errands of those that the child was sent before; they stand again for those
                that it refuses now, as it may have them by what came first.

        Raises:
            UnavailableError: the ledger here cannot be reached.
        """
        zone = self._zone_of(zone_id)
        if zone is None:
            return dict.fromkeys(
                (one.instance.uuid for one in delegations), OfferRefusalReason.GONE
            )
        unit: list[Write] = [Put(self._remote(one, zone_id)) for one in delegations]
        within = None if self._limits is None else self._limits(request.project_id)
        if within is not None:
            unit.append(within)
        if group is not None and is_together(group):
            seen = await self._ledger.version()
            stored = await self._ledger.get(ServerGroup, group.uuid)
            if home_of(stored) not in {None, zone_id}:
                return dict.fromkeys(
                    (one.instance.uuid for one in delegations), OfferRefusalReason.GONE
                )
            unit.append(Guard(home_guard(group.uuid), seen, is_shared=True))
        (outcome,) = await self._ledger.commit([tuple(unit)])
        if isinstance(outcome, Rejected):
            # More than the project may have here, or its group has just gone to another zone; the
            # parent learns no more than that it is gone.
            return dict.fromkeys(
                (one.instance.uuid for one in delegations), OfferRefusalReason.GONE
            )
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
            told = await self._send(request, group, zone, left)
            if withdrawn is not None:
                left = [one for one in left if await self._is_latest(one)]
            await self._note(left, zone.zone_id, told, earlier or {})
            flaws |= told
        return flaws

    async def _is_latest(self, delegation: Delegation) -> bool:
        """Tell whether an instance was not sent again meanwhile, by whoever has sent it here."""
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
            # The errands stay: whoever asks for these instances is sent on, until a release.
            return dict.fromkeys(uuids, OfferRefusalReason.UNSETTLED)
        told = {one.instance_uuid: one.flaw for one in outcomes}
        return {uuid: told.get(uuid, OfferRefusalReason.UNSETTLED) for uuid in uuids}

    async def _forget(self, uuid: str) -> None:
        try:
            await save(self._ledger, Remove(Kind.REMOTE_INSTANCE, uuid))
        except ConflictError:
            return  # another one was faster to remove it

    async def settle(self, remotes: Sequence[RemoteInstance], *, keeps_built: bool) -> Settlement:
        """Find out what came of instances that were sent, so that none of them is built any more.

        What is not there loses its errand.

        Args:
            remotes: of any children.
            keeps_built: what is there stays there; else it is deleted.

        Raises:
            UnavailableError: the ledger here cannot be reached.
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
            # It was removed, and runs what it runs: it is asked when it is added again.
            return _UNSETTLED
        order = ReleaseOrder(
            self._zone,
            withdrawn=tuple(Withdrawal(one.instance_uuid, one.sent_ms) for one in remotes),
            project_id=remotes[0].project_id,
            keeps_built=keeps_built,
        )
        try:
            told = await self._children.release(zone, order, timeout_s=self._timeout_s)
        except UnavailableError as error:
            self._telemetry.failure("zone_unsettled", error, zone=zone.name, instances=len(uuids))
            return _UNSETTLED
        there = told & uuids
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
                continue  # another one was faster to remove it
        return Settlement(there, uuids - there)

    async def _note(
        self,
        delegations: Sequence[Delegation],
        zone_id: int,
        flaws: Flaws,
        earlier: Mapping[str, RemoteInstance],
    ) -> None:
        """Write down which instances are there, and forget those that the child has refused."""
        writes: list[Write] = []
        for one in delegations:
            uuid = one.instance.uuid
            flaw = flaws[uuid]
            if flaw is None:
                remote = self._remote(one, zone_id)
                writes.append(Put(replace(remote, stage=RemoteInstanceStage.THERE)))
            elif flaw is OfferRefusalReason.UNSETTLED:
                continue  # a release has to name what was sent last
            elif uuid in earlier:
                writes.append(Put(earlier[uuid]))
            else:
                writes.append(Remove(Kind.REMOTE_INSTANCE, uuid))
        if writes:
            await save(self._ledger, *writes)

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
    """Return an instance as a ledger has it that has never seen it."""
    return replace(instance, revision=0)
