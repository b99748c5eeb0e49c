"""Handlers that drain hosts, keep them disabled, and enable them again."""

from berth.api.berth.schemas.maintenance import (
    DrainBody,
    DrainPlanAnswer,
    DrainQuery,
    DrainView,
    MaintenanceAnswer,
    MaintenanceBody,
    MaintenancesAnswer,
    ServerMoveView,
)
from berth.api.compute.handlers.servers.action_arguments import caller_of
from berth.api.parts import ApiParts
from berth.api.routing import Answer, Call
from berth.api.values import flag
from berth.domain.compute.maintenance import Drain, DrainMode, Maintenance, MoveState, ServerMove
from berth.services.decisions.joint_decisions import JointDecisions
from berth.services.maintenance.drain_plans import PlannedMove
from berth.services.maintenance.maintenances import DrainOrder, Maintenances

_PLANNED = "planned"


async def list_maintenances(call: Call) -> Answer:
    """List the maintenance of all hosts, ordered by host."""
    found = await _maintenances(call.parts).all()
    return Answer(MaintenancesAnswer(maintenances=[_answer(one) for one in found]))


async def show_maintenance(call: Call) -> Answer:
    """Show the maintenance of a host with the progress of its drain.

    Raises:
        NotFoundError: the host has no maintenance.
    """
    return Answer(_answer(await _maintenances(call.parts).get(call.key("name"))))


async def maintain(call: Call) -> Answer:
    """Keep a host disabled until a time, or until it is resumed.

    Raises:
        NotFoundError: there is no such service.
        InvalidInputError: the time has passed.
        ConflictError: every attempt lost a race against another change.
    """
    body = call.body(MaintenanceBody)
    record = await _maintenances(call.parts).maintain(call.key("name"), body.until_s, body.reason)
    return Answer(_answer(record))


async def resume(call: Call) -> Answer:
    """Enable a host again, and end its maintenance and its drain.

    Raises:
        NotFoundError: there is no such service.
        ConflictError: every attempt lost a race against another change.
    """
    await _maintenances(call.parts).resume(call.key("name"))
    return Answer()


async def plan_drain(call: Call) -> Answer:
    """Show what a drain would do now with each server on the host; nothing changes.

    Raises:
        NotFoundError: there is no such service.
    """
    query, host = call.query(DrainQuery), call.key("name")
    order = DrainOrder(
        mode=DrainMode(query.migrate), moves_locked=flag(query.moves_locked, "moves_locked")
    )
    planned = await _maintenances(call.parts).preview(host, order)
    return Answer(
        DrainPlanAnswer(
            host=host,
            migrate=query.migrate,
            fits=sum(one.fits for one in planned),
            total=len(planned),
            servers=[_planned(one) for one in planned],
        )
    )


async def drain(call: Call) -> Answer:
    """Disable a host and have its servers moved; a stopped or ended drain continues.

    Raises:
        NotFoundError: there is no such service.
        InvalidInputError: the deadline has passed.
        ConflictError: the host is down, or every attempt lost a race against another change.
    """
    body = call.body(DrainBody)
    order = DrainOrder(
        mode=DrainMode(body.migrate),
        parallel=body.parallel,
        deadline_s=body.deadline_s,
        moves_locked=body.moves_locked,
        reason=body.reason,
    )
    record = await _maintenances(call.parts).drain(call.key("name"), order, caller_of(call))
    return Answer(_answer(record))


async def stop_drain(call: Call) -> Answer:
    """Stop a drain: moves in progress end, no further ones begin, and the host stays disabled.

    Raises:
        NotFoundError: the host has no drain.
        ConflictError: every attempt lost a race against another change.
    """
    return Answer(_answer(await _maintenances(call.parts).stop(call.key("name"))))


def _maintenances(parts: ApiParts) -> Maintenances:
    return Maintenances(
        ledger=parts.ledger,
        follower=parts.follower,
        replica=parts.replica,
        joint=JointDecisions(parts.decision_service, parts.replica),
        clock=parts.clock,
        service_down_time_s=lambda: parts.service_down_time_s,
    )


def _answer(record: Maintenance) -> MaintenanceAnswer:
    return MaintenanceAnswer(
        host=record.host,
        reason=record.reason,
        until_s=record.until_s,
        started_at_s=record.started_at_s,
        is_ending=record.is_ending,
        drain=None if record.drain is None else _drain(record.drain),
    )


def _drain(found: Drain) -> DrainView:
    return DrainView(
        state=found.state,
        message=found.message,
        migrate=found.mode,
        parallel=found.parallel,
        deadline_s=found.deadline_s,
        moves_locked=found.moves_locked,
        started_at_s=found.started_at_s,
        ended_at_s=found.ended_at_s,
        counts={state.value: found.in_state(state) for state in MoveState},
        servers=[_move(move) for move in found.moves],
    )


def _move(move: ServerMove) -> ServerMoveView:
    will_try = move.state is MoveState.FAILED
    return ServerMoveView(
        instance_uuid=move.instance_uuid,
        name=move.name,
        state=move.state,
        method=move.method or None,
        destination=move.destination,
        reason=move.reason or None,
        request_id=move.request_id or None,
        attempts=move.attempts,
        next_try_s=move.next_try_s if will_try else None,
    )


def _planned(plan: PlannedMove) -> ServerMoveView:
    state = _PLANNED if plan.fits else MoveState.FAILED.value
    if plan.method is None:
        state = MoveState.WAITING.value if plan.waits else MoveState.BLOCKED.value
    return ServerMoveView(
        instance_uuid=plan.instance.uuid,
        name=plan.instance.name,
        state=state,
        method=None if plan.method is None else plan.method.name,
        destination=plan.destination,
        reason=plan.reason or None,
    )
