"""What anyone who can publish on the broker can do to the processes of the control plane."""

import os
from collections.abc import AsyncIterator

import aio_pika
import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker, RabbitBus
from berth.domain.errors import UnavailableError
from berth.ports.measures import BUS_REFUSALS
from berth.testing.bus_conformance.letters import ASK, Keeping, Letter, Reply, answering
from tests.rabbit import FixedKeys, bus_signer, riding, until
from tests.unit.services.telemetry.test_observers import Counts
from tests.unit.services.wiring import Told

pytestmark = pytest.mark.rabbitmq

_FOREIGN = os.urandom(32)
_SHARED_QUEUE_KEY = f"{ASK.topic}.{ASK.name}"


@pytest.fixture
def counts() -> Counts:
    """Return the metrics of the server."""
    return Counts()


@pytest.fixture
async def server(broker: RabbitBroker, counts: Counts) -> AsyncIterator[RabbitBus]:
    """Yield the bus of a process of the control plane."""
    async with riding(broker, Told(), metrics=counts) as bus:
        yield bus


async def test_a_stranger_cannot_command(
    broker: RabbitBroker, server: RabbitBus, counts: Counts
) -> None:
    """Calls, casts and fanouts that another key signed are not carried out, and counted."""
    kept = Keeping()
    server.serve(ASK, kept)
    server.serve(ASK, kept, server="host-1")
    await server.apply_changes()
    async with riding(broker, Told(), bus_signer(_FOREIGN)) as stranger:
        for name in (None, "host-1"):
            with pytest.raises(UnavailableError, match="refused"):
                await stranger.call(ASK, Letter("call"), timeout_s=10, server=name)
            await stranger.cast(ASK, Letter("cast"), timeout_s=10, server=name)
        await stranger.fanout(ASK, Letter("fanout"))
        await until(lambda: counts.of(BUS_REFUSALS) == {("forged",): 5})
    async with riding(broker, Told()) as process:
        await process.cast(ASK, Letter("own"), timeout_s=10)
        assert await kept.wait_for(1) == ["own"]


async def test_a_message_is_carried_out_once(
    broker: RabbitBroker, server: RabbitBus, counts: Counts
) -> None:
    """A stranger that reads a message and publishes it again, there or elsewhere, gains nothing."""
    kept, others = Keeping(), Keeping()
    server.serve(ASK, kept)
    server.serve(ASK, others, server="host-2")
    await server.apply_changes()
    connection = await aio_pika.connect(broker.url)
    async with connection:
        channel = await connection.channel()
        commands = await channel.get_exchange(broker.commands)
        tapped = await channel.declare_queue(exclusive=True)
        await tapped.bind(commands, _SHARED_QUEUE_KEY)
        async with riding(broker, Told()) as process:
            await process.cast(ASK, Letter("once"), timeout_s=60)
        read = await _next(tapped)
        await kept.wait_for(1)
        for key in (_SHARED_QUEUE_KEY, f"{_SHARED_QUEUE_KEY}@host-2"):
            for _ in range(5):
                await commands.publish(aio_pika.Message(read), routing_key=key)
        await until(lambda: counts.of(BUS_REFUSALS) == {("replayed",): 10})
    assert (kept.texts, others.texts) == (["once"], [])


async def test_a_call_redirected_to_another_process_fails_at_once(
    broker: RabbitBroker, server: RabbitBus
) -> None:
    """A process replies to a call in its own queue that it does not serve.

    If it requeued the call, it would receive it again immediately, until the deadline.
    """
    server.serve(ASK, answering("2: "), server="host-2")
    await server.apply_changes()
    connection = await aio_pika.connect(broker.url)
    async with connection, riding(broker, Told()) as process:
        channel = await connection.channel()
        commands = await channel.get_exchange(broker.commands)
        tapped = await channel.declare_queue(exclusive=True)
        await tapped.bind(commands, f"{_SHARED_QUEUE_KEY}@host-1")

        async def redirect(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            await commands.publish(message, f"{_SHARED_QUEUE_KEY}@host-2")

        await tapped.consume(redirect, no_ack=True)
        with pytest.raises(UnavailableError, match=r"no process serves .* for host-1"):
            await process.call(ASK, Letter("a"), timeout_s=10, server="host-1")
        assert await process.call(ASK, Letter("b"), timeout_s=10, server="host-2") == Reply("2: b")


async def test_garbage_does_not_stop_a_server(
    broker: RabbitBroker, server: RabbitBus, counts: Counts
) -> None:
    """After a flood of random bytes the server still answers, and has counted all of them."""
    server.serve(ASK, answering("re: "))
    await server.apply_changes()
    connection = await aio_pika.connect(broker.url)
    async with connection:
        channel = await connection.channel()
        commands = await channel.get_exchange(broker.commands)
        for size in range(300):
            await commands.publish(
                aio_pika.Message(os.urandom(size), reply_to="nobody"), _SHARED_QUEUE_KEY
            )
        await until(lambda: sum(counts.of(BUS_REFUSALS).values()) == 300)
    async with riding(broker, Told()) as process:
        assert await process.call(ASK, Letter("a"), timeout_s=10) == Reply("re: a")


async def test_a_reply_of_a_stranger_is_refused(broker: RabbitBroker, counts: Counts) -> None:
    """A stranger that takes a call off the queue cannot answer it."""
    async with (
        riding(broker, Told(), bus_signer(_FOREIGN, *FixedKeys().all)) as thief,
        riding(broker, Told(), metrics=counts) as process,
    ):
        thief.serve(ASK, answering("forged: "))
        await thief.apply_changes()
        with pytest.raises(UnavailableError, match="forged"):
            await process.call(ASK, Letter("a"), timeout_s=10)
    assert counts.of(BUS_REFUSALS) == {("forged",): 1}


async def _next(queue: aio_pika.abc.AbstractQueue) -> bytes:
    async with queue.iterator(timeout=30, no_ack=True) as messages:
        message = await anext(messages)
    return message.body
