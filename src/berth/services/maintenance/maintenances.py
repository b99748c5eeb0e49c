"""Maintenance as operators request it: drain a host, keep it disabled, and enable it again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.maintenance import (
    PARALLEL_MAX,
    Drain,
    DrainMode,
    DrainState,
    Maintenance,
    MoveState,
    ServerMove,
    maintenance_guard,
)
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Guard, Put, Remove, Unit, Write
from berth.ports.clock import Clock
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.decisions.joint_decisions import JointDecisions
from berth.services.maintenance.drain_plans import PlannedMove, plan_drain
from berth.services.providers.guarded_saves import save_guarded, service_guard
from berth.services.replica.follower import Follower
from berth.services.replica.ledger_pages import every_instance
from berth.services.replica.replica import Replica

REASON: Final = "maintenance"
"""The reason for which a service is disabled, unless the operator states another."""

# The moves that a repeated request for a drain does not plan again.
_KEPT: Final = frozenset({MoveState.MOVING, MoveState.MOVED})


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """A request for a drain; see `Drain` and `Maintenance` for the fields."""

    mode: DrainMode = DrainMode.LIVE
    parallel: int = 1
    deadline_s: float | None = None
    moves_locked: bool = False
    reason: str | None = None


class Maintenances:
    """Starts, stops and shows the maintenance of hosts; the schedulers carry it out.

    All methods raise UnavailableError if the ledger cannot be reached, and those that change
    something ConflictError if every attempt lost a race against another change.

    Args:
        ledger: stores the records.
        follower: keeps the replica up to date with the ledger.
        replica: knows the heartbeats of hosts.
        joint: chooses destinations for previews.
        clock: provides the times in records.
        service_down_time_s: returns the seconds without a heartbeat after which a service is down.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        joint: JointDecisions,
        clock: Clock,
        service_down_time_s: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._joint = joint
        self._clock = clock
        self._service_down_time_s = service_down_time_s

    async def all(self) -> list[Maintenance]:
        """Return the maintenance of every host that has one, ordered by host."""
        return await self._ledger.all(Maintenance)

    async def get(self, host: str) -> Maintenance:
        """Return the maintenance of a host.

        Raises:
            NotFoundError: the host has none.
        """
        found = await self._ledger.get(Maintenance, host)
        if found is None:
            raise NotFoundError("maintenance of host", host)
        return found

    async def preview(self, host: str, order: DrainOrder) -> list[PlannedMove]:
        """Return what a drain would do now with each server on the host, ordered by name.

        Raises:
            NotFoundError: there is no such service.
            InvalidInputError: the order is out of range.
        """
        now_s = self._clock.now_s()
        _check(order, now_s)
        if await self._ledger.get(Service, host) is None:
            raise NotFoundError("compute service", host)
        await self._follower.catch_up()
        record = Maintenance(host, REASON, started_at_s=now_s)
        instances = await instances_on(self._ledger, host)
        drain = _drain(order, Caller("", "", ""), now_s)
        return await plan_drain(record, drain, instances, self._joint)

    async def drain(self, host: str, order: DrainOrder, caller: Caller) -> Maintenance:
        """Disable a host and have its servers moved; a further call continues with the new order.

        Raises:
            NotFoundError: there is no such service.
            InvalidInputError: the order is out of range.
            ConflictError: the host is down, so its servers cannot be moved.
        """
        now_s = self._clock.now_s()
        _check(order, now_s)

        def changed(record: Maintenance, service: Service) -> Maintenance:
            alive = self._replica.with_heartbeat(service)
            if not alive.is_up(now_s, self._service_down_time_s()):
                raise ConflictError(
                    f"cannot drain host {host}: its service is down; if the host has failed, "
                    f"rebuild its servers elsewhere with `berth host evacuate {host}`"
                )
            return replace(
                record,
                reason=order.reason or record.reason,
                drain=_drain(order, caller, now_s, record.drain),
            )

        return await self._change(host, changed)

    async def maintain(self, host: str, until_s: float | None, reason: str | None) -> Maintenance:
        """Keep a host disabled until a Unix time in seconds, or until it is resumed.

        Raises:
            NotFoundError: there is no such service.
            InvalidInputError: the time has passed.
        """
        if until_s is not None and until_s <= self._clock.now_s():
            raise InvalidInputError("until", "has passed; state a time in the future")

        def changed(record: Maintenance, _: Service) -> Maintenance:
            return replace(record, until_s=until_s, reason=reason or record.reason)

        return await self._change(host, changed)

    async def stop(self, host: str) -> Maintenance:
        """Stop a drain: moves in progress end, no further ones begin, the host stays disabled.

        Raises:
            NotFoundError: the host has no drain.
        """
        stopped: list[Maintenance] = []

        async def read() -> Unit:
            record = await self.get(host)
            drain = record.drain
            if drain is None:
                raise NotFoundError("drain of host", host)
            if drain.state is not DrainState.STOPPED:
                drain = stopped_drain(drain, "an operator stopped the drain", self._clock.now_s())
            stopped[:] = [replace(record, drain=drain)]
            return (Put(stopped[0]),)

        await save_guarded(self._ledger, maintenance_guard(host), read)
        return stopped[0]

    async def resume(self, host: str) -> None:
        """Enable a host again, and end its maintenance and its drain.

        Moves in progress end as they would have.

        Raises:
            NotFoundError: there is no such service.
        """

        async def read() -> Unit:
            seen = await self._ledger.version()
            service = await self._ledger.get(Service, host)
            record = await self._ledger.get(Maintenance, host)
            if service is None:
                raise NotFoundError("compute service", host)
            enabled = replace(service, disabled=False, disabled_reason=None)
            over: Sequence[Write] = () if record is None else ending_of(record, self._clock.now_s())
            return (Guard(service_guard(host), seen), Put(enabled), *over)

        await save_guarded(self._ledger, maintenance_guard(host), read)

    async def _change(
        self, host: str, changed: Callable[[Maintenance, Service], Maintenance]
    ) -> Maintenance:
        """Save the changed maintenance of a host, which is a new one if it has none."""
        saved: list[Maintenance] = []

        async def read() -> Unit:
            seen = await self._ledger.version()
            service = await self._ledger.get(Service, host)
            if service is None:
                raise NotFoundError("compute service", host)
            before = await self._ledger.get(Maintenance, host)
            if before is None or before.is_ending:
                before = _new(service, before, self._clock.now_s())
            record = changed(_with_state_before(before, service), service)
            disabled = replace(service, disabled=True, disabled_reason=record.reason)
            saved[:] = [record]
            return (Guard(service_guard(host), seen), Put(disabled), Put(record))

        await save_guarded(self._ledger, maintenance_guard(host), read)
        return saved[0]


