"""A cache of this process's latest commits, which is faster to read than the ledger's file."""

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

# The cache keeps the changes of about this many versions. A follower that is further behind reads
# the file.
_VERSIONS_MAX: Final = 500

_NOT_LOGGED: Final = (-1, None)
_UNSEEN: Final = (-1, 0.0)


@dataclass(frozen=True, slots=True)
class CommitNotice:
    """The notice of a committed batch, or of the end of a checkpoint.

    Attributes:
        epoch: the transactor's epoch; in a new one, another process may have written.
        before: the ledger's version before the batch.
        version: the ledger's version after the batch.
        checkpointed: the version that the tables have reached.
        changes: the changes of the batch; empty at the end of a checkpoint.
        batch: the rows of the batch if they are only in the write-ahead log, otherwise None.
    """

    epoch: int
    before: int
    version: int
    checkpointed: int
    changes: Sequence[Change] = ()
    batch: RowBatch | None = None


class CommitCache:
    """The changes and logged records of this process's latest commits, for use in the event loop.

    The cache is as recent as the newest notice that was added.

    Attributes:
        epoch: the epoch of the newest notice.
        version: the version of the newest notice.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.version = 0
        # The version before each batch, and its changes; the batches are consecutive.
        self._recent_changes: deque[tuple[int, Sequence[Change]]] = deque()
        # Logged batches that are not indexed yet. Most are checkpointed before a read needs them.
        self._batches: deque[RowBatch] = deque()
        # The version and body of each record in the indexed batches; the body of a removed one is
        # None.
        self._bodies: dict[tuple[Kind, str], tuple[int, str | None]] = {}
        # The version and Unix seconds of the latest heartbeat in the indexed batches, by host.
        self._seen: dict[str, tuple[int, float]] = {}
        self._checkpointed = 0

    def add(self, notice: CommitNotice) -> None:
        """Add the notice of a committed batch, or of the end of a checkpoint."""
        if notice.epoch != self.epoch:
            self.epoch = notice.epoch
            # Another process may have written in between, so the changes may have a gap, and the
            # transactor has written all logged batches to the tables.
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
        """Return the newest state of a record, or None if it does not exist.

        Args:
            kind: the kind of the record.
            key: the key of the record.
            stored: the record in its table, or None if the table does not contain it.
            checkpointed: the version that the table has reached, which may be ahead of this cache.
                Batches up to this version no longer override the table.

        Raises:
            LedgerError: the record in the log cannot be decoded.
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
        """Return the changes after a version, of at most `limit` versions.

        Returns:
            The changes, oldest first; an empty list if the cache has no version above `after`; None
            if it no longer has the next version.
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
        """Forget the batches up to a version, which the tables have reached."""
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
