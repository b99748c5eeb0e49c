"""Handlers for the audit log, which records who changed what."""

from berth.api.berth.schemas.audit_log import (
    AuditHeadView,
    AuditLogAnswer,
    AuditLogQuery,
    view_of,
)
from berth.api.routing import Answer, Call
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.ledger.audit_trail import NO_ENTRIES
from berth.services.telemetry.audit_reading import (
    AuditFilter,
    audit_entry,
    audit_head,
    audit_page,
)


async def list_entries(call: Call) -> Answer:
    """List entries of the audit log, the newest first; with `after`, the oldest first.

    A page may be shorter than `limit` although there are more entries: follow `marker` to its end.

    Raises:
        InvalidInputError: both `before` and `after` are given.
    """
    query, ledger = call.query(AuditLogQuery), call.parts.ledger
    if query.before is not None and query.after is not None:
        raise InvalidInputError("before", "cannot be combined with after; leave one of them out")
    conditions = AuditFilter(
        user_id=query.user_id,
        project_id=query.project_id,
        target=query.target,
        operation=query.operation,
        request_id=query.request_id,
        since_ms=query.since_ms,
        until_ms=query.until_ms,
    )
    page = await audit_page(
        ledger,
        conditions,
        limit=query.limit,
        marker=query.before if query.after is None else query.after,
        newest_first=query.after is None,
    )
    # The head is read last, so that it is never older than the entries.
    head = await audit_head(ledger) or NO_ENTRIES
    entries = [view_of(one) for one in page.entries]
    return Answer(
        AuditLogAnswer(
            entries=entries,
            marker=page.marker,
            head=AuditHeadView(number=head.number, hash=head.hash),
        )
    )


async def show_entry(call: Call) -> Answer:
    """Show one entry of the audit log.

    Raises:
        NotFoundError: there is no such entry.
    """
    number = call.key("number")
    digits_max = 15
    found = None
    if number.isascii() and number.isdigit() and len(number) <= digits_max:
        found = await audit_entry(call.parts.ledger, int(number))
    if found is None:
        raise NotFoundError("audit entry", number)
    return Answer(view_of(found))
