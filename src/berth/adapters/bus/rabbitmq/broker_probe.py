"""A probe of a broker: what Berth's user may do there, and whether the queues are right."""

import contextlib
import secrets
from collections.abc import Mapping
from typing import Any, cast

import aio_pika
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

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


async def misdeclared_queues(
    broker: RabbitBroker, queues: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Return why existing queues are not as processes declare them, by name.

    A process that declares such a queue is refused, again and again. Queues that do not exist yet
    are not created.

    Args:
        broker: the broker.
        queues: the arguments of durable queues, by name.

    Raises:
        UnavailableError: see `probe_broker`.
    """
    found: dict[str, str] = {}
    try:
        connection = await open_connection(broker)
        try:
            with broken_not_cancelled():
                for name, arguments in queues.items():
                    if (reason := await _mismatch(connection, name, arguments)) is not None:
                        found[name] = reason
        finally:
            with contextlib.suppress(TimeoutError):
                await hang_up(connection)
    except (aio_pika.exceptions.AMQPError, OSError, RuntimeError) as error:
        raise unusable_error(broker, error) from None
    return found


async def _mismatch(
    connection: aio_pika.abc.AbstractConnection, name: str, arguments: Mapping[str, Any]
) -> str | None:
    # The broker closes a channel after a refusal, so each queue gets one of its own.
    channel = await connection.channel()
    try:
        await channel.declare_queue(name, durable=True, passive=True)
        # The queue exists, so this only compares it with the arguments.
        await channel.declare_queue(name, durable=True, arguments=dict(arguments))
    except ChannelNotFoundEntity:
        return None
    except ChannelPreconditionFailed as error:
        return str(error)
    await channel.close()
    return None


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
