"""Hints: what a driver tells whoever follows its events, without waiting for them."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakSet

from berth.ports.virt import GuestEvent

_WAITING_MAX = 1_000


class _Subscription:
    """One who follows; whoever lets go of it follows no more."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[GuestEvent] = asyncio.Queue(_WAITING_MAX)

    def publish(self, event: GuestEvent) -> None:
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
        self._all: WeakSet[_Subscription] | None = None

    def subscribe(self) -> AsyncIterator[GuestEvent]:
        """Yield what is told from now on."""
        if self._all is None:
            self._all = WeakSet()
        subscription = _Subscription()
        self._all.add(subscription)
        return subscription

    def publish(self, event: GuestEvent) -> None:
        """Tell everybody."""
        for subscription in self._all or ():
            subscription.publish(event)
