"""Tests for the follower: every version in order, and recovery after failures."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from berth.adapters.ledger import MemoryLedger, Retention
from berth.domain.errors import UnavailableError
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.write import Put
from berth.services.replica.follower import Follower
from berth.testing.builders import make_flavor
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import running


class Listener:
    """A subscriber that records what it receives, and fails when a test says so."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.fails = 0

    def load(self, snapshot: Snapshot) -> None:
        """Record the snapshot's version."""
        self._fail()
        self.received.append(f"load {snapshot.version}")

    def apply(self, changes: Sequence[Change]) -> None:
        """Record each version once."""
        self._fail()
        self.received += [f"{version}" for version in dict.fromkeys(one.version for one in changes)]

    def _fail(self) -> None:
        if self.fails:
            self.fails -= 1
            raise RuntimeError("no")


class SlowFeed(MemoryLedger):
    """A ledger whose feed takes a while to answer."""

    def __init__(self, retention: Retention) -> None:
        super().__init__(retention=retention)
        self.asked = 0
        self.gate: asyncio.Event | None = None
        self.is_away = False
        self.known = 0
        self.lost = 0

    @property
    def losses(self) -> int:
        """Return how often a test has lost versions."""
        return self.lost

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """Return the changes until now, once the gate opens."""
        self.asked += 1
        if self.is_away:
            raise UnavailableError("away")
        changes = await super().changes(after, limit)
        if self.gate is not None:
            await self.gate.wait()
        return changes

    def news(self, after: int) -> list[Change]:
        """Return only the changes in `known`."""
        return [change for change in super().news(after) if change.version <= self.known]

    async def put(self, count: int = 1) -> None:
        """Commit some versions."""
        await self.commit([(Put(make_flavor()),)] * count)


@pytest.fixture
def feed() -> SlowFeed:
    """Return an empty ledger that keeps few versions."""
    return SlowFeed(Retention(feed_versions=5))


async def follow(feed: SlowFeed, *listeners: Listener) -> Follower:
    """Return a follower that has started."""
    follower = Follower(feed, VirtualClock(), listeners)
    await follower.start()
    return follower


async def test_subscribers_get_every_version_in_order(feed: SlowFeed) -> None:
    """Subscribers get a snapshot first, then each version once and in order."""
    listener = Listener()
    follower = await follow(feed, listener)
    await feed.put(2)
    await follower.catch_up()
    await feed.put()
    await follower.catch_up()
    assert listener.received == ["load 0", "1", "2", "3"]
    assert follower.version == 3


async def test_catch_up_returns_whether_the_version_changed(feed: SlowFeed) -> None:
    """`catch_up` returns True if it applied a new version, and False otherwise."""
    follower = await follow(feed, Listener())
    await feed.put()
    assert await follower.catch_up()
    assert not await follower.catch_up()


async def test_a_gap_is_bridged_by_a_snapshot(feed: SlowFeed) -> None:
    """A follower behind the oldest version in the feed loads a snapshot and continues from it."""
    listener = Listener()
    follower = await follow(feed, listener)
    await feed.put(20)
    assert await follower.catch_up()
    await feed.put()
    await follower.catch_up()
    assert listener.received == ["load 0", "load 20", "21"]


async def test_a_restored_ledger_is_loaded_from_a_snapshot(feed: SlowFeed) -> None:
    """A ledger that was restored to a lower version is loaded from a snapshot."""
    listener = Listener()
    follower = await follow(feed, listener)
    await feed.put(3)
    await follower.catch_up()
    restored = SlowFeed(Retention())
    await restored.put()
    follower._feed = restored
    assert await follower.catch_up()
    assert listener.received[-1] == "load 1"
    assert follower.version == 1


async def test_lost_versions_are_replaced_by_a_snapshot(feed: SlowFeed) -> None:
    """After versions were lost, changes are not applied, because their numbers may be others'."""
    listener = Listener()
    follower = await follow(feed, listener)
    await feed.put(3)
    await follower.catch_up()
    await feed.put()
    feed.lost = 1
    assert await follower.catch_up()
    await feed.put()
    await follower.catch_up()
    assert listener.received == ["load 0", "1", "2", "3", "load 4", "5"]


async def test_after_a_subscriber_has_failed_all_are_loaded(feed: SlowFeed) -> None:
    """After a subscriber has failed, all subscribers load a snapshot."""
    first, second = Listener(), Listener()
    follower = await follow(feed, first, second)
    second.fails = 2
    await feed.put()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await follower.catch_up()
    await follower.catch_up()
    await feed.put()
    await follower.catch_up()
    assert first.received == ["load 0", "1", "load 1", "load 1", "2"]
    assert second.received == ["load 0", "load 1", "2"]


