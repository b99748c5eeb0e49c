"""Hints: what a driver tells whoever follows its events, without waiting for them."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakSet

from berth.ports.virt import GuestEvent

_WAITING_MAX = 1_000


class _Following:
    """One who follows; whoever lets go of it follows no more."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[GuestEvent] = asyncio.Queue(_WAITING_MAX)

    def tell(self, event: GuestEvent) -> None:
        """Add a hint; the oldest makes room when nobody fetches them."""
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(event)

    def __aiter__(self) -> AsyncIterator[GuestEvent]:
        return self

    async def __anext__(self) -> GuestEvent:
        return await self._waiting.get()


class GuestEventHub:
    """Passes hints on to all who follow; see `Driver.events`."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: WeakSet[_Following] | None = None

    def follow(self) -> AsyncIterator[GuestEvent]:
        """Yield what is told from now on."""
        if self._all is None:
            self._all = WeakSet()
        following = _Following()
        self._all.add(following)
        return following

    def tell(self, event: GuestEvent) -> None:
        """Tell everybody."""
        for following in self._all or ():
            following.tell(event)
