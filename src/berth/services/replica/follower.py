"""The follower, a process's only reader of the change feed, and the subscribers it updates."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from berth.domain.errors import FeedGapError
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.clock import Clock
from berth.ports.ledger import Feed

# The wait for the next version ends after this many seconds, so a lost notification delays a
# follower by no more.
_WAIT_S = 1.0
# One read of the feed returns at most this many versions, which bounds memory when the process is
# far behind.
_VERSIONS_AT_ONCE = 1000


class Subscriber(Protocol):
    """Keeps its state up to date with the ledger.

    Both methods run on the event loop and must not block.
    """

    def load(self, snapshot: Snapshot) -> None:
        """Replace all state with a snapshot."""
        ...

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes that follow the current version; no version is split between two calls."""
        ...


class Follower:
    """Reads the change feed and updates its subscribers, which are all at the same version.

    If the follower falls behind the oldest version in the feed, or the ledger has lost versions, it
    loads a new snapshot into every subscriber. It does the same after a subscriber has raised an
    error, because that subscriber may have applied only some of the changes.

    Args:
        feed: the change feed.
        clock: provides the times of snapshots and of `synced_at_s`.
        subscribers: the first subscribers.

    Attributes:
        subscribers: the subscribers, in the order of delivery of changes. Add more only before
            `start`, which loads them.
        version: the ledger version that all subscribers are at.
        synced_at_s: Unix seconds when the subscribers were last known to be at the newest version.
        contention_lock: held while a caller decides again after its write was rejected, so the
            retries of one process do not compete with each other.
    """

    def __init__(self, feed: Feed, clock: Clock, subscribers: Sequence[Subscriber]) -> None:
        self.version = 0
        self.synced_at_s = 0.0
        self.contention_lock = asyncio.Lock()
        self._feed = feed
        self._clock = clock
        self.subscribers = list(subscribers)
        self._lock = asyncio.Lock()
        # The flag is set before the first subscriber is called and cleared after the last one, so
        # an exception in between leaves it set, and the next read loads a snapshot.
        self._needs_reload = False
        # The value that `Feed.losses` had when the snapshot was loaded.
        self._losses = 0
        # Reads are counted from 1. These are the newest read that began and the newest one that
        # succeeded; see `catch_up`.
        self._reads_begun = 0
        self._last_good_read = 0

    @property
    def is_loaded(self) -> bool:
        """Whether every subscriber has been loaded."""
        return self.synced_at_s > 0

    async def start(self) -> None:
        """Load the newest snapshot into every subscriber.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        async with self._lock:
            await self._load()

    async def catch_up(self) -> bool:
        """Apply everything committed before this call, and return whether the version changed.

        Callers that arrive while a read is in progress share the next one.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        before = self.version
        # A read in progress may have queried the ledger before this call, so only a read that
        # begins later counts. `_lock` is held during a read: when this caller gets it, either a
        # later read has already succeeded, or this caller reads for all that wait.
        begun = self._reads_begun
        async with self._lock:
            if self._last_good_read <= begun:
                self._reads_begun += 1
                await self._read()
                self._last_good_read = self._reads_begun
                self.synced_at_s = self._clock.now_s()
        return self.version != before

    async def run(self) -> None:
        """Follow the feed until cancelled.

        Raises:
            UnavailableError: the ledger cannot be reached. The subscribers keep their version, and
                the caller may call this again.
        """
        while True:
            if not self._needs_reload:
                await self._feed.wait(self.version, _WAIT_S)
            if not await self._apply_known_changes():
                await self.catch_up()

    async def _apply_known_changes(self) -> bool:
        """Apply the changes that are known without a read; return whether there were any."""
        async with self._lock:
            # After a loss, the next read loads a snapshot.
            is_sound = not self._needs_reload and self._feed.losses == self._losses
            changes = self._feed.news(self.version) if is_sound else []
            if changes:
                self._apply_to_all(changes)
                self.synced_at_s = self._clock.now_s()
        return bool(changes)

    async def _read(self) -> None:
        """Apply the feed's changes in portions; load a snapshot instead if the feed has a gap.

        Versions that are committed during the last portion are left for the next call.
        """
        is_behind = True
        while is_behind and not self._needs_reload:
            try:
                changes = await self._feed.changes(self.version, _VERSIONS_AT_ONCE)
            except FeedGapError:
                # This process's version is older than the oldest in the feed, or newer than that of
                # the ledger, which was then replaced or restored from a backup.
                self._needs_reload = True
                break
            if self._feed.losses != self._losses:
                self._needs_reload = True
                break
            is_behind = bool(changes) and changes[-1].version >= self.version + _VERSIONS_AT_ONCE
            if changes:
                self._apply_to_all(changes)
        if self._needs_reload:
            await self._load()

    def _apply_to_all(self, changes: Sequence[Change]) -> None:
        """Apply changes to every subscriber and advance the version."""
        self._needs_reload = True
        for subscriber in self.subscribers:
            subscriber.apply(changes)
        self._needs_reload = False
        self.version = changes[-1].version

    async def _load(self) -> None:
        # Versions that are lost during the read may be in the snapshot, so the next read loads
        # another one.
        losses = self._feed.losses
        snapshot = await self._feed.snapshot(self._clock.now_s())
        self._losses = losses
        self._needs_reload = True
        for subscriber in self.subscribers:
            subscriber.load(snapshot)
        self._needs_reload = False
        self.version = snapshot.version
        self.synced_at_s = self._clock.now_s()