async def test_an_unreachable_ledger_breaks_nothing(feed: SlowFeed) -> None:
    """The caller gets the error of an unreachable ledger, and a later read gets all changes."""
    listener = Listener()
    follower = await follow(feed, listener)
    await feed.put()
    feed.is_away = True
    with pytest.raises(UnavailableError):
        await follower.catch_up()
    feed.is_away = False
    assert await follower.catch_up()
    assert listener.received == ["load 0", "1"]


async def test_catch_up_reads_ones_own_writes(feed: SlowFeed) -> None:
    """A read that began before a commit does not satisfy a caller that comes after the commit."""
    follower = await follow(feed, Listener())
    feed.gate = asyncio.Event()
    early = asyncio.create_task(follower.catch_up())
    await asyncio.sleep(0)
    await feed.put()
    late = asyncio.create_task(follower.catch_up())
    await asyncio.sleep(0)
    feed.gate.set()
    assert await late
    assert follower.version == 1
    await early


async def test_what_is_committed_during_a_read_is_for_the_next(feed: SlowFeed) -> None:
    """A read ends at the version at which it began, and the next one gets later commits."""
    listener = Listener()
    follower = await follow(feed, listener)
    await feed.put()
    feed.gate = asyncio.Event()
    reading = asyncio.create_task(follower.catch_up())
    await asyncio.sleep(0)
    await feed.put()
    feed.gate.set()
    assert await reading
    assert listener.received == ["load 0", "1"]
    assert await follower.catch_up()
    assert listener.received == ["load 0", "1", "2"]


async def test_a_follower_far_behind_reads_chunk_by_chunk() -> None:
    """A follower far behind reads chunks until it has caught up."""
    feed, listener = SlowFeed(Retention()), Listener()
    follower = await follow(feed, listener)
    await feed.put(2500)
    assert await follower.catch_up()
    assert listener.received[-1] == "2500"
    assert feed.asked == 3
    await feed.put(1000)
    assert await follower.catch_up()
    assert (follower.version, feed.asked) == (3500, 5)


async def test_many_callers_share_one_read(feed: SlowFeed) -> None:
    """Ten callers during a read share one more read."""
    follower = await follow(feed, Listener())
    feed.gate = asyncio.Event()
    calls = [asyncio.create_task(follower.catch_up()) for _ in range(11)]
    await asyncio.sleep(0)
    await feed.put()
    feed.gate.set()
    assert await asyncio.gather(*calls[1:]) == [True] * 10
    assert feed.asked == 2


async def test_a_failed_read_is_not_shared(feed: SlowFeed) -> None:
    """After a failed read each waiting caller reads by itself."""
    follower = await follow(feed, Listener())
    await feed.put()
    feed.is_away = True
    calls = [asyncio.create_task(follower.catch_up()) for _ in range(3)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, UnavailableError) for result in results)


async def test_a_cancelled_catch_up_leaves_the_lock(feed: SlowFeed) -> None:
    """Cancelling one caller during its read does not block the others."""
    follower = await follow(feed, Listener())
    feed.gate = asyncio.Event()
    gone = asyncio.create_task(follower.catch_up())
    waits = asyncio.create_task(follower.catch_up())
    await asyncio.sleep(0)
    gone.cancel()
    await feed.put()
    feed.gate.set()
    assert await waits
    assert follower.version == 1


async def test_run_follows_the_feed(feed: SlowFeed) -> None:
    """`run` brings commits to subscribers without a call of `catch_up`."""
    listener = Listener()
    follower = await follow(feed, listener)
    async with running(follower.run):
        await feed.put()
        await asyncio.sleep(1.5)
        await feed.put(2)
        await asyncio.sleep(1.5)
    assert listener.received == ["load 0", "1", "2", "3"]


async def test_known_changes_are_applied_without_a_read(feed: SlowFeed) -> None:
    """Known changes are applied without a read, and unknown ones are read."""
    listener = Listener()
    follower = await follow(feed, listener)
    feed.known = 2
    async with running(follower.run):
        await feed.put(2)
        await asyncio.sleep(0.1)
        assert (listener.received, feed.asked) == (["load 0", "1", "2"], 0)
        await feed.put()
        await asyncio.sleep(0.1)
        assert (listener.received, feed.asked) == (["load 0", "1", "2", "3"], 1)


@pytest.mark.parametrize("fails", [1, 3])
async def test_run_recovers_when_it_is_started_again(feed: SlowFeed, fails: int) -> None:
    """A subscriber's error ends `run`, and a new `run` loads a snapshot."""
    listener = Listener()
    follower = await follow(feed, listener)
    listener.fails = fails
    await feed.put()

    async def restarted() -> None:
        while True:
            try:
                await follower.run()
            except RuntimeError:
                await asyncio.sleep(1)

    loop: Callable[[], asyncio.Future[None]] = lambda: asyncio.ensure_future(restarted())  # noqa: E731
    async with running(loop):
        await asyncio.sleep(10)
    assert listener.received == ["load 0", "load 1"]
