"""Notifications on a topic exchange for consumers outside Berth; see the port `Notifier`."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from aiormq.channel import Channel
from pamqp.commands import Basic

from berth.adapters.bus.message_codec import NotificationBody
from berth.adapters.bus.rabbitmq.connection import (
    BrokerConnection,
    BrokerSession,
    broken_not_cancelled,
)
from berth.domain.uuids import named_uuid
from berth.ports.bus import CONTEXT, Priority

# At most this many notifications wait in memory for a connection. Beyond that the oldest are
# dropped, because notifications must never delay or fail a placement.
_WAITING_MAX: Final = 10_000
_AT_ONCE: Final = 64
_PERSISTENT: Final = 2


class RabbitNotifier:
    """Publishes each notification at least once, unless more than 10,000 are waiting.

    Args:
        connection: the broker connection; the notifier registers itself as a listener.
        publisher: the publisher id: the part of Berth that runs here and the machine's name
            (`scheduler.rack1`).
        now_s: returns the Unix time in seconds.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        publisher: str,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._broker = connection.broker
        self._telemetry = connection.telemetry
        self._publisher = publisher
        self._now_s = now_s
        self._encoder = msgspec.json.Encoder()
        self._waiting: deque[tuple[str, str, bytes]] = deque()
        self._arrived = asyncio.Event()
        self._all_published = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        connection.listeners.append(self)

    def notify(
        self, event_type: str, payload: object, *, key: str, priority: Priority = Priority.INFO
    ) -> None:
        """See `Notifier.notify`."""
        context = CONTEXT.get()
        message = NotificationBody(
            message_id=named_uuid(f"{event_type}:{key}"),
            event_type=event_type,
            priority=priority,
            publisher_id=self._publisher,
            timestamp=datetime.fromtimestamp(self._now_s(), UTC).isoformat(),
            request_id=context.request_id,
            traceparent=context.traceparent,
            payload=payload,
        )
        try:
            body = self._encoder.encode(message)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            self._telemetry.failure("notification_unreadable", error, event_type=event_type)
            return
        if len(self._waiting) >= _WAITING_MAX:
            self._waiting.popleft()
            self._telemetry.event("notification_dropped", waiting=_WAITING_MAX)
        self._waiting.append((event_type, message.message_id, body))
        self._all_published.clear()
        self._arrived.set()

    async def on_connected(self, session: BrokerSession) -> None:
        """See `SessionListener.on_connected`."""
        channel = await session.channel(confirms=True)
        await channel.exchange_declare(
            self._broker.notifications, exchange_type="topic", durable=True
        )
        self._task = asyncio.create_task(self._publish(session, channel))

    def on_disconnected(self, reason: str) -> None:
        """See `SessionListener.on_disconnected`."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def finish(self, timeout_s: float = 2.0) -> None:
        """Wait until all notifications are published, but at most `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._waiting:
                    await self._all_published.wait()
        except TimeoutError:
            self._telemetry.event("notifications_not_sent", waiting=len(self._waiting))

    async def _publish(self, session: BrokerSession, channel: Channel) -> None:
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._waiting:
                    batch = [*self._waiting][:_AT_ONCE]
                    with broken_not_cancelled():
                        await asyncio.gather(*(self._publish_one(channel, *one) for one in batch))
                    self._forget(batch)
                self._all_published.set()
        except Exception as error:  # noqa: BLE001 - the rest is published on the next connection
            self._arrived.set()
            session.end(f"{error!r}"[:300])

    async def _publish_one(
        self, channel: Channel, event_type: str, message_id: str, body: bytes
    ) -> None:
        properties = Basic.Properties(
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=_PERSISTENT,
            message_id=message_id,
            message_type=event_type,
        )
        await channel.basic_publish(
            body,
            exchange=self._broker.notifications,
            routing_key=event_type,
            properties=properties,
            wait=False,
        )

    def _forget(self, published: list[tuple[str, str, bytes]]) -> None:
        """Remove published notifications from the queue."""
        # Published notifications are recognised by id and not counted, because the oldest may have
        # been dropped in the meantime.
        ids = {message_id for _, message_id, _ in published}
        while self._waiting and self._waiting[0][1] in ids:
            self._waiting.popleft()
