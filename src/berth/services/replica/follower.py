"""Following the ledger: one reader of the change feed a process, and all who depend on it."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from berth.domain.errors import FeedGapError
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.clock import Clock
from berth.ports.ledger import Feed

_WAIT_S = 1.0
_VERSIONS_AT_ONCE = 1000


class Subscriber(Protocol):
    """Somebody who keeps something true to the ledger. Both methods must not block."""

    def load(self, snapshot: Snapshot) -> None:
        """Start anew from a snapshot."""
        ...

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in what happened since, in whole versions."""
        ...


class Follower:
    """Reads the feed and tells its subscribers; whoever falls behind its floor loads anew.

    A subscriber that raises may have taken in half of what it was told, so after that all of
    them start anew from a snapshot.

    Attributes:
        version: the ledger version that all subscribers are true to.
        synced_at_s: Unix seconds when it was last known to be true to the ledger.
        turn: held by who decides anew because somebody else was faster; so of many in a process
            that are about the same thing each loses one race and no more.
    """

    def __init__(self, feed: Feed, clock: Clock, subscribers: Sequence[Subscriber]) -> None:
        self.version = 0
        self.synced_at_s = 0.0
        self.turn = asyncio.Lock()
        self._feed = feed
        self._clock = clock
        self._subscribers = list(subscribers)
        self._lock = asyncio.Lock()
        self._needs_reload = False
        self._reads_begun = 0
        self._last_good_read = 0

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add a subscriber; only before `start`."""
        self._subscribers.append(subscriber)

    async def start(self) -> None:
        """Load the newest snapshot."""
        async with self._lock:
            await self._load()

    async def catch_up(self) -> bool:
        """Take in all that was committed before this call; tell whether there was anything.

        Callers who come while another reads share the one read that begins after it.
        """
        before = self.version
        begun = self._reads_begun
        async with self._lock:
            if self._last_good_read <= begun:
                self._reads_begun += 1
                await self._read()
                self._last_good_read = self._reads_begun
                self.synced_at_s = self._clock.now_s()
        return self.version != before

    async def run(self) -> None:
        """Follow for ever."""
        while True:
            if not self._needs_reload:
                await self._feed.wait(self.version, _WAIT_S)
            if not await self._apply_known_changes():
                await self.catch_up()

    async def _apply_known_changes(self) -> bool:
        """Take in what is known without a look at the store; tell whether there was anything."""
        async with self._lock:
            changes = [] if self._needs_reload else self._feed.news(self.version)
            if changes:
                self._tell(changes)
                self.synced_at_s = self._clock.now_s()
        return bool(changes)

    async def _read(self) -> None:
        """Read on until the feed had no more; what came after the last page is for the next."""
        is_behind = True
        while is_behind and not self._needs_reload:
            try:
                changes = await self._feed.changes(self.version, _VERSIONS_AT_ONCE)
            except FeedGapError:
                # Behind its floor, or ahead of it: another ledger, or restored from a backup.
                self._needs_reload = True
                break
            is_behind = bool(changes) and changes[-1].version >= self.version + _VERSIONS_AT_ONCE
            if changes:
                self._tell(changes)
        if self._needs_reload:
            await self._load()

    def _tell(self, changes: Sequence[Change]) -> None:
        self._needs_reload = True
        for subscriber in self._subscribers:
            subscriber.apply(changes)
        self._needs_reload = False
        self.version = changes[-1].version

    async def _load(self) -> None:
        snapshot = await self._feed.snapshot(self._clock.now_s())
        self._needs_reload = True
        for subscriber in self._subscribers:
            subscriber.load(snapshot)
        self._needs_reload = False
        self.version = snapshot.version
        self.synced_at_s = self._clock.now_s()
