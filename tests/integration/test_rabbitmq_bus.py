"""The bus on RabbitMQ when connections break, servers die and messages are late."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import aio_pika
import pytest
from pamqp.commands import Basic
from yarl import URL

from berth.adapters.bus.rabbitmq import BrokerConnection, RabbitBroker, RabbitBus
from berth.adapters.system import NoMetrics
from berth.domain.errors import BerthError, UnavailableError
from berth.ports.bus import Command
from berth.ports.measures import BUS_REFUSALS
from berth.testing.bus_conformance.letters import ASK, BATCHED, Keeping, Letter, Reply, answering
from tests.proxy import Proxy, proxying
from tests.rabbit import bus_signer, riding, until
from tests.unit.services.telemetry.test_observers import Counts
from tests.unit.services.wiring import Told

pytestmark = pytest.mark.rabbitmq

_PATIENCE_S = 20.0
_STRANGE: Command[list[str], Reply] = Command("post", "ask", list[str], Reply)


@pytest.fixture
async def proxy(broker: RabbitBroker) -> AsyncIterator[Proxy]:
    """Yield a proxy to the broker whose connections can be cut."""
    url = URL(broker.url)
    async with proxying(url.host or "", url.port or 5672) as made:
        yield made


def behind(proxy: Proxy, broker: RabbitBroker) -> RabbitBroker:
    """Return the broker with a URL that leads through a proxy."""
    url = URL(broker.url).with_host("127.0.0.1").with_port(proxy.port)
    return replace(broker, url=str(url))


async def call_until_answered(bus: RabbitBus, text: str) -> Reply:
    """Call repeatedly until a reply arrives, and return it."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            try:
                return await bus.call(ASK, Letter(text), timeout_s=2)
            except UnavailableError:
                await asyncio.sleep(0.05)


async def test_servers_are_back_after_a_break(broker: RabbitBroker, proxy: Proxy) -> None:
    """After each break both ends reconnect and serve again; calls fail while the broker is away."""
    told = Told()
    near = behind(proxy, broker)
    async with riding(near, told) as caller, riding(near, told) as server:
        kept = Keeping()
        server.serve(ASK, answering("re: "))
        server.serve(ASK, kept, server="host-1")
        assert await call_until_answered(caller, "a") == Reply("re: a")
        for number in range(3):
            proxy.is_closed = True
            await proxy.cut()
            await until(lambda: not caller.serves(ASK))
            with pytest.raises(UnavailableError, match="not connected"):
                await caller.call(ASK, Letter("x"), timeout_s=5)
            with pytest.raises(UnavailableError, match="not connected"):
                await caller.fanout(ASK, Letter("x"))
            proxy.is_closed = False
            assert await call_until_answered(caller, f"{number}") == Reply(f"re: {number}")
        await server.apply_changes()
        await caller.cast(ASK, Letter("b"), timeout_s=5, server="host-1")
        assert await kept.wait_for(1) == ["b"]
    assert "broker_connected" in told.events


async def test_a_broker_that_says_nothing_is_given_up(broker: RabbitBroker, proxy: Proxy) -> None:
    """A silent broker is noticed by the polling of calls in flight, and is usable again later."""
    told = Told()
    near = behind(proxy, broker)
    async with riding(near, told) as caller, riding(broker, Told()) as server:
        server.serve(ASK, answering("re: "))
        assert await call_until_answered(caller, "a") == Reply("re: a")
        proxy.is_silent = True
        with pytest.raises(UnavailableError):
            await caller.call(ASK, Letter("x"), timeout_s=30)
        await until(lambda: not caller.serves(ASK))
        proxy.is_silent = False
        assert await call_until_answered(caller, "b") == Reply("re: b")
    failed = [str(error) for name, error in told.failures if name == "broker_unavailable"]
    assert any("polling the queues failed" in text for text in failed)


