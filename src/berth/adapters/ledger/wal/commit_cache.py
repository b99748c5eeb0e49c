"""What this process has committed lately: quicker than to read it back from the file."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.adapters.ledger.engine.codec import decode_json, decode_record
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.row_batch import RowBatch
from berth.domain.compute.host import Service
from berth.domain.ledger.change import Change
from berth.domain.ledger.record import RECORD_TYPES, Kind, Record

_VERSIONS_MAX: Final = 500
"""Versions whose changes to keep; who is further behind reads the file."""

_UNKNOWN: Final = (-1, None)
_UNSEEN: Final = (-1, 0.0)


@dataclass(frozen=True, slots=True)
class CommitNotice:
    """A batch that was committed, or pages that were posted.

    The newest versions were `before` and `version`; the tables are up to date as of `posted`.
    `page` is what the batch did, when that is not in the tables yet. News of another epoch than
    those before come after somebody else has written.
    """

    epoch: int
    before: int
    version: int
    posted: int
    changes: Sequence[Change] = ()
    page: RowBatch | None = None


class CommitCache:
    """Kept in the event loop, true to what its callers were told of.

    Attributes:
        epoch: of the newest news.
        version: the newest version that was told of.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.version = 0
        self._batches: deque[tuple[int, Sequence[Change]]] = deque()
        """(version before, changes) of batches that follow one another without a gap."""
        self._pages: deque[RowBatch] = deque()
        """Pages that nobody has looked into yet."""
        self._bodies: dict[tuple[Kind, str], tuple[int, str | None]] = {}
        """What is in the pages that somebody has looked into; None for what was removed.

        Beside it stands the version of the page.
        """
        self._seen: dict[str, tuple[int, float]] = {}
        """Heartbeats in these pages, in Unix seconds by host."""
        self._posted = 0

    def hear(self, news: CommitNotice) -> None:
        """Take in what was committed or posted."""
        if news.epoch != self.epoch:
            self.epoch = news.epoch
            self._batches.clear()
            self._forget_pages(self.version)
            self._posted = 0
        self.version = news.version
        if news.changes:
            self._batches.append((news.before, news.changes))
            while len(self._batches) > 1 and self._batches[0][0] < news.version - _VERSIONS_MAX:
                self._batches.popleft()
        if news.page is not None:
            self._pages.append(news.page)
        if news.posted > self._posted:
            self._forget_pages(news.posted)

    def get(self, kind: Kind, key: str, stored: Record | None, posted: int) -> Record | None:
        """Return a record as it is; None when there is none.

        Args:
            kind: its kind.
            key: its key.
            stored: what its table has of it.
            posted: the version that the table is at. It may be ahead of what was told of here;
                pages up to there do not count over it any more.

        Raises:
            LedgerError: what is in the daybook cannot be read.
        """
        while self._pages:
            self._look_into(self._pages.popleft())
        version, body = self._bodies.get((kind, key), _UNKNOWN)
        if version > posted:
            return None if body is None else decode_record(RECORD_TYPES[kind], body)
        if isinstance(stored, Service):
            seen_in, at_s = self._seen.get(key, _UNSEEN)
            if seen_in > posted:
                return replace(stored, last_seen_s=at_s)
        return stored

    def changes(self, after: int, limit: int) -> list[Change] | None:
        """Return what happened after a version, in at most `limit` versions.

        None when that is not known here.
        """
        if after >= self.version:
            return []
        found: list[Sequence[Change]] = []
        for before, changes in reversed(self._batches):
            found.append(changes)
            if before <= after:
                break
        else:
            return None
        found.reverse()
        until = after + limit
        return [
            change for changes in found for change in changes if after < change.version <= until
        ]

    def _forget_pages(self, posted: int) -> None:
        """Forget pages up to a version, as they are in the tables."""
        self._posted = posted
        while self._pages and self._pages[0].version <= posted:
            self._pages.popleft()
        self._bodies = {ref: one for ref, one in self._bodies.items() if one[0] > posted}
        self._seen = {host: one for host, one in self._seen.items() if one[0] > posted}

    def _look_into(self, page: RowBatch) -> None:
        version = page.version
        for host, at_s in page.seen:
            self._seen[host] = (version, decode_json(float, at_s))
        for kind, keys in page.removed.items():
            for key in keys:
                self._bodies[kind, key] = (version, None)
        for table, rows in page.upserts.items():
            of_table = schema.KIND_OF_TABLE.get(table)
            if of_table is not None:
                for row in rows:
                    self._bodies[of_table, str(row[0])] = (version, str(row[-1]))
