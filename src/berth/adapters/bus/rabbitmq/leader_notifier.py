"""Leader election among the processes that derive the same notifications from the change feed.

Every scheduler follows the feed and could publish each notification; only the leader does.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from aiormq.exceptions import AMQPError, ChannelLockedResource

from berth.adapters.bus.rabbitmq.connection import (
    BrokerConnection,
    BrokerSession,
    broken_not_cancelled,
)
from berth.ports.bus import Notifier, Priority

_CAMPAIGN_S: Final = 2.0
# The other processes keep recent notifications for longer than the broker takes to notice that the
# leader is gone, so that a new leader can publish those that the old one may have missed.
_KEPT_S: Final = 60.0
_KEPT_MAX: Final = 10_000


async def _ignore(_: object) -> None:
    """Discard a message that another program has sent to the leader's queue."""


class LeaderNotifier:
    """Passes notifications on while this process leads, and keeps them in memory otherwise.

    The leader holds an exclusive queue, which the broker grants to one connection. When that
    connection ends or the queue is deleted, another process acquires the queue and publishes the
    notifications that it has kept; some of them are published twice, with the same message ids. A
    process without a connection does not lead.

    Args:
        notifier: publishes the notifications of the leader.
        connection: the broker connection; this notifier registers itself as a listener.
        now_s: returns the Unix time in seconds.
    """

    def __init__(
        self,
        notifier: Notifier,
        connection: BrokerConnection,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.leads = False
        self._notifier = notifier
        self._queue = f"{connection.broker.prefix}.notifier"
        self._telemetry = connection.telemetry
        self._now_s = now_s
        self._kept: deque[tuple[float, str, object, str, Priority]] = deque(maxlen=_KEPT_MAX)
        self._is_connected = False
        self._task: asyncio.Task[None] | None = None
        connection.listeners.append(self)

    def notify(
        self, event_type: str, payload: object, *, key: str, priority: Priority = Priority.INFO
    ) -> None:
        """See `Notifier.notify`."""
        if self.leads:
            self._notifier.notify(event_type, payload, key=key, priority=priority)
            return
        self._kept.append((self._now_s(), event_type, payload, key, priority))
        if self._is_connected:
            # Old notifications are dropped only while connected, because then some process leads
            # and has published them.
            self._forget_old()

    async def on_connected(self, session: BrokerSession) -> None:
        """See `SessionListener.on_connected`."""
        self._is_connected = True
        self._task = asyncio.create_task(self._campaign(session))

    def on_disconnected(self, reason: str) -> None:
        """See `SessionListener.on_disconnected`."""
        self.leads = self._is_connected = False
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _campaign(self, session: BrokerSession) -> None:
        """Try to declare the exclusive queue until it is free; then lead.

        The leader consumes the queue, although nothing is ever sent to it. The broker then neither
        expires the queue nor deletes it without cancelling the consumer, which ends the session and
        the leadership.
        """
        while True:
            try:
                with broken_not_cancelled():
                    channel = await session.spare_channel()
                    await channel.queue_declare(self._queue, exclusive=True)
                    # The queue may have been deleted again. Then this channel breaks, and with it
                    # the session.
                    lead = await session.channel()
                    await lead.basic_consume(self._queue, _ignore, no_ack=True)
            except ChannelLockedResource:
                await asyncio.sleep(_CAMPAIGN_S)
            except (AMQPError, OSError, RuntimeError) as error:
                session.end(f"{error!r}"[:300])
                return
            else:
                self._take_over()
                return

    def _take_over(self) -> None:
        self.leads = True
        self._telemetry.event("notification_leadership_acquired", kept=len(self._kept))
        while self._kept:
            _, event_type, payload, key, priority = self._kept.popleft()
            self._notifier.notify(event_type, payload, key=key, priority=priority)

    def _forget_old(self) -> None:
        oldest_s = self._now_s() - _KEPT_S
        while self._kept and self._kept[0][0] < oldest_s:
            self._kept.popleft()
