"""Another try of a move that failed, on another host, while attempts are left."""

from dataclasses import replace

from berth.domain.instance import Instance, Task
from berth.domain.instance_action import ActionEvent
from berth.domain.migration import Migration
from berth.domain.record import PendingRequest
from berth.domain.write import Add, Write
from berth.services.host_work.bench import Bench
from berth.services.moving import (
    AWAITING,
    OPERATIONS,
    Target,
    ended,
    going_on,
    request_to_move,
)


def try_elsewhere(
    bench: Bench, instance: Instance, failed: Migration, event: ActionEvent | None
) -> list[Write]:
    """Return what asks for another host, or else ends the action.

    Args:
        bench: of the host that has it from the other side again.
        instance: where it was before the move.
        failed: the move, with its fault.
        event: the last step of it.
    """
    now_s = bench.clock.now_s()
    here = (failed.destination.host, failed.destination.node)
    retried = (*failed.retried, here)
    if failed.cancelled or failed.forced or len(retried) >= bench.attempts_max:
        fault = failed.fault
        message = "The move was cancelled." if failed.cancelled or fault is None else fault.message
        return ended(
            instance,
            now_s,
            message=message,
            event=event,
            status=failed.was,
            migration_uuid=None,
            fault=fault,
        )
    operation = OPERATIONS[failed.kind]
    request_id = f"{failed.request_id.partition('/')[0]}/{len(retried)}"
    flavor = failed.destination.flavor
    request = replace(
        request_to_move(instance, operation, Target(), request_id, flavor=flavor),
        retried=retried,
        alternates=tuple(one for one in instance.alternates if one not in retried),
    )
    task: Task = AWAITING[operation]
    waiting = going_on(
        instance, now_s, event=event, status=failed.was, task=task, migration_uuid=None
    )
    return [*waiting, Add(PendingRequest(request, accepted_at_s=now_s))]
