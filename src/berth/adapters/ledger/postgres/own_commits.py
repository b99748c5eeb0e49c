"""The latest commits of this process, which its follower applies without reading them."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from berth.adapters.ledger.postgres.timeline_watch import TimelineWatch
from berth.adapters.ledger.wal.reads import LedgerHead
from berth.domain.ledger.change import Change

# The changes of about this many versions are kept. A follower that is further behind reads the
# database.
_VERSIONS_MAX: Final = 500


class CommitRun(NamedTuple):
    """The changes of the versions from `first` to `last`."""

    first: int
    last: int
    changes: Sequence[Change]


class OwnCommits:
    """The changes of this process's latest batches, while they are certainly in the ledger.

    Batches are kept as long as they belong to one connection and one timeline; other processes may
    have written in between. Their changes are returned only after a read of the feed that began
    after the first of them and has found them in the ledger. Every read looks for them, because
    the writer learns of a lost connection only when it next commits. Otherwise a follower that has
    applied lost versions could continue with those that replaced them (docs/adr/0031-timelines.md).

    Args:
        timelines: learns of the commits, so that the loss of one is noticed although it was never
            read.

    Attributes:
        epoch: increases when the kept batches may no longer follow the versions read before.
    """

    def __init__(self, timelines: TimelineWatch) -> None:
        self.epoch = 0
        self._timelines = timelines
        self._batches: deque[CommitRun] = deque()
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
        self._batches.append(CommitRun(before + 1, version, changes))
        while len(self._batches) > 1 and self._batches[0].first <= version - _VERSIONS_MAX:
            self._batches.popleft()
        self._timelines.note_commit(version, timeline)

    def forget(self) -> None:
        """Forget all batches, because the connection that has committed them is lost."""
        self._batches.clear()
        self._timeline = ""
        self.epoch += 1

    def observer(self) -> Callable[[LedgerHead], bool]:
        """Return the function that a read which begins now must call with the ledger's versions.

        It returns whether the ledger has all batches that are kept now; otherwise it has lost some,
        and all are forgotten.
        """
        newest = self._batches[-1].last if self._batches else 0
        return partial(self._observe, self.epoch, newest, self._timeline)

    def _observe(self, epoch: int, newest: int, timeline: str, head: LedgerHead) -> bool:
        is_lost = newest and (head.version < newest or head.timeline_of(newest) != timeline)
        if is_lost:
            if epoch == self.epoch:
                self.forget()
            return False
        self._checked_epoch = max(self._checked_epoch, epoch)
        return True

    def runs(self, after: int, until: int) -> list[CommitRun]:
        """Return the kept batches after a version and up to another one, in order.

        The first and the last batch may exceed these versions. The list is empty until a
        read of the feed has found the batches in the ledger (`observer`).
        """
        if self._checked_epoch != self.epoch:
            return []
        return [one for one in self._batches if one.last > after and one.first <= until]

    def after(self, version: int) -> list[Change]:
        """Return the changes after a version, oldest first, up to a version of another process.

        The list is empty unless a kept batch contains the next version.
        """
        found: list[Change] = []
        for run in self.runs(version, version + _VERSIONS_MAX):
            if run.first > version + 1:
                break
            found += [one for one in run.changes if one.version > version]
            version = run.last
        return found
