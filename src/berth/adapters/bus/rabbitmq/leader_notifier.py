"""Of many processes that could tell the same notifications, one does; see the port `Notifier`."""

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

_LOOK_S: Final = 2.0
"""How often those who stand by look whether the one who leads is gone."""
_KEPT_S: Final = 60.0
"""What is kept while another leads: longer than the broker takes to notice that it is gone."""
_KEPT_MAX: Final = 10_000


class LeaderNotifier:
    """Passes notifications on while this process is the one that leads, and keeps them else.

    Who leads holds a queue that the broker lends to one connection only. When it goes, another
    gets the queue and leads what it has kept, some of it for the second time, under the same ids.
    Without a connection nobody leads, and what happens is kept.

    Args:
        notifier: who leads.
        connection: the connection, to which it adds itself.
        now_s: leads the Unix time.
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
        connection.add(self)

    def notify(
        self, event_type: str, payload: object, *, key: str, priority: Priority = Priority.INFO
    ) -> None:
        """See `Notifier.notify`."""
        if self.leads:
            self._notifier.notify(event_type, payload, key=key, priority=priority)
            return
        self._kept.append((self._now_s(), event_type, payload, key, priority))
        if self._is_connected:
            # Another leads. Without a connection perhaps nobody does.
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
        """Wait until nobody else leads, and begin to."""
        while True:
            try:
                with broken_not_cancelled():
                    channel = await session.spare_channel()
                    await channel.queue_declare(self._queue, exclusive=True)
            except ChannelLockedResource:
                await asyncio.sleep(_LOOK_S)
            except (AMQPError, OSError, RuntimeError) as error:
                session.end(f"{error!r}"[:300])
                return
            else:
                self._take_over()
                return

    def _take_over(self) -> None:
        self.leads = True
        self._telemetry.event("notifications_begun", kept=len(self._kept))
        while self._kept:
            _, event_type, payload, key, priority = self._kept.popleft()
            self._notifier.notify(event_type, payload, key=key, priority=priority)

    def _forget_old(self) -> None:
        oldest_s = self._now_s() - _KEPT_S
        while self._kept and self._kept[0][0] < oldest_s:
            self._kept.popleft()
