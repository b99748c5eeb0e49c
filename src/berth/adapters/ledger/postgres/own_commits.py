"""The latest commits of this process, which its follower applies without reading them."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from berth.adapters.ledger.postgres.timeline_watch import TimelineWatch
from berth.domain.ledger.change import Change

# The changes of about this many versions are kept. A follower that is further behind reads them.
_VERSIONS_MAX: Final = 500


class OwnCommits:
    """The changes of this process's latest batches, while they certainly follow what was read.

    Batches are kept as long as they follow one another, on one connection and in one timeline.
    Their changes are returned only after a read of the feed that began after the first of them:
    such a read compares the timelines. Otherwise a follower that has applied lost versions could
    continue with those that replaced them (docs/adr/0031-timelines.md).

    Args:
        timelines: learns of the commits, so that the loss of one is noticed although it was never
            read.

    Attributes:
        epoch: increases when the kept batches may no longer follow what was read before.
    """

    def __init__(self, timelines: TimelineWatch) -> None:
        self.epoch = 0
        self._timelines = timelines
        # The version before each batch, and its changes.
        self._batches: deque[tuple[int, Sequence[Change]]] = deque()
        self._version = -1
        self._timeline = ""
        self._checked_epoch = -1

    def add(self, before: int, version: int, timeline: str, changes: Sequence[Change]) -> None:
        """Add a committed batch.

        Args:
            before: the version before the batch.
            version: the version after the batch.
            timeline: the timeline to which the versions of the batch belong.
            changes: the changes of the batch.
        """
        if timeline != self._timeline:
            self.forget()
            self._timeline = timeline
        if before != self._version:
            # Another process has written in between.
            self._batches.clear()
        self._version = version
        self._batches.append((before, changes))
        while len(self._batches) > 1 and self._batches[0][0] < version - _VERSIONS_MAX:
            self._batches.popleft()
        self._timelines.note_commit(version, timeline)

    def forget(self) -> None:
        """Forget all batches, because the connection that has committed them is lost."""
        self._batches.clear()
        self._version, self._timeline = -1, ""
        self.epoch += 1

    def note_read(self, epoch: int) -> None:
        """Note that a read of the feed, which began in the given epoch, has compared timelines."""
        self._checked_epoch = max(self._checked_epoch, epoch)

    def after(self, version: int) -> list[Change]:
        """Return the changes after a version, oldest first; empty if any of them may be missing."""
        if self._checked_epoch != self.epoch or version >= self._version:
            return []
        found: list[Sequence[Change]] = []
        for before, changes in reversed(self._batches):
            found.append(changes)
            if before <= version:
                break
        else:
            return []
        return [one for changes in reversed(found) for one in changes if one.version > version]
