"""Tests for the commits of this process, also beside other writers and after lost versions."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berth.adapters.ledger.engine.codec import encode_event
from berth.adapters.ledger.postgres.feed_read import FeedRead, changes_after
from berth.adapters.ledger.postgres.own_commits import OwnCommits
from berth.adapters.ledger.postgres.timeline_watch import TimelineWatch
from berth.adapters.ledger.wal.reads import LedgerHead
from berth.domain.errors import FeedGapError
from berth.domain.ledger.change import Change, HostsAlive, Snapshot
from berth.services.replica.follower import Follower
from berth.testing.virtual_time import VirtualClock

_TIMELINE = "timeline:a"


def changes_of(first: int, last: int, word: str = "host") -> list[Change]:
    """Return one change for each version from `first` to `last`."""
    return [Change(version, HostsAlive((word,), 0.0)) for version in range(first, last + 1)]


def head_of(version: int, timeline: str = _TIMELINE, first: int = 1) -> LedgerHead:
    """Return the versions of a ledger whose last timeline begins with the version `first`."""
    return LedgerHead(version, 0, version, {_TIMELINE: 1, timeline: first})


def kept(*batches: tuple[int, int]) -> OwnCommits:
    """Return commits with batches between these versions, and a read since each of them."""
    own = OwnCommits(TimelineWatch())
    for before, version in batches:
        own.add(before, version, _TIMELINE, changes_of(before + 1, version))
        assert own.observer()(head_of(version))
    return own


def versions(changes: Sequence[Change]) -> list[int]:
    """Return the versions of changes."""
    return [one.version for one in changes]


def test_consecutive_batches_are_returned_from_any_version_on() -> None:
    """The changes start with the version after the given one, even in the middle of a batch."""
    own = kept((3, 5), (5, 6), (6, 9))
    assert versions(own.after(3)) == [4, 5, 6, 7, 8, 9]
    assert versions(own.after(5)) == [6, 7, 8, 9]
    assert versions(own.after(7)) == [8, 9]


def test_nothing_is_returned_for_unknown_versions() -> None:
    """A follower that lacks versions before the first batch, or lacks none, gets no change."""
    own = kept((3, 5))
    assert own.after(2) == []
    assert own.after(5) == []
    assert own.after(8) == []


def test_changes_end_before_a_write_of_another_process() -> None:
    """Nothing is returned beyond the versions of another process."""
    own = kept((3, 5), (7, 8))
    assert versions(own.after(4)) == [5]
    assert own.after(5) == []
    assert versions(own.after(7)) == [8]


def test_a_read_need_not_return_own_batches() -> None:
    """The batches after a version and up to another one are known, also beside other writers."""
    own = kept((3, 5), (5, 6), (8, 9), (12, 14))
    assert [(one.first, one.last) for one in own.runs(4, 12)] == [(4, 5), (6, 6), (9, 9)]
    assert own.runs(14, 20) == []
    own.forget()
    assert own.runs(0, 20) == []


def test_a_batch_waits_for_a_read_of_its_timeline() -> None:
    """After a new timeline, a read must begin before anything is returned."""
    own = kept((3, 5))
    earlier = own.observer()
    own.add(5, 6, "timeline:b", changes_of(6, 6))
    assert earlier(head_of(6, "timeline:b", 6))
    assert own.after(5) == []
    assert own.observer()(head_of(6, "timeline:b", 6))
    assert versions(own.after(5)) == [6]


@pytest.mark.parametrize(
    "head",
    [head_of(4), head_of(7, "timeline:b", 4)],
    ids=["not replaced yet", "replaced by others"],
)
def test_a_read_notices_that_batches_are_lost(head: LedgerHead) -> None:
    """An idle writer does not know that its connection is lost, but a read forgets its batches."""
    own = kept((3, 5))
    assert not own.observer()(head)
    assert own.runs(0, 20) == []
    assert own.observer()(head)
    assert own.after(3) == []


def test_a_lost_connection_ends_the_chain() -> None:
    """After the connection is lost, nothing is returned, and a read must begin anew."""
    own = kept((3, 5))
    own.forget()
    assert own.after(4) == []
    own.add(5, 6, "timeline:b", changes_of(6, 6))
    assert own.after(5) == []


def test_old_batches_are_dropped() -> None:
    """Only about the last 500 versions are kept."""
    own = kept(*((version, version + 1) for version in range(1000)))
    assert own.after(100) == []
    assert versions(own.after(600)) == list(range(601, 1001))


@dataclass
class Ledger:
    """A ledger whose latest versions may be lost, with one writer that has `OwnCommits`.

    `rows` are the changes and the timelines of all versions. The next read begins before as many
    versions are lost as `lost_while_reading` says, and ends after others have replaced them. See
    the port `Feed`.
    """

    rows: list[tuple[Change, str]] = field(default_factory=list[tuple[Change, str]])
    begun: dict[str, int] = field(default_factory=dict[str, int])
    news_used: int = 0
    names: "count[int]" = field(default_factory=count)
    is_other_connected: bool = False
    committed: int | None = None
    lost_while_reading: list[int] = field(default_factory=list[int])
    is_writer_connected: bool = True
    timelines: TimelineWatch = field(default_factory=TimelineWatch)

    def __post_init__(self) -> None:
        """Make the commits of the writer."""
        self.own = OwnCommits(self.timelines)

    @property
    def losses(self) -> int:
        """How often a loss was noticed."""
        return self.timelines.losses

    def commit(self, size: int) -> None:
        """Commit versions as `PostgresWriter` does, which notices a lost connection only now."""
        if not self.is_writer_connected:
            self.reconnect()
        before = len(self.rows)
        timeline = max(((first, name) for name, first in self.begun.items()), default=(0, ""))[1]
        if self.committed is None or self.committed > before:
            timeline = f"timeline:{next(self.names)}"
            self.begun[timeline] = before + 1
        changes = changes_of(before + 1, before + size, f"own-{next(self.names)}")
        self.rows += [(change, timeline) for change in changes]
        self.committed = len(self.rows)
        self.own.add(before, self.committed, timeline, changes)

    def commit_elsewhere(self, size: int, *, is_new: bool) -> None:
        """Commit versions in another process, on a connection that may be new.

        No connection survives a failover.
        """
        before = len(self.rows)
        if is_new or not self.is_other_connected:
            self.is_other_connected = True
            self.begun[f"timeline:{next(self.names)}"] = before + 1
        word = f"other-{next(self.names)}"
        self.rows += [(change, "") for change in changes_of(before + 1, before + size, word)]

    def lose(self, versions: int) -> None:
        """Lose the latest versions, as by a failover, which breaks all connections."""
        del self.rows[max(0, len(self.rows) - versions) :]
        self.is_other_connected = False
        self.begun = {name: at for name, at in self.begun.items() if at <= len(self.rows)}
        self.is_writer_connected = False

    def reconnect(self) -> None:
        """Replace the writer's connection."""
        self.own.forget()
        self.committed = None
        self.is_writer_connected = True

    def _head(self) -> LedgerHead:
        return LedgerHead(len(self.rows), 0, len(self.rows), dict(self.begun))

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """Return changes as `PostgresLedger.changes` does."""
        until = after + limit
        runs = self.own.runs(after, until)
        observer, own_observer = self.timelines.observer(), self.own.observer()
        if self.lost_while_reading:
            self.lose(self.lost_while_reading.pop())
            self.commit(2)
        head = self._head()
        observer(head)
        is_whole = own_observer(head)
        kept = {number for run in runs for number in range(run.first, run.last + 1)}
        rows = [
            (one.version, 0, "alive", encode_event(one.event))
            for one, _ in self.rows[after:until]
            if one.version not in kept
        ]
        if runs and not is_whole:
            raise FeedGapError("lost")
        return changes_after(after, until, FeedRead(head, rows), runs)

    async def snapshot(self, now_s: float) -> Snapshot:
        """Return a snapshot as `PostgresLedger.snapshot` does."""
        self.timelines.observer()(self._head())
        self.own.observer()(self._head())
        return Snapshot(version=len(self.rows), now_s=now_s)

    async def version(self) -> int:
        """Return the newest version."""
        return len(self.rows)

    def news(self, after: int) -> list[Change]:
        """Return the own commits after a version."""
        found = self.own.after(after)
        self.news_used += len(found)
        return found

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Never wait."""
        return len(self.rows) > after or timeout_s < 0


class Copy:
    """A subscriber that keeps the changes of all versions."""

    def __init__(self, ledger: Ledger) -> None:
        self.rows: list[Change] = []
        self._ledger = ledger

    def load(self, snapshot: Snapshot) -> None:
        """Copy the ledger."""
        self.rows = [change for change, _ in self._ledger.rows[: snapshot.version]]

    def apply(self, changes: Sequence[Change]) -> None:
        """Append changes, which must follow the last version."""
        assert versions(changes) == list(
            range(len(self.rows) + 1, len(self.rows) + 1 + len(changes))
        )
        self.rows += changes


_STEPS = st.one_of(
    st.tuples(st.just("commit"), st.integers(1, 3)),
    st.tuples(st.just("elsewhere"), st.integers(1, 3)),
    st.tuples(st.just("elsewhere, new"), st.integers(1, 3)),
    st.tuples(st.just("lose"), st.integers(0, 4)),
    st.tuples(st.just("lose while reading"), st.integers(1, 4)),
    st.tuples(st.just("reconnect"), st.just(0)),
    st.tuples(st.just("follow"), st.just(0)),
    st.tuples(st.just("read by others"), st.just(0)),
)


_UNREAD_LOSS = [("commit", 1), ("follow", 0), ("commit", 2), ("follow", 0), ("lose", 2)]


_REPLACED = [("elsewhere", 4), ("follow", 0), ("follow", 0)]


@example([*_UNREAD_LOSS, ("read by others", 0), *_REPLACED])
@example([*_UNREAD_LOSS, ("follow", 0), *_REPLACED])
@example([*_UNREAD_LOSS, ("commit", 3)])
@example([*_UNREAD_LOSS, ("commit", 3), ("read by others", 0), ("commit", 1)])
@given(st.lists(_STEPS, max_size=40))
async def test_a_follower_never_stays_beside_the_ledger(steps: list[tuple[str, int]]) -> None:
    """After any commits, losses and reads, a follower ends with the versions of the ledger.

    It applies own commits without reading them, but keeps none that was lost.
    """
    ledger = Ledger()
    copy = Copy(ledger)
    follower = Follower(ledger, VirtualClock(), [copy])
    await follower.start()
    for name, size in steps:
        if name == "commit":
            ledger.commit(size)
        elif name == "lose":
            ledger.lose(size)
        elif name == "lose while reading":
            ledger.lost_while_reading = [size]
        elif name == "reconnect":
            ledger.reconnect()
        elif name == "follow":
            await step(follower)
        elif name == "read by others":
            with suppress(FeedGapError):
                await ledger.changes(len(ledger.rows))
        else:
            ledger.commit_elsewhere(size, is_new=name == "elsewhere, new")
    # Turns that apply own commits, or read while versions are lost, may precede the last read.
    for _ in range(4):
        await step(follower)
    assert copy.rows == [change for change, _ in ledger.rows]


async def step(follower: Follower) -> None:
    """Apply what is known without a read, or read, as `Follower.run` does."""
    if not await follower._apply_known_changes():
        await follower.catch_up()


async def test_own_commits_are_applied_without_reading_them() -> None:
    """Once a read has seen the timeline, own commits reach the follower as news."""
    ledger = Ledger()
    copy = Copy(ledger)
    follower = Follower(ledger, VirtualClock(), [copy])
    await follower.start()
    ledger.commit(1)
    await step(follower)
    assert ledger.news_used == 0
    ledger.commit(3)
    await step(follower)
    assert ledger.news_used == 3
    assert copy.rows == [change for change, _ in ledger.rows]


async def test_after_a_loss_that_another_read_has_noticed_nothing_is_applied_unread() -> None:
    """The follower loads a snapshot first, although the ledger knows the next own commits."""
    ledger = Ledger()
    copy = Copy(ledger)
    follower = Follower(ledger, VirtualClock(), [copy])
    await follower.start()
    ledger.commit(1)
    await step(follower)
    ledger.commit(2)
    await step(follower)
    ledger.lose(2)
    ledger.commit(3)
    await ledger.changes(len(ledger.rows))
    ledger.commit(1)
    assert versions(ledger.news(follower.version)) == [4, 5]
    await step(follower)
    assert copy.rows == [change for change, _ in ledger.rows]