async def instances_on(ledger: Ledger, host: str) -> list[Instance]:
    """Return the instances on a host, also soft-deleted ones, ordered by name and uuid."""
    found = [one async for one in every_instance(ledger, InstanceQuery(host=host))]
    return sorted(found, key=lambda one: (one.name, one.uuid))


def ending_of(record: Maintenance, now_s: float) -> Sequence[Write]:
    """Return the writes that end a maintenance; moves in progress keep the record until they end.

    Args:
        record: the maintenance.
        now_s: Unix seconds.
    """
    drain = record.drain
    if drain is None or not drain.in_state(MoveState.MOVING):
        return (Remove(Kind.MAINTENANCE, record.host),)
    drain = stopped_drain(drain, "the host was resumed", now_s)
    return (Put(replace(record, drain=drain, until_s=None, is_ending=True)),)


def stopped_drain(drain: Drain, message: str, now_s: float) -> Drain:
    """Return a drain in which no further moves begin."""
    return replace(drain, state=DrainState.STOPPED, message=message, ended_at_s=now_s)


def _new(service: Service, ending: Maintenance | None, now_s: float) -> Maintenance:
    """Return a new maintenance, which keeps the moves of one that is ending."""
    return Maintenance(
        host=service.host,
        reason=service.disabled_reason or REASON,
        was_disabled=service.disabled,
        was_disabled_reason=service.disabled_reason,
        drain=None if ending is None else ending.drain,
        started_at_s=now_s,
    )


def _with_state_before(record: Maintenance, service: Service) -> Maintenance:
    """Return a maintenance that gives back the state to which an operator set the service since."""
    if service.disabled and service.disabled_reason == record.reason:
        return record
    return replace(
        record,
        was_disabled=service.disabled,
        was_disabled_reason=service.disabled_reason,
        reason=service.disabled_reason or record.reason,
    )


def _drain(order: DrainOrder, caller: Caller, now_s: float, before: Drain | None = None) -> Drain:
    return Drain(
        mode=order.mode,
        parallel=order.parallel,
        deadline_s=order.deadline_s,
        moves_locked=order.moves_locked,
        project_id=caller.project_id,
        user_id=caller.user_id,
        started_at_s=now_s,
        begun=0 if before is None else before.begun,
        moves=() if before is None else tuple(map(_afresh, before.moves)),
    )


def _afresh(move: ServerMove) -> ServerMove:
    if move.state in _KEPT:
        return move
    return ServerMove(move.instance_uuid, move.name, request_id=move.request_id)


def _check(order: DrainOrder, now_s: float) -> None:
    if not 1 <= order.parallel <= PARALLEL_MAX:
        raise InvalidInputError("parallel", f"{order.parallel} must be from 1 to {PARALLEL_MAX}")
    if order.mode not in set(DrainMode):
        raise InvalidInputError("migrate", f"{order.mode!r} must be live, cold or shelve")
    if order.deadline_s is not None and order.deadline_s <= now_s:
        raise InvalidInputError("deadline", "has passed; state a time in the future")
