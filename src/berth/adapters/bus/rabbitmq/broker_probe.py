"""A probe of a broker: whether Berth's user can do there what processes do."""

import contextlib
import secrets
from typing import cast

import aio_pika

from berth.adapters.bus.rabbitmq.broker import RabbitBroker
from berth.adapters.bus.rabbitmq.connection import (
    broken_not_cancelled,
    hang_up,
    open_connection,
    unusable_error,
)

_WAIT_S = 5.0


async def probe_broker(broker: RabbitBroker) -> str:
    """Send a message through an exchange and a queue of its own, and return the server's version.

    The queue belongs to the connection and the exchange to the queue, so nothing remains. Both
    have the broker's prefix, because permissions usually depend on it.

    Raises:
        UnavailableError: the broker cannot be reached, refuses the user, or refuses one of the
            steps; the error has no password.
    """
    try:
        connection = await open_connection(broker)
    except (aio_pika.exceptions.AMQPError, OSError, RuntimeError) as error:
        raise unusable_error(broker, error) from None
    try:
        with broken_not_cancelled():
            return await _round_trip(broker, connection)
    except (aio_pika.exceptions.AMQPError, OSError, RuntimeError) as error:
        raise unusable_error(broker, error) from None
    finally:
        with contextlib.suppress(TimeoutError):
            await hang_up(connection)


async def _round_trip(broker: RabbitBroker, connection: aio_pika.abc.AbstractConnection) -> str:
    name = f"{broker.prefix}.doctor.{secrets.token_hex(8)}"
    channel = await connection.channel()
    exchange = await channel.declare_exchange(name, auto_delete=True)
    queue = await channel.declare_queue(name, exclusive=True, auto_delete=True)
    await queue.bind(exchange, name)
    await exchange.publish(aio_pika.Message(b"probe"), name, timeout=_WAIT_S)
    await queue.get(no_ack=True, timeout=_WAIT_S)
    await queue.unbind(exchange, name)
    await queue.delete()
    properties = getattr(connection.transport, "connection", None)
    found: object = getattr(properties, "server_properties", None)
    known = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return str(known.get("version", "of unknown version"))
