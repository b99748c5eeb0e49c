"""Requests: those that wait for a scheduler for long, and what is known of why."""

from collections.abc import Iterator
from dataclasses import replace

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode
from berth.domain.ledger.record import Kind, PendingRequest
from berth.ports.ledger import Ledger
from berth.services.auditing.books import Books, ago


def suspect_request(books: Books, pending: PendingRequest) -> Iterator[Discrepancy]:
    """Yield a pending request that has waited for long."""
    request, since_s = pending.request, pending.accepted_at_s
    if not books.is_older(since_s, books.ages.request_s):
        return
    count = len(request.instance_uuids)
    which = f"instance {request.instance_uuids[0]}" if count == 1 else f"{count} instances"
    yield Discrepancy(
        code=DiscrepancyCode.REQUEST_WAITS,
        kind=Kind.PENDING_REQUEST,
        key=request.request_id,
        text=(
            f"request {request.request_id} ({request.operation} of {which}) has waited "
            f"{ago(books, since_s)} for a scheduler"
        ),
        advice="see that a scheduler runs (`berth scheduler`), and its log for that request",
        since_s=since_s,
    )


async def look_at_request(
    ledger: Ledger, books: Books, suspicion: Discrepancy
) -> Discrepancy | None:
    """Look again at a pending request, and at what was said of its instances before."""
    pending = await ledger.get(PendingRequest, suspicion.key)
    if pending is None or pending != books.requests[suspicion.key]:
        return None
    why = await _last_refusal(ledger, pending.request.instance_uuids[0])
    return replace(suspicion, text=f"{suspicion.text}; {why}")


async def _last_refusal(ledger: Ledger, instance_uuid: str) -> str:
    instance = await ledger.get(Instance, instance_uuid)
    if instance is None:
        return "its instance is not there"
    decision = None
    if instance.decision_id is not None:
        decision = await ledger.get(Decision, instance.decision_id)
    if decision is not None and decision.refusal is not None:
        return f"last refused: {decision.refusal.message}"
    if instance.fault is not None:
        return f"before that: {instance.fault.message}"
    return "it was never refused"
