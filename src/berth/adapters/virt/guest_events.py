"""Distribution of a driver's guest events to subscribers, without waiting for them."""

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakSet

from berth.ports.virt import GuestEvent

_WAITING_MAX = 1_000


class _Subscription(asyncio.Queue[GuestEvent]):
    """The bounded queue of one subscriber, which is also its iterator over the events."""

    def publish(self, event: GuestEvent) -> None:
        """Add an event, dropping the oldest one when the queue is full.

        Losing events is safe: they are hints, and agents reconcile their hosts periodically.
        """
        if self.full():
            self.get_nowait()
        self.put_nowait(event)

    def __aiter__(self) -> AsyncIterator[GuestEvent]:
        return self

    # A generator would end with the first call that is cancelled.
    __anext__ = asyncio.Queue[GuestEvent].get


class GuestEventHub:
    """Publishes events to all subscribers; see `VirtDriver.events`."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        # The references are weak, so that a dropped iterator ends its subscription. The set is
        # created on demand, since most fake hosts of a load test have no subscriber.
        self._all: WeakSet[_Subscription] | None = None

    def subscribe(self) -> AsyncIterator[GuestEvent]:
        """Return an iterator over the events from now on."""
        if self._all is None:
            self._all = WeakSet()
        subscription = _Subscription(_WAITING_MAX)
        self._all.add(subscription)
        return subscription

    def publish(self, event: GuestEvent) -> None:
        """Publish an event to all subscribers."""
        for subscription in self._all or ():
            subscription.publish(event)
