"""The audit: what in the ledger should not be so."""

from berth.api.berth.schemas.audit import AuditQuery
from berth.api.routing import Answer, Call
from berth.domain.ledger.discrepancy import AuditAges, AuditReport
from berth.services.auditing import AuditService


async def show_audit(call: Call) -> Answer:
    """Look through the whole ledger, or at one host, for what should not be so."""
    return Answer(await _audit(call, mends=False))


async def audit_and_mend(call: Call) -> Answer:
    """Look through the whole ledger, and mend what can be mended without asking anybody."""
    return Answer(await _audit(call, mends=True))


async def _audit(call: Call, *, mends: bool) -> AuditReport:
    parts, query = call.parts, call.query(AuditQuery)
    auditing = AuditService(
        ledger=parts.ledger,
        replica=parts.replica,
        clock=parts.clock,
        telemetry=parts.telemetry,
        first_seen_s=parts.strangers_seen_s,
    )
    if query.host is not None:
        await parts.follower.catch_up()
    return await auditing.audit(
        AuditAges(query.grace_s, query.task_s, query.request_s),
        service_down_time_s=parts.service_down_time_s,
        mends=mends,
        host=query.host,
    )
