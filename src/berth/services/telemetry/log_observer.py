"""An observer that logs decisions, and the tasks of agents with their outcomes."""

from contextlib import nullcontext
from typing import Final

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, order_id_of
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Committed, Outcome
from berth.ports.observer import NullObserver, Stage, TaskEnd
from berth.ports.telemetry import Telemetry
from berth.services.telemetry.observers import emptying_filter

_US_PER_MS: Final = 1_000
_MS_PER_S: Final = 1_000
_HOSTS_MAX: Final = 10
_NO_TASK: Final = "starting"
_ERROR_MAX: Final = 500


class LogObserver(NullObserver):
    """Logs each decision as `decision_made`, and tasks as `task_started` and `task_ended`.

    A decision is logged once, by the process whose commit made it durable.

    Args:
        telemetry: receives the lines.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def commit(self, request: Request, decision: Decision) -> Stage[Outcome]:
        """See `Observer.commit`."""

        def log(outcome: Outcome) -> None:
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._telemetry.event("decision_made", **_fields_of(request, decision))

        return nullcontext(log)

    def task(self, host: str, instance: Instance) -> Stage[None]:
        """See `Observer.task`."""
        self._telemetry.event(
            "task_started",
            task=instance.task or _NO_TASK,
            host=host,
            instance=instance.uuid,
            request_id=order_id_of(instance),
        )
        return super().task(host, instance)

    def task_ended(self, end: TaskEnd) -> None:
        """See `Observer.task_ended`."""
        error = {"error": end.error[:_ERROR_MAX]} if end.error else {}
        self._telemetry.event(
            "task_ended",
            task=end.task,
            outcome=end.outcome,
            duration_ms=round(end.seconds * _MS_PER_S, 2),
            host=end.host,
            instance=end.instance.uuid,
            request_id=order_id_of(end.instance),
            **error,
        )


def _fields_of(request: Request, decision: Decision) -> dict[str, object]:
    placements, refusal = decision.placements, decision.refusal
    fields: dict[str, object] = {
        "operation": request.operation,
        "verdict": decision.verdict,
        "instances": len(request.instance_uuids),
        "duration_ms": round(decision.duration_us / _US_PER_MS, 3),
        "attempts": decision.attempts,
        "policy": decision.policy_name,
        "user_id": request.user_id,
        "project_id": request.project_id,
        "request_id": decision.request_id,
    }
    if len(placements) == 1:
        fields["host"], fields["instance"] = placements[0].host, placements[0].instance_uuid
    elif placements:
        hosts = dict.fromkeys(one.host for one in placements)
        fields["hosts"] = list(hosts)[:_HOSTS_MAX]
        fields["hosts_total"] = len(hosts)
    if decision.zones:
        fields["zones"] = {one.zone: one.instances for one in decision.zones}
    if refusal is not None:
        fields["code"], fields["filter"] = refusal.code, emptying_filter(refusal)
        fields["hosts_examined"] = refusal.hosts_total
    return fields
