"""Retries of failed moves on other hosts, while attempts remain."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Fault, Instance, Task
from berth.domain.compute.instance_action import ActionEvent
from berth.domain.compute.migration import Migration, MoveKind
from berth.domain.compute.request import Request, move_retry_id
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Add, Put, Unit, Write
from berth.services.gateway.step_context import StepContext
from berth.services.servers.moves import (
    AWAITING,
    OPERATIONS,
    MoveTarget,
    continue_task,
    end_task,
    request_to_move,
    start_move,
)

# As in Nova, a retry of a live migration or an evacuation always needs a new decision.
_WITH_ALTERNATES: Final = frozenset({MoveKind.RESIZE, MoveKind.COLD})


async def moves_to_alternates(
    context: StepContext, instance: Instance, failed: Migration, event: ActionEvent | None
) -> Sequence[Unit]:
    """Return the units that start the next move, one for each alternate, in order.

    The result is empty when no attempt or alternate remains, or a scheduler has to choose the host;
    see `retry_or_end`.
    """
    if context.alternates is None or failed.kind not in _WITH_ALTERNATES:
        return ()
    if _is_last(context, failed):
        return ()
    decided = await context.ledger.get(Decision, instance.decision_id or "")
    if decided is None:
        return ()
    now_s = context.now_s
    request = _next_request(instance, failed)
    fault = _merged_fault(instance, failed)
    here = fast_replace(instance, status=failed.was, migration_uuid=None, fault=fault)
    event_writes: list[Write] = []
    if here.action is not None and event is not None:
        action = replace(here.action, events=(*here.action.events, event))
        here = replace(here, action=action)
        event_writes.append(Put(action))
    units: list[Unit] = []
    for one in await context.alternates.of(request, failed.destination.assignment):
        placement = replace(one.placement, alternates=instance.alternates)
        # This copy of the decision is not stored: the instance still refers to the record of the
        # decision that named the alternates.
        decision = replace(
            decided,
            placements=(placement,),
            amounts=one.allocation.amounts,
            decided_at_s=now_s,
        )
        number = await context.ledger.next_id(Kind.MIGRATION)
        start = start_move(request, here, decision, number)
        units.append((*start, *event_writes, *one.guards))
    return units


def _is_last(context: StepContext, failed: Migration) -> bool:
    """Return whether a failed move is not retried."""
    tried = len(failed.retried) + 1
    return failed.cancelled or failed.forced or tried >= context.attempts_max


def _next_request(instance: Instance, failed: Migration) -> Request:
    """Return the request for a host on which the move has not failed yet."""
    here = (failed.destination.host, failed.destination.node)
    retried = (*failed.retried, here)
    request_id = move_retry_id(failed.request_id, len(retried))
    flavor = failed.destination.flavor
    operation = OPERATIONS[failed.kind]
    return replace(
        request_to_move(instance, operation, MoveTarget(), request_id, flavor=flavor),
        retried=retried,
        stays_off=failed.stays_off,
        alternates=tuple(one for one in instance.alternates if one not in retried),
    )


def retry_or_end(
    context: StepContext, instance: Instance, failed: Migration, event: ActionEvent | None
) -> list[Write]:
    """Return the writes that request another host or, if no attempt remains, end the action.

    Args:
        context: the outcome of the last step of the move.
        instance: the instance, which is on the source of the move.
        failed: the failed move, with its fault.
        event: the event of that step, or None if it is not to be recorded.
    """
    now_s = context.now_s
    fault = _merged_fault(instance, failed)
    if _is_last(context, failed):
        message = "The move was cancelled." if failed.cancelled or fault is None else fault.message
        return end_task(
            instance,
            now_s,
            message=message,
            event=event,
            status=failed.was,
            migration_uuid=None,
            fault=fault,
        )
    request = _next_request(instance, failed)
    task: Task = AWAITING[request.operation]
    waiting = continue_task(
        instance,
        now_s,
        event=event,
        status=failed.was,
        task=task,
        migration_uuid=None,
        fault=fault,
    )
    return [*waiting, Add(PendingRequest(request, accepted_at_s=now_s))]


def _merged_fault(instance: Instance, failed: Migration) -> Fault | None:
    """Return the fault of a move, including the details of earlier attempts."""
    fault, earlier = failed.fault, instance.fault
    if fault is None or earlier is None or not failed.retried or not earlier.details:
        return fault
    return replace(fault, details=f"{earlier.details}\n{fault.details}")
