"""Handlers for the audit, which finds and repairs discrepancies in the ledger."""

from berth.api.berth.schemas.audit import AuditQuery
from berth.api.routing import Answer, Call
from berth.domain.ledger.discrepancy import AuditAges, AuditReport
from berth.services.auditing import AuditService


async def show_audit(call: Call) -> Answer:
    """List the discrepancies in the ledger, or only those that concern one host.

    Raises:
        NotFoundError: there is no such host.
    """
    return Answer(await _audit(call, mends=False))


async def audit_and_mend(call: Call) -> Answer:
    """Audit the ledger and repair the discrepancies that are safe to repair automatically.

    Raises:
        NotFoundError: there is no such host.
    """
    return Answer(await _audit(call, mends=True))


async def _audit(call: Call, *, mends: bool) -> AuditReport:
    parts, query = call.parts, call.query(AuditQuery)
    auditing = AuditService(
        ledger=parts.ledger,
        replica=parts.replica,
        clock=parts.clock,
        telemetry=parts.telemetry,
        # This mapping is kept between audits of this process: an unknown consumer has no date of
        # its own, so the grace period starts when an audit first sees it.
        first_seen_s=parts.strangers_seen_s,
        default_zone=lambda: parts.default_zone,
    )
    # Only an audit of one host finds its records through the replica; the whole audit reads a
    # snapshot of the ledger.
    if query.host is not None:
        await parts.follower.catch_up()
    return await auditing.audit(
        AuditAges(query.grace_s, query.task_s, query.request_s),
        service_down_time_s=parts.service_down_time_s,
        mends=mends,
        host=query.host,
    )
