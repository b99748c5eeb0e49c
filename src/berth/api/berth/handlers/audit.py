"""The audit: what in the ledger should not be so."""

from berth.api.berth.schemas.audit import AuditQuery
from berth.api.routing import Answer, Call
from berth.domain.discrepancy import AuditAges, AuditReport
from berth.services.auditing import Auditing


async def show_audit(call: Call) -> Answer:
    """Look through the whole ledger for what should not be so, changing nothing."""
    return Answer(await _audit(call, mends=False))


async def audit_and_mend(call: Call) -> Answer:
    """Look through the whole ledger, and mend what can be mended without asking anybody."""
    return Answer(await _audit(call, mends=True))


async def _audit(call: Call, *, mends: bool) -> AuditReport:
    parts, query = call.parts, call.query(AuditQuery)
    auditing = Auditing(
        ledger=parts.ledger,
        clock=parts.clock,
        telemetry=parts.telemetry,
        first_seen_s=parts.strangers_seen_s,
    )
    ages = AuditAges(query.grace_s, query.task_s, query.request_s)
    down_s = parts.service_down_time_s
    return await auditing.audit(ages, service_down_time_s=down_s, mends=mends)
