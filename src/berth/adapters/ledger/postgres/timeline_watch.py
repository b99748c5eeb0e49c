"""The watch that detects that a ledger has lost versions which this process has read."""

from collections.abc import Callable
from functools import partial

from berth.adapters.ledger.wal.reads import LedgerHead


class TimelineWatch:
    """The newest version that this process has read, and the timeline that it belongs to.

    If a replica that lacked the version was promoted, or a backup was restored, the ledger either
    has not reached the version again, or has it in another timeline (docs/adr/0031-timelines.md).

    Attributes:
        losses: how many times the ledger has lost versions that this process had read.
    """

    def __init__(self) -> None:
        self.losses = 0
        self._newest = (0, "")

    def observer(self) -> Callable[[LedgerHead], None]:
        """Return the function that a read which begins now must call with the ledger's versions.

        A read may end after a later read has returned newer versions. The versions are therefore
        compared with what was known when the read began.
        """
        return partial(self._observe, *self._newest)

    def note_commit(self, version: int, timeline: str) -> None:
        """Note a version that this process has committed, and may apply without reading it.

        A version that does not belong to the newest timeline is not noted, because versions that
        this process has read may have been lost before that timeline began. The next read detects
        such a loss.
        """
        if timeline == self._newest[1] and version > self._newest[0]:
            self._newest = (version, timeline)

    def _observe(self, version: int, timeline: str, head: LedgerHead) -> None:
        is_lost = head.version < version or head.timeline_of(version) != timeline
        if is_lost:
            self.losses += 1
        if is_lost or head.version > self._newest[0]:
            self._newest = (head.version, head.timeline_of(head.version))
