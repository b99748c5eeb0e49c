"""Reads the audit log page by page."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.domain.ledger.audit_trail import AuditHead, ChainedEntry, head_of
from berth.ports.ledger import AuditReader

_BLOCKS_AT_ONCE: Final = 50
_SCANNED_MAX: Final = 5_000


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on entries; empty texts and None match any entry.

    `target` is the id or name of what was changed. `operation` is contained in the operation.
    Times are Unix milliseconds; `since_ms` is included, `until_ms` is not.
    """

    user_id: str = ""
    project_id: str = ""
    target: str = ""
    operation: str = ""
    request_id: str = ""
    since_ms: int | None = None
    until_ms: int | None = None

    def admits(self, one: ChainedEntry) -> bool:
        """Return whether an entry meets all conditions."""
        entry = one.entry
        return (
            self.user_id in {"", entry.user_id}
            and self.project_id in {"", entry.project_id}
            and self.request_id in {"", entry.request_id}
            and (not self.target or self.target in entry.targets.values())
            and self.operation in entry.operation
            and (self.since_ms is None or entry.at_ms >= self.since_ms)
            and (self.until_ms is None or entry.at_ms < self.until_ms)
        )


class AuditPage(NamedTuple):
    """Entries of the audit log, and the number after which the next page begins, or None."""

    entries: list[ChainedEntry]
    marker: int | None


async def audit_head(ledger: AuditReader) -> AuditHead | None:
    """Return the end of the chain, or None if the audit log is empty."""
    newest = await ledger.audit_block()
    return None if newest is None else head_of(newest)


async def audit_page(
    ledger: AuditReader,
    conditions: AuditFilter,
    *,
    limit: int,
    marker: int | None = None,
    newest_first: bool = True,
) -> AuditPage:
    """Return a page of the entries that meet the conditions.

    A page may have fewer entries than `limit`, or none, although there are more: a request
    examines 5,000 entries at most.

    Args:
        ledger: the ledger.
        conditions: the conditions.
        limit: maximum number of entries.
        marker: the number of the last entry examined before; None for the first page.
        newest_first: the order; otherwise the oldest entry comes first.
    """
    found: list[ChainedEntry] = []
    last, scanned = marker, 0
    entries = _backward(ledger, marker) if newest_first else _forward(ledger, marker or 0)
    async for one in entries:
        if len(found) == limit or scanned == _SCANNED_MAX:
            return AuditPage(found, last)
        last, scanned = one.number, scanned + 1
        if conditions.admits(one):
            found.append(one)
    return AuditPage(found, None)


async def audit_entry(ledger: AuditReader, number: int) -> ChainedEntry | None:
    """Return the entry with a number, or None."""
    block = await ledger.audit_block(number)
    entries = () if block is None else block.chained()
    return next((one for one in entries if one.number == number), None)


async def _backward(ledger: AuditReader, before: int | None) -> AsyncIterator[ChainedEntry]:
    block = await ledger.audit_block(None if before is None else before - 1)
    while block is not None:
        for one in reversed(list(block.chained())):
            if before is None or one.number < before:
                yield one
        block = await ledger.audit_block(block.first - 1)


async def _forward(ledger: AuditReader, after: int) -> AsyncIterator[ChainedEntry]:
    first = await ledger.audit_block(after + 1)
    start = after + 1 if first is None else first.first
    while blocks := await ledger.audit_blocks(start, _BLOCKS_AT_ONCE):
        for block in blocks:
            for one in block.chained():
                if one.number > after:
                    yield one
        start = blocks[-1].first + 1
