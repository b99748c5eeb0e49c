"""One round of a drain: the outcomes of its moves, and the moves that begin next."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.maintenance import (
    LEASE_S,
    Drain,
    DrainState,
    Maintenance,
    MoveState,
    ServerMove,
    maintenance_guard,
)
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Guard, Put, Remove, Write
from berth.domain.uuids import named_uuid
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger, MigrationQuery
from berth.services.decisions.joint_decisions import JointDecisions
from berth.services.maintenance.drain_plans import (
    PlannedMove,
    beginning_of,
    move_of,
    plan_drain,
)
from berth.services.maintenance.maintenances import ending_of, instances_on, stopped_drain
from berth.services.maintenance.methods import COLD, LIVE, Hindrance, method_of
from berth.services.providers.guarded_saves import service_guard
from berth.services.replica.follower import Follower
from berth.services.replica.ledger_pages import every_migration
from berth.services.replica.replica import Replica
from berth.services.servers.operations import Operations

# The pause before a further attempt doubles from the first value to the second. Without a deadline
# a server is given up after this many failures.
_PAUSE_FIRST_S: Final = 5.0
_PAUSE_MAX_S: Final = 60.0
_ATTEMPTS_MAX: Final = 4
# An attempt avoids at most so many hosts, those on which the latest ones failed.
_AVOIDED_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class DrainParts:
    """The parts that drains need.

    `name` is that of this scheduler, and unique. `service_down_time_s` returns the seconds without
    a heartbeat after which a service is down.
    """

    name: str
    ledger: Ledger
    follower: Follower
    replica: Replica
    joint: JointDecisions
    operations: Operations
    clock: Clock
    service_down_time_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Sight:
    """The instances on the host, the other instances that move from or to it, and their moves.

    All are by the uuid of the instance.
    """

    instances: Mapping[str, Instance]
    others: Mapping[str, Instance]
    migrations: Mapping[str, Migration]


class DrainRound:
    """Works once on the maintenance of one host.

    Every save carries the guard of the maintenance, and each move begins in the unit that records
    it. So a scheduler that has lost the record to another one, or does not know yet that an
    operator has stopped the drain, cannot begin a move.

    Args:
        parts: the services.
        record: the record, as read at a version that is at least `seen`.
        seen: the version of the ledger before the read.
    """

    def __init__(self, parts: DrainParts, record: Maintenance, seen: int) -> None:
        self._parts = parts
        self._ledger = parts.ledger
        self._record = record
        self._seen = seen
        self._now_s = parts.clock.now_s()

    async def work(self) -> bool:
        """Do what is due, and return whether more work will come soon.

        Raises:
            ConflictError: another process has changed the maintenance; the next round sees it.
            UnavailableError: the ledger cannot be reached.
        """
        record = self._record
        service = await self._ledger.get(Service, record.host)
        has_passed = record.until_s is not None and record.until_s <= self._now_s
        # An operator who enables the service ends a maintenance that only kept it disabled.
        is_enabled = record.drain is None and service is not None and not service.disabled
        if service is None or has_passed or is_enabled:
            await self._end(service)
            return False
        if record.drain is None:
            return False
        await self._work_on(record.drain, service)
        return self._is_at_work()

    @property
    def drain(self) -> Drain | None:
        """The drain as this round has left it; None if there is none."""
        return self._record.drain

    def _is_at_work(self) -> bool:
        drain = self._record.drain
        return drain is not None and not drain.is_over

    async def _work_on(self, drain: Drain, service: Service) -> None:
        sight = await self._look()
        moves = await self._settle(drain, sight)
        drain = self._classified(replace(drain, moves=moves), sight)
        if drain.state is DrainState.DRAINED and sight.instances:
            drain = replace(drain, state=DrainState.RUNNING, message="", ended_at_s=None)
        if drain.state is DrainState.RUNNING and not service.disabled:
            drain = stopped_drain(drain, "the compute service was enabled", self._now_s)
        if drain.state is DrainState.RUNNING:
            drain = await self._advance(drain, sight, service)
        elif drain.state is DrainState.INCOMPLETE and not _left_in(drain):
            # An operator has moved the servers that were left.
            drain = self._drained(drain)
        if self._record.is_ending and drain.is_over:
            ended = replace(self._record, drain=drain)
            await self._save(ended, *ending_of(ended, self._now_s), removes=True)
            return
        await self._save_changes(drain)

    async def _advance(self, drain: Drain, sight: _Sight, service: Service) -> Drain:
        """Begin the moves that are due, and return the drain with them or with its end."""
        alive = self._parts.replica.with_heartbeat(service)
        if not alive.is_up(self._now_s, self._parts.service_down_time_s()):
            down = f"the service of host {self._record.host} is down, so no move can begin"
            drain = replace(drain, message=down)
        elif not self._is_late(drain):
            drain = await self._begin(replace(drain, message=""), sight)
        return self._concluded(drain)

    # --- what has become of the moves ---

    async def _look(self) -> _Sight:
        host = self._record.host
        query = MigrationQuery(host=host, is_live=True)
        live = [one async for one in every_migration(self._ledger, query) if not one.has_ended]
        # The moves come first: a server that arrives between both reads must not be in neither.
        found = {one.uuid: one for one in await instances_on(self._ledger, host)}
        migrations = {one.instance_uuid: one for one in live if one.instance_uuid not in found}
        read = [await self._ledger.get(Instance, uuid) for uuid in migrations]
        others = {one.uuid: one for one in read if one is not None}
        return _Sight(found, others, migrations)

    async def _settle(self, drain: Drain, sight: _Sight) -> tuple[ServerMove, ...]:
        settled: list[ServerMove] = []
        for move in drain.moves:
            is_here = move.instance_uuid in sight.instances
            if move.state is MoveState.MOVING:
                settled.append(await self._settled(drain, move, sight))
            elif is_here or move.state is MoveState.MOVED:
                settled.append(move)
            elif move.instance_uuid not in sight.migrations:
                settled.append(await self._left(move))
            else:
                settled.append(move)
        return tuple(settled)

    async def _settled(self, drain: Drain, move: ServerMove, sight: _Sight) -> ServerMove:
        """Return a move in progress, or its outcome if it has ended."""
        uuid = move.instance_uuid
        instance = sight.instances.get(uuid) or await self._ledger.get(Instance, uuid)
        if instance is None or instance.status is Status.DELETED:
            return replace(move, state=MoveState.MOVED, destination=None, reason="was deleted")
        if instance.task is not None:
            return move
        if instance.host == self._record.host:
            return await self._after_attempt(move, instance)
        waits = await self._confirms(drain, move, instance)
        if waits is not None:
            return replace(move, reason=waits)
        return replace(move, state=MoveState.MOVED, destination=instance.host, reason="")

    async def _left(self, move: ServerMove) -> ServerMove:
        """Return the move of a server that left the host without the drain."""
        instance = await self._ledger.get(Instance, move.instance_uuid)
        is_gone = instance is None or instance.status is Status.DELETED
        host = None if instance is None else instance.host
        reason = "was deleted" if is_gone else "left the host otherwise"
        return replace(move, state=MoveState.MOVED, destination=host, reason=reason)

    async def _confirms(self, drain: Drain, move: ServerMove, instance: Instance) -> str | None:
        """Have a cold move confirmed once it has arrived.

        The result is None if the move is over; otherwise it is why it was not confirmed, or empty.
        """
        if instance.migration_uuid is None:
            return None
        migration = await self._ledger.get(Migration, instance.migration_uuid)
        is_own = migration is not None and migration.request_id == move.request_id
        if migration is None or not is_own or migration.stage is not Stage.ARRIVED:
            return None
        request_id = f"req-{named_uuid(f'confirm:{migration.uuid}')}"
        caller = Caller(request_id, drain.project_id, drain.user_id, is_admin=True)
        try:
            await self._parts.operations.confirm(
                instance.uuid, caller, service_down_time_s=self._parts.service_down_time_s()
            )
        except (ConflictError, NotFoundError) as error:
            # The owner or another process was faster. The next round sees the result.
            return f"is elsewhere, but its move is not confirmed yet: {error}"
        return ""

    async def _after_attempt(self, move: ServerMove, instance: Instance) -> ServerMove:
        """Return the move of a server that is on the host after an attempt."""
        if instance.status is Status.SHELVED and move.method == "shelve":
            # The driver keeps shelved servers on their host, so the offload is the next step.
            return replace(move, state=MoveState.WAITING)
        actions = await self._ledger.actions(instance.uuid)
        action = next((one for one in actions if one.request_id == move.request_id), None)
        decision = await self._ledger.get(Decision, move.request_id)
        if decision is not None and decision.verdict is Verdict.REFUSED:
            reason = decision.refusal.message if decision.refusal else ""
            return self._failed(move, reason or "no host has room")
        errors = [one.error for one in action.events if one.error] if action else []
        reason = (errors or [action.message if action else ""])[-1]
        avoids = move.avoids if move.destination is None else (*move.avoids, move.destination)
        failed = self._failed(move, reason or "the move ended on the same host")
        return replace(failed, avoids=avoids[-_AVOIDED_MAX:])

    def _failed(self, move: ServerMove, reason: str) -> ServerMove:
        # The exponent is limited, because a drain with a deadline may try for days.
        pause_s = min(_PAUSE_FIRST_S * 2 ** min(move.attempts, _ATTEMPTS_MAX), _PAUSE_MAX_S)
        return replace(
            move,
            state=MoveState.FAILED,
            reason=reason,
            attempts=move.attempts + 1,
            next_try_s=self._now_s + pause_s,
        )

    def _classified(self, drain: Drain, sight: _Sight) -> Drain:
        """Return the drain with the present state of every server that it does not move now."""
        known = {move.instance_uuid: move for move in drain.moves}
        for uuid, instance in sight.instances.items():
            move = known.get(uuid) or ServerMove(uuid, instance.name)
            if move.state is not MoveState.MOVING:
                known[uuid] = _present(move, instance, drain)
        for uuid, migration in sight.migrations.items():
            other = sight.others.get(uuid)
            move = known.get(uuid) or ServerMove(uuid, uuid if other is None else other.name)
            if move.state is not MoveState.MOVING:
                known[uuid] = _of_other_move(move, migration)
        return replace(drain, moves=_in_order(known.values()))

    # --- which moves begin ---

    async def _begin(self, drain: Drain, sight: _Sight) -> Drain:
        free = drain.parallel - drain.in_state(MoveState.MOVING)
        known = {move.instance_uuid: move for move in drain.moves}
        if free <= 0 or _is_undecided(known.values(), sight):
            return drain
        is_due = {uuid for uuid, move in known.items() if self._is_due(drain, move)}
        if not is_due:
            return drain
        await self._parts.follower.catch_up()
        # A server that is given up must not take the place of one that can still move.
        staying = [one for uuid, one in sight.instances.items() if _is_tried(drain, known[uuid])]
        plans = await plan_drain(self._record, drain, staying, self._parts.joint, is_due)
        due = [one for one in plans if one.instance.uuid in is_due and not one.waits]
        drain = await self._without_room(drain, [plan for plan in due if not plan.fits])
        for plan in due:
            if plan.fits and free:
                drain, begun = await self._begin_one(drain, plan)
                free -= begun
        return drain

    def _is_due(self, drain: Drain, move: ServerMove) -> bool:
        if move.state is MoveState.WAITING:
            return not move.reason
        # A pause that seems longer than the longest one began before the clock was set back.
        pause_s = move.next_try_s - self._now_s
        return _is_tried(drain, move) and not 0 < pause_s <= _PAUSE_MAX_S

    async def _begin_one(self, drain: Drain, plan: PlannedMove) -> tuple[Drain, bool]:
        """Begin a move in the unit that records it; return whether it has begun."""
        move = replace(
            move_of(plan, _entry(drain, plan)),
            state=MoveState.MOVING,
            destination=plan.destination,
            request_id=plan.request_id,
            reason="",
        )
        begun = replace(_with(drain, move), begun=drain.begun + 1)
        writes = beginning_of(plan, drain, self._now_s)
        if await self._save(replace(self._record, drain=begun), *writes):
            return begun, True
        return drain, False  # the server has changed meanwhile, which the next round sees

    async def _without_room(self, drain: Drain, plans: Sequence[PlannedMove]) -> Drain:
        """Record for which servers the joint plan has no host, with the decisions that say why.

        One unit records all of them, since each save writes the whole record.
        """
        if not plans:
            return drain
        known = {move.instance_uuid: move for move in drain.moves}
        for plan in plans:
            uuid = plan.instance.uuid
            move = self._failed(move_of(plan, known.get(uuid)), plan.reason)
            # A host on which a move failed before is better than none.
            known[uuid] = replace(move, request_id=plan.request_id, destination=None, avoids=())
        # The next attempts need other request ids.
        refused = replace(drain, moves=_in_order(known.values()), begun=drain.begun + 1)
        writes = [Put(plan.decision) for plan in plans if plan.decision is not None]
        await self._save(replace(self._record, drain=refused), *writes)
        return refused

    # --- the end ---

    def _is_late(self, drain: Drain) -> bool:
        return drain.deadline_s is not None and drain.deadline_s <= self._now_s

    def _concluded(self, drain: Drain) -> Drain:
        """Return the drain, ended if nothing is left to do."""
        if drain.in_state(MoveState.MOVING):
            return drain
        left = _left_in(drain)
        if not left:
            return self._drained(drain)
        if self._is_late(drain):
            message = f"the deadline has passed; {_servers(left)} left"
        elif drain.deadline_s is None and not self._has_more_to_try(drain):
            message = f"{_servers(left)} cannot be moved"
        else:
            return drain
        return replace(drain, state=DrainState.INCOMPLETE, message=message, ended_at_s=self._now_s)

    def _drained(self, drain: Drain) -> Drain:
        return replace(drain, state=DrainState.DRAINED, message="", ended_at_s=self._now_s)

    @staticmethod
    def _has_more_to_try(drain: Drain) -> bool:
        return any(_is_tried(drain, move) for move in drain.moves)

    async def _end(self, service: Service | None) -> None:
        """End the maintenance, and give the service back the state that it had before."""
        record = self._record
        if service is None:
            # A host without a service has no servers, so no move is left to be followed.
            await self._save(record, Remove(Kind.MAINTENANCE, record.host), removes=True)
            return
        writes: list[Write] = [Guard(service_guard(record.host), self._seen)]
        # An operator who disabled the service for another reason since keeps it disabled.
        if service.disabled and service.disabled_reason == record.reason:
            back = replace(
                service,
                disabled=record.was_disabled,
                disabled_reason=record.was_disabled_reason,
            )
            writes.append(Put(back))
        await self._save(record, *writes, *ending_of(record, self._now_s), removes=True)

    # --- saves ---

    async def _save_changes(self, drain: Drain) -> None:
        """Save the drain if it has changed, or if the lease on it must be renewed."""
        record = self._record
        ends_soon = record.taken_until_s - self._now_s < LEASE_S / 2
        is_mine = record.taken_by == self._parts.name
        needs_lease = not drain.is_over and (ends_soon or not is_mine)
        if drain != record.drain or needs_lease:
            await self._save(replace(record, drain=drain))

    async def _save(self, record: Maintenance, *writes: Write, removes: bool = False) -> bool:
        """Commit a changed record with further writes; return whether they were accepted.

        With `removes` the writes themselves replace or remove the record.

        Raises:
            ConflictError: another process has changed the maintenance.
        """
        taken = record.taken(self._parts.name, self._parts.clock.now_s() + LEASE_S)
        kept = () if removes else (Put(taken),)
        guard = Guard(maintenance_guard(record.host), self._seen)
        (outcome,) = await self._ledger.commit([(guard, *writes, *kept)])
        if isinstance(outcome, Committed):
            self._seen, self._record = outcome.version, taken
            return True
        if outcome.stale:
            raise ConflictError(f"the maintenance of host {record.host} was changed meanwhile")
        return False


def _present(move: ServerMove, instance: Instance, drain: Drain) -> ServerMove:
    """Return the entry of a server on the host that the drain does not move at the moment."""
    found = method_of(instance, drain)
    if isinstance(found, Hindrance):
        state = MoveState.WAITING if found.passes else MoveState.BLOCKED
        return replace(move, state=state, method="", reason=found.reason)
    if move.state is MoveState.FAILED:
        return replace(move, method=found.name)
    return replace(move, state=MoveState.WAITING, method=found.name, reason="")


def _of_other_move(move: ServerMove, migration: Migration) -> ServerMove:
    """Return the entry of a server elsewhere whose move still needs the host."""
    if migration.stage is Stage.ARRIVED:
        reason = "is elsewhere, but its move from here waits for confirmation; confirm it"
        return replace(move, state=MoveState.BLOCKED, method="", reason=reason)
    reason = f"its move {migration.number} from or to this host is {migration.status}"
    return replace(move, state=MoveState.WAITING, method="", reason=reason)


def _is_undecided(moves: Iterable[ServerMove], sight: _Sight) -> bool:
    """Return whether a move in progress has no claim yet, which a new plan could not see."""
    placed = {
        move.instance_uuid
        for move in moves
        if move.state is MoveState.MOVING and move.method in {LIVE.name, COLD.name}
    }
    here = [sight.instances[uuid] for uuid in placed if uuid in sight.instances]
    return any(instance.migration_uuid is None for instance in here)


def _is_tried(drain: Drain, move: ServerMove) -> bool:
    """Return whether a drain goes on trying to move a server."""
    if move.state is MoveState.FAILED:
        return drain.deadline_s is not None or move.attempts < _ATTEMPTS_MAX
    return move.state is MoveState.WAITING


def _in_order(moves: Iterable[ServerMove]) -> tuple[ServerMove, ...]:
    return tuple(sorted(moves, key=lambda move: (move.name, move.instance_uuid)))


def _entry(drain: Drain, plan: PlannedMove) -> ServerMove | None:
    uuid = plan.instance.uuid
    return next((move for move in drain.moves if move.instance_uuid == uuid), None)


def _with(drain: Drain, move: ServerMove) -> Drain:
    others: Sequence[ServerMove] = [
        one for one in drain.moves if one.instance_uuid != move.instance_uuid
    ]
    return replace(drain, moves=_in_order([*others, move]))


def _left_in(drain: Drain) -> int:
    """Return the number of servers that have not moved and are not moving."""
    return drain.in_state(MoveState.WAITING, MoveState.BLOCKED, MoveState.FAILED)


def _servers(number: int) -> str:
    return "1 server" if number == 1 else f"{number} servers"