async def test_calls_in_flight_fail_when_the_connection_breaks(
    broker: RabbitBroker, proxy: Proxy
) -> None:
    """A call in flight fails when its connection breaks, and the error says it may be executed."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def take_time(letter: Letter) -> Reply:
        begun.set()
        await gate.wait()
        return Reply("")

    told = Told()
    async with riding(broker, told) as server, riding(behind(proxy, broker), told) as caller:
        server.serve(ASK, take_time)
        await server.apply_changes()
        call = asyncio.create_task(caller.call(ASK, Letter("x"), timeout_s=60))
        await asyncio.wait_for(begun.wait(), _PATIENCE_S)
        await proxy.cut()
        with pytest.raises(UnavailableError, match="may still be carried out"):
            await asyncio.wait_for(call, _PATIENCE_S)
        gate.set()


async def test_what_a_server_dies_at_is_given_to_another(
    broker: RabbitBroker, proxy: Proxy
) -> None:
    """A command whose server dies is executed by another server, and the caller is answered."""
    begun, told = asyncio.Event(), Told()

    async def never_end(letter: Letter) -> Reply:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with riding(broker, told) as caller, riding(behind(proxy, broker), told) as mortal:
        mortal.serve(ASK, never_end)
        await mortal.apply_changes()
        call = asyncio.create_task(caller.call(ASK, Letter("x"), timeout_s=_PATIENCE_S))
        await asyncio.wait_for(begun.wait(), _PATIENCE_S)
        async with riding(broker, told) as other:
            other.serve(ASK, answering("other "))
            await other.apply_changes()
            proxy.is_closed = True
            await proxy.cut()
            assert await call == Reply("other x")


async def test_calls_that_share_a_message_survive_their_server(
    broker: RabbitBroker, proxy: Proxy
) -> None:
    """If a server dies after it has answered one call of a message, another answers the rest."""
    begun, told = asyncio.Event(), Told()

    async def answer_one(letter: Letter) -> Reply:
        if letter.text == "0":
            return Reply("first")
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with riding(broker, told) as caller, riding(behind(proxy, broker), told) as mortal:
        mortal.serve(BATCHED, answer_one)
        await mortal.apply_changes()
        calls = [
            asyncio.create_task(caller.call(BATCHED, Letter(f"{n}"), timeout_s=_PATIENCE_S))
            for n in range(3)
        ]
        await asyncio.wait_for(begun.wait(), _PATIENCE_S)
        assert await calls[0] == Reply("first")
        async with riding(broker, told) as other:
            other.serve(BATCHED, answering("other "))
            await other.apply_changes()
            proxy.is_closed = True
            await proxy.cut()
            assert await asyncio.gather(*calls[1:]) == [Reply("other 1"), Reply("other 2")]


async def test_calls_made_at_the_same_time_share_a_message(broker: RabbitBroker) -> None:
    """The queue of a batched command has fewer messages than calls."""
    told = Told()
    async with riding(broker, told) as caller:
        async with riding(broker, told) as server:
            server.serve(BATCHED, answering(""))
            await server.apply_changes()
        calls = [
            asyncio.create_task(caller.call(BATCHED, Letter(f"{n}"), timeout_s=_PATIENCE_S))
            for n in range(32)
        ]
        connection = await aio_pika.connect(broker.url)
        queue = await (await connection.channel()).get_queue(broker.queue_of(BATCHED))
        message = await queue.get(timeout=_PATIENCE_S)
        assert message is not None
        assert message.type == "shared"
        await message.reject(requeue=True)
        await connection.close()
        async with riding(broker, told) as server:
            server.serve(BATCHED, answering("re: "))
            replies = await asyncio.gather(*calls)
        assert replies == [Reply(f"re: {n}") for n in range(32)]


async def test_late_calls_of_a_message_are_dropped(broker: RabbitBroker) -> None:
    """A call whose deadline passes in the queue is not executed, but those beside it are."""
    told, kept = Told(), Keeping()
    async with riding(broker, told) as caller:
        async with riding(broker, told) as server:
            server.serve(BATCHED, kept)
            await server.apply_changes()
        patient = asyncio.create_task(
            caller.call(BATCHED, Letter("patient"), timeout_s=_PATIENCE_S)
        )
        with pytest.raises(UnavailableError, match="did not answer"):
            await caller.call(BATCHED, Letter("late"), timeout_s=0.3)
        async with riding(broker, told) as server:
            server.serve(BATCHED, kept)
            assert await patient == Reply("patient")
    assert kept.texts == ["patient"]


async def test_strange_messages_for_a_batched_command_do_no_harm(broker: RabbitBroker) -> None:
    """Garbage in the queue of a batched command is refused, and a forged call beside others too."""
    told, counts = Told(), Counts()
    async with riding(broker, told) as caller, riding(broker, told, metrics=counts) as server:
        server.serve(BATCHED, answering("re: "))
        await server.apply_changes()
        connection = await aio_pika.connect(broker.url)
        inner = await (await connection.channel()).get_underlay_channel()
        for body in (b"", b"rubbish", b"\x92\x01\x91\x92\xa1x\xc0"):
            await inner.basic_publish(
                body,
                exchange=broker.commands,
                routing_key="post.batched",
                properties=Basic.Properties(reply_to="nobody", message_type="shared"),
            )
        # Two messages cannot be split, and the third has a part without a code.
        await until(lambda: counts.of(BUS_REFUSALS) == {("unsigned",): 3})
        assert told.failed == ["bus_message_refused"]
        assert await caller.call(BATCHED, Letter("x"), timeout_s=_PATIENCE_S) == Reply("re: x")
        await connection.close()


async def test_nobody_waits_long_for_servers_that_are_gone(broker: RabbitBroker) -> None:
    """A call to a queue without servers fails within seconds, and later ones immediately."""
    told = Told()
    async with riding(broker, told) as caller:
        async with riding(broker, told) as server:
            server.serve(ASK, answering(""))
            assert await call_until_answered(caller, "x") == Reply("x")
        async with asyncio.timeout(10):
            with pytest.raises(UnavailableError, match="no process reads"):
                await caller.call(ASK, Letter("a"), timeout_s=60)
        assert not caller.serves(ASK)
        async with asyncio.timeout(0.5):
            with pytest.raises(UnavailableError, match="no process serves"):
                await caller.call(ASK, Letter("b"), timeout_s=60)
        async with riding(broker, told) as server:
            kept = Keeping()
            server.serve(ASK, kept)
            assert (await kept.wait_for(1))[0] == "a"
            await until(lambda: caller.serves(ASK))


async def test_a_named_server_may_take_its_time(broker: RabbitBroker) -> None:
    """A call to a slow named server is not given up, even with a long name."""
    name = "host-" + "é" * 250

    async def take_time(letter: Letter) -> Reply:
        await asyncio.sleep(2.5)
        return Reply(letter.text)

    async with riding(broker, Told()) as caller, riding(broker, Told()) as server:
        server.serve(ASK, take_time, server=name)
        await server.apply_changes()
        reply = await caller.call(ASK, Letter("x"), timeout_s=_PATIENCE_S, server=name)
        assert reply == Reply("x")


async def test_late_commands_are_dropped(broker: RabbitBroker) -> None:
    """A command that waited longer than its timeout is not executed."""
    told, kept = Told(), Keeping()
    async with riding(broker, told) as caller:
        async with riding(broker, told) as server:
            server.serve(ASK, kept)
            await call_until_answered(caller, "first")
        await caller.cast(ASK, Letter("late"), timeout_s=0.3)
        await asyncio.sleep(0.5)
        async with riding(broker, told) as server:
            server.serve(ASK, kept)
            await call_until_answered(caller, "last")
    assert kept.texts == ["first", "last"]


async def test_a_server_drops_what_it_gets_too_late(broker: RabbitBroker) -> None:
    """A server drops a command that its own clock finds late."""
    told, kept = Told(), Keeping()
    async with riding(broker, told) as caller:
        line = BrokerConnection(broker, told, Random())
        server = RabbitBus(
            line, secrets.token_hex(4), bus_signer(), NoMetrics(), now_s=lambda: 1e10
        )
        running = asyncio.create_task(line.run())
        await line.up.wait()
        server.serve(ASK, kept)
        await server.apply_changes()
        await caller.cast(ASK, Letter("x"), timeout_s=5)
        await until(lambda: "command_expired" in told.events)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert kept.texts == []


async def test_a_queue_that_is_taken_away_is_made_again(broker: RabbitBroker) -> None:
    """A queue that was deleted on the broker is declared again."""
    told = Told()
    async with riding(broker, told) as caller, riding(broker, told) as server:
        server.serve(ASK, answering(""))
        assert await call_until_answered(caller, "x") == Reply("x")
        connection = await aio_pika.connect(broker.url)
        await (await connection.channel()).queue_delete(broker.queue_of(ASK))
        await connection.close()
        assert await call_until_answered(caller, "y") == Reply("y")


async def test_strange_messages_do_no_harm(broker: RabbitBroker) -> None:
    """Garbage in a queue is dropped, and unreadable arguments are answered with an error."""
    told, counts = Told(), Counts()
    async with riding(broker, told) as caller, riding(broker, told, metrics=counts) as server:
        server.serve(ASK, answering(""))
        await server.apply_changes()
        connection = await aio_pika.connect(broker.url)
        inner = await (await connection.channel()).get_underlay_channel()
        for body in (b"", b"rubbish", b"\x90"):
            await inner.basic_publish(
                body,
                exchange=broker.commands,
                routing_key="post.ask",
                properties=Basic.Properties(reply_to="nobody"),
            )
        await until(lambda: counts.of(BUS_REFUSALS) == {("unsigned",): 3})
        assert told.failed == ["bus_message_refused"]
        with pytest.raises(UnavailableError, match="cannot decode"):
            await caller.call(_STRANGE, ["x"], timeout_s=5)
        assert await call_until_answered(caller, "x") == Reply("x")
        await connection.close()


async def test_the_password_is_told_nobody(
    broker: RabbitBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The password appears in no repr, failure or log line."""
    wrong = replace(broker, url=str(URL(broker.url).with_password("s3same")))
    caplog.set_level("DEBUG")
    told = Told()
    line = BrokerConnection(wrong, told, Random())
    running = asyncio.create_task(line.run())
    await until(lambda: "broker_unavailable" in told.failed)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    errors = [error for _, error in told.failures]
    assert all(isinstance(error, BerthError) for error in errors)
    assert "s3same" not in f"{errors} {wrong!r} {wrong.safe_url} {caplog.text}"
