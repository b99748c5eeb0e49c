"""Query parameters and responses of the audit log."""

from collections.abc import Mapping
from typing import Annotated

from berth.api.codec import Meta, Model, View
from berth.domain.ledger.audit_trail import AuditEntry, ChainedEntry

ENTRIES_MAX = 1_000
"""Maximum number of entries on a page."""

_NUMBER_MAX = 10**15

Number = Annotated[int, Meta(ge=0, le=_NUMBER_MAX)]
"""The number of an entry, or a Unix time in milliseconds."""
Text = Annotated[str, Meta(max_length=255)]
"""An id or a name; empty for any."""


class AuditLogQuery(Model):
    """Conditions on the entries, and the page.

    Without `after`, the newest entry comes first, and `before` is the marker of the next page; with
    it, the oldest entry after that number comes first.
    """

    user_id: Text = ""
    project_id: Text = ""
    target: Text = ""
    operation: Text = ""
    request_id: Text = ""
    since_ms: Number | None = None
    until_ms: Number | None = None
    limit: Annotated[int, Meta(ge=1, le=ENTRIES_MAX)] = 100
    before: Number | None = None
    after: Number | None = None


class AuditEntryView(View):
    """An entry of the audit log; `hash` covers all other fields, `previous` the entry before."""

    number: int
    at_ms: int
    operation: str
    user_id: str
    project_id: str
    roles: tuple[str, ...]
    is_admin: bool
    address: str
    parent_zone: str
    process: str
    request_id: str
    status: int
    targets: Mapping[str, str]
    details: Mapping[str, str]
    previous: str
    hash: str


class AuditHeadView(View):
    """The number and the hash of the newest entry; 0 and zeros if there is none."""

    number: int
    hash: str


class AuditLogAnswer(View):
    """A page of the audit log.

    `marker` is the value of `before` or `after` for the next page, or null on the last one. `head`
    is the end of the chain.
    """

    entries: list[AuditEntryView]
    marker: int | None
    head: AuditHeadView


def view_of(one: ChainedEntry) -> AuditEntryView:
    """Return an entry as the API shows it."""
    entry: AuditEntry = one.entry
    return AuditEntryView(
        number=one.number,
        at_ms=entry.at_ms,
        operation=entry.operation,
        user_id=entry.user_id,
        project_id=entry.project_id,
        roles=entry.roles,
        is_admin=entry.is_admin,
        address=entry.address,
        parent_zone=entry.parent_zone,
        process=entry.process,
        request_id=entry.request_id,
        status=entry.status,
        targets=entry.targets,
        details=entry.details,
        previous=one.previous,
        hash=one.hash,
    )
