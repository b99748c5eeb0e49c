"""Helpers to read notifications as other services would, and to reach the broker by a proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aio_pika
import msgspec
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue
from yarl import URL

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.proxy import Proxy

_PATIENCE_S = 20.0


@asynccontextmanager
async def reading(broker: RabbitBroker, key: str) -> AsyncIterator[AbstractQueue]:
    """Yield a queue bound to the exchange, which must exist before any reader."""
    connection = await aio_pika.connect(broker.url)
    channel = await connection.channel()
    exchange = await channel.get_exchange(broker.notifications)
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(exchange, key)
    yield queue
    await connection.close()


async def take(queue: AbstractQueue, count: int) -> list[dict[str, Any]]:
    """Return this many notifications; more may be included."""
    bodies: list[dict[str, Any]] = []
    came = asyncio.Event()

    async def keep(message: AbstractIncomingMessage) -> None:
        assert message.content_type == "application/json"
        bodies.append(msgspec.json.decode(message.body))
        assert message.routing_key == bodies[-1]["event_type"]
        assert message.message_id == bodies[-1]["message_id"]
        if len(bodies) >= count:
            came.set()

    tag = await queue.consume(keep, no_ack=True)
    await asyncio.wait_for(came.wait(), _PATIENCE_S)
    await queue.cancel(tag)
    return bodies


def behind(proxy: Proxy, broker: RabbitBroker, scheme: str = "amqp") -> RabbitBroker:
    """Return the broker with a URL that leads through a proxy."""
    url = URL(broker.url).with_scheme(scheme).with_host("127.0.0.1").with_port(proxy.port)
    return replace(broker, url=str(url))
