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

_NOT_LOGGED: Final = (-1, None)
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
    checkpointed: int
    changes: Sequence[Change] = ()
    batch: RowBatch | None = None


class CommitCache:
    """Kept in the event loop, true to what its callers were told of.

    Attributes:
        epoch: of the newest news.
        version: the newest version that was told of.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.version = 0
        self._recent_changes: deque[tuple[int, Sequence[Change]]] = deque()
        """(version before, changes) of batches that follow one another without a gap."""
        self._batches: deque[RowBatch] = deque()
        """Pages that nobody has looked into yet."""
        self._bodies: dict[tuple[Kind, str], tuple[int, str | None]] = {}
        """What is in the pages that somebody has looked into; None for what was removed.

        Beside it stands the version of the page.
        """
        self._seen: dict[str, tuple[int, float]] = {}
        """Heartbeats in these pages, in Unix seconds by host."""
        self._checkpointed = 0

    def add(self, notice: CommitNotice) -> None:
        """Take in what was committed or posted."""
        if notice.epoch != self.epoch:
            self.epoch = notice.epoch
            self._recent_changes.clear()
            self._forget_batches(self.version)
            self._checkpointed = 0
        self.version = notice.version
        if notice.changes:
            self._recent_changes.append((notice.before, notice.changes))
            while (
                len(self._recent_changes) > 1
                and self._recent_changes[0][0] < notice.version - _VERSIONS_MAX
            ):
                self._recent_changes.popleft()
        if notice.batch is not None:
            self._batches.append(notice.batch)
        if notice.checkpointed > self._checkpointed:
            self._forget_batches(notice.checkpointed)

    def get(self, kind: Kind, key: str, stored: Record | None, checkpointed: int) -> Record | None:
        """Return a record as it is; None when there is none.

        Args:
            kind: its kind.
            key: its key.
            stored: what its table has of it.
            checkpointed: the version that the table is at. It may be ahead of this cache;
                batches up to it no longer override the table.

        Raises:
            LedgerError: what is in the daybook cannot be read.
        """
        while self._batches:
            self._index(self._batches.popleft())
        version, body = self._bodies.get((kind, key), _NOT_LOGGED)
        if version > checkpointed:
            return None if body is None else decode_record(RECORD_TYPES[kind], body)
        if isinstance(stored, Service):
            seen_in, at_s = self._seen.get(key, _UNSEEN)
            if seen_in > checkpointed:
                return replace(stored, last_seen_s=at_s)
        return stored

    def changes(self, after: int, limit: int) -> list[Change] | None:
        """Return what happened after a version, in at most `limit` versions.

        None when that is not known here.
        """
        if after >= self.version:
            return []
        found: list[Sequence[Change]] = []
        for before, changes in reversed(self._recent_changes):
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

    def _forget_batches(self, checkpointed: int) -> None:
        """Forget pages up to a version, as they are in the tables."""
        self._checkpointed = checkpointed
        while self._batches and self._batches[0].version <= checkpointed:
            self._batches.popleft()
        self._bodies = {ref: one for ref, one in self._bodies.items() if one[0] > checkpointed}
        self._seen = {host: one for host, one in self._seen.items() if one[0] > checkpointed}

    def _index(self, batch: RowBatch) -> None:
        version = batch.version
        for host, at_s in batch.seen:
            self._seen[host] = (version, decode_json(float, at_s))
        for kind, keys in batch.removed.items():
            for key in keys:
                self._bodies[kind, key] = (version, None)
        for table, rows in batch.upserts.items():
            of_table = schema.KIND_OF_TABLE.get(table)
            if of_table is not None:
                for row in rows:
                    self._bodies[of_table, str(row[0])] = (version, str(row[-1]))
