"""Plans of drains: the method and the destination of each server on a host, chosen together."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action, Caller
from berth.domain.compute.maintenance import Drain, Maintenance, ServerMove
from berth.domain.compute.request import Operation, Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Put, Write
from berth.domain.uuids import named_uuid
from berth.services.decisions.joint_decisions import JointDecisions, size_of
from berth.services.maintenance.methods import Hindrance, Method, method_of
from berth.services.servers.moves import AWAITING, MoveTarget, request_to_move

PLANNED_MAX: Final = 256
"""The largest number of servers that are planned together, which takes less than a second."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """The plan for one server on the drained host.

    `method` is None if the server cannot be moved now, and `destination` if it needs none or no
    host has room. `waits` tells whether the server can be moved later without an operator.
    `decision` is the one that chose the destination, or found none.
    """

    instance: Instance
    request_id: str
    method: Method | None = None
    destination: str | None = None
    reason: str = ""
    waits: bool = False
    decision: Decision | None = None

    @property
    def fits(self) -> bool:
        """Whether the move can begin."""
        return self.method is not None and not self.reason


def request_id_of(record: Maintenance, drain: Drain, instance: Instance) -> str:
    """Return the id of the next attempt to move a server; every scheduler derives the same one."""
    attempt = f"{record.host} {record.started_at_s} {drain.begun} {instance.uuid}"
    return f"req-{named_uuid(f'drain:{attempt}')}"


async def plan_drain(
    record: Maintenance,
    drain: Drain,
    instances: Sequence[Instance],
    joint: JointDecisions,
    first: Collection[str] = (),
) -> list[PlannedMove]:
    """Return the plan for the servers on a host, in the given order.

    Of more than `PLANNED_MAX` servers, the plan has destinations for the largest ones only.

    Args:
        record: the maintenance of the host.
        drain: its drain.
        instances: the servers on the host that are not being moved by the drain.
        joint: chooses the destinations.
        first: the uuids of the servers that are planned before the others.
    """
    plans: list[PlannedMove] = []
    requests: dict[str, Request] = {}
    avoided = {move.instance_uuid: move.avoids for move in drain.moves}
    for instance in instances:
        request_id = request_id_of(record, drain, instance)
        plan = _unplaced(instance, drain, request_id)
        if plan.method is not None and plan.method.operation is not None:
            try:
                request = _request(instance, plan.method.operation, request_id, None)
            except InvalidInputError as error:
                plan = replace(plan, method=None, reason=str(error))
            else:
                avoids = avoided.get(instance.uuid, ())
                requests[request_id] = replace(
                    request, ignore_hosts=(*request.ignore_hosts, *avoids)
                )
        plans.append(plan)
    asked = sorted(requests.values(), key=size_of, reverse=True)
    asked.sort(key=lambda request: request.instance_uuids[0] not in first)
    decisions = await joint.decide(asked[:PLANNED_MAX])
    later = {request.request_id for request in asked[PLANNED_MAX:]}
    return [_placed(plan, decisions, later) for plan in plans]


def _unplaced(instance: Instance, drain: Drain, request_id: str) -> PlannedMove:
    found = method_of(instance, drain)
    if isinstance(found, Hindrance):
        return PlannedMove(instance, request_id, reason=found.reason, waits=found.passes)
    return PlannedMove(instance, request_id, found)


def _placed(
    plan: PlannedMove, decisions: Mapping[str, Decision], later: Collection[str]
) -> PlannedMove:
    if plan.request_id in later:
        reason = f"is planned once {PLANNED_MAX} other servers have moved"
        return replace(plan, reason=reason, waits=True)
    decision = decisions.get(plan.request_id)
    if decision is None:
        return plan
    if decision.verdict is Verdict.PLACED:
        (placement,) = decision.placements
        return replace(plan, destination=placement.host, decision=decision)
    refusal = decision.refusal
    return replace(plan, reason=refusal.message if refusal else "", decision=decision)


def _request(
    instance: Instance, operation: Operation, request_id: str, destination: str | None
) -> Request:
    return request_to_move(instance, operation, MoveTarget(host=destination), request_id)


def beginning_of(plan: PlannedMove, drain: Drain, now_s: float) -> list[Write]:
    """Return the writes that begin a planned move, with its entry in the server's history.

    The scheduler checks the destination once more under the rules of any placement.
    """
    instance, method = plan.instance, plan.method
    if method is None:
        return []
    caller = Caller(plan.request_id, drain.project_id, drain.user_id, is_admin=True)
    action = Action(
        instance.uuid,
        caller.request_id,
        method.step.action,
        caller.project_id,
        caller.user_id,
        now_s,
    )
    begun = replace(instance, action=action, task=method.step.task, updated_at_s=now_s)
    if method.operation is None:
        return [Put(action), Put(begun)]
    request = _request(instance, method.operation, plan.request_id, plan.destination)
    waiting = replace(begun, task=AWAITING[method.operation])
    return [Put(action), Put(waiting), Add(PendingRequest(request, accepted_at_s=now_s))]


def move_of(plan: PlannedMove, before: ServerMove | None) -> ServerMove:
    """Return the entry of a server in the drain's record, with its failures so far."""
    instance = plan.instance
    known = before or ServerMove(instance.uuid, instance.name)
    method = plan.method.name if plan.method is not None else ""
    return replace(known, name=instance.name, method=method)
