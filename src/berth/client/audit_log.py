"""The audit log: who changed what."""

from collections.abc import Mapping
from typing import Final

from berth.client.operations import Group, K, listing, operation
from berth.client.requests import Pages, Route, Steps, Value

PAGE_MAX: Final = 1_000
"""The maximum number of entries on a page."""


class AuditEntry(Value, frozen=True):
    """An entry of the audit log; `hash` covers all other fields, `previous` the entry before.

    `at_ms` is Unix milliseconds, and `status` the HTTP status of the response.
    """

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


class AuditHead(Value, frozen=True):
    """The number and the hash of the newest entry; 0 and zeros if there is none."""

    number: int
    hash: str


class AuditLogPage(Value, frozen=True):
    """A page of entries; `marker` leads to the next page, and is None on the last one."""

    entries: tuple[AuditEntry, ...]
    marker: int | None
    head: AuditHead


_LIST: Final = Route(
    "GET",
    "/berth/v1/audit-log",
    AuditLogPage,
    query=(
        "user_id",
        "project_id",
        "target",
        "operation",
        "request_id",
        "since_ms",
        "until_ms",
        "limit",
        "before",
        "after",
    ),
)
_SHOW: Final = Route("GET", "/berth/v1/audit-log/{number}", AuditEntry)


class AuditLog(Group[K]):
    """The audit log, for administrators."""

    @listing
    def list(  # noqa: PLR0913 - every condition of the API
        self,
        *,
        user_id: str | None = None,
        project_id: str | None = None,
        target: str | None = None,
        operation: str | None = None,
        request_id: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        after: int | None = None,
        page_size: int = PAGE_MAX,
    ) -> Pages[AuditEntry]:
        """Return all entries that meet the conditions, the newest first.

        Args:
            user_id: only changes by this user.
            project_id: only changes by users of this project.
            target: only changes to the resource with this id or name.
            operation: only operations that contain this text.
            request_id: only changes of this request.
            since_ms: only changes at this Unix time in milliseconds or later.
            until_ms: only changes before this time.
            after: only entries after this number, the oldest first.
            page_size: the maximum number of entries in one response, 1 to `PAGE_MAX`.
        """
        query: dict[str, object] = {
            "user_id": user_id,
            "project_id": project_id,
            "target": target,
            "operation": operation,
            "request_id": request_id,
            "since_ms": since_ms,
            "until_ms": until_ms,
            "limit": page_size,
        }
        continues = "before" if after is None else "after"

        def page(marker: object) -> Steps[tuple[tuple[AuditEntry, ...], object]]:
            found = yield from _LIST.ask(
                query={**query, continues: after if marker is None else marker}
            )
            return found.entries, found.marker

        return Pages("entries", page, lambda document: document.get("marker"))

    @operation
    def get(self, number: int) -> Steps[AuditEntry]:
        """Return one entry."""
        return _SHOW.ask(number=str(number))

    @operation
    def head(self) -> Steps[AuditHead]:
        """Return the number and the hash of the newest entry, to be kept outside the service."""
        found = yield from _LIST.ask(query={"limit": 1})
        return found.head
