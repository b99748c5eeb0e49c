"""Sessions over RabbitMQ: what a broker and a compromised host can do, and silent ends."""

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.exceptions import AMQPError, ChannelAccessRefused
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from yarl import URL

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.adapters.gateway import wire
from berth.adapters.gateway.broker_names import OPENINGS, GatewayNames, vhost_of
from berth.adapters.gateway.control_pins import ControlPins, pins_path
from berth.adapters.gateway.rabbitmq import broker_connector, client, server
from berth.adapters.gateway.secure_channel import (
    HostHandshake,
    SecureChannel,
    _Kind,
    accept,
    opening_of,
)
from berth.adapters.gateway.session import SessionList
from berth.domain.errors import UnavailableError
from berth.lab import loopback
from berth.lab.certificates import write_certificate
from tests.conformance.gateway.cloud import FarWay, put, until
from tests.conformance.gateway.transports import RabbitTransport
from tests.proxy import proxying
from tests.rabbit import is_own, shell
from tests.unit.adapters.gateway.rig import Agent, Plane, open_plane, vm
from tests.unit.services.wiring import running

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    """Yield a control plane with two hosts that follows its ledger."""
    plane = await open_plane(tmp_path)
    async with running(plane.desk.follower.run):
        yield plane


@pytest.fixture
async def transport(
    plane: Plane, broker: RabbitBroker, tmp_path: Path
) -> AsyncIterator[RabbitTransport]:
    """Yield the transport, started."""
    transport = RabbitTransport(plane.sessions, broker, tmp_path)
    await transport.start()
    yield transport
    await transport.close()


@pytest.fixture
def far(plane: Plane, transport: RabbitTransport) -> FarWay:
    """Return the way of agents over the broker."""
    return FarWay(plane, transport)


@pytest.fixture
def names(broker: RabbitBroker) -> GatewayNames:
    """Return the names on the broker."""
    return GatewayNames(broker.prefix)


@asynccontextmanager
async def channel_of(broker: RabbitBroker) -> AsyncIterator[AbstractChannel]:
    """Open a channel to a broker."""
    connection = await aio_pika.connect(broker.url)
    try:
        yield await connection.channel()
    finally:
        with suppress(AMQPError):
            await connection.close()


async def send(channel: AbstractChannel, exchange: str, key: str, body: bytes) -> None:
    """Publish a message."""
    found = await channel.get_exchange(exchange, ensure=False)
    await found.publish(aio_pika.Message(body), key)


def link_of(transport: RabbitTransport, host: str) -> "server._Link":
    """Return the connection of a host at the gateway."""
    assert transport.brokered is not None
    links = transport.brokered._links.values()
    return next(one for one in links if one.session.host == host)


async def test_the_broker_reads_nothing(
    far: FarWay, transport: RabbitTransport, plane: Plane
) -> None:
    """Neither names of instances nor calls can be seen on the way to and from an agent."""
    transport.proxy.kept = bytearray()
    await put(plane, replace(vm(1), name="secret-name"))
    async with far.joined("host-1") as agent:
        assert agent.seen[vm(1).uuid].name == "secret-name"
        await agent.gateway.standing("host-1", vm(1).uuid)
    seen = bytes(transport.proxy.kept)
    assert len(seen) > 2_000
    for text in (b"secret-name", vm(1).uuid.encode(), b"standing"):
        assert text not in seen


async def test_forged_messages_are_ignored(
    far: FarWay, transport: RabbitTransport, broker: RabbitBroker
) -> None:
    """A client that may publish to both queues of a session can do nothing in it."""
    agent = await far.enrolled("host-1")
    async with far.running(agent), channel_of(broker) as channel:
        link = link_of(transport, "host-1")
        for queue in (link.queue, link.host_queue):
            for body in (b"", wire.encode(wire.Beat()), os.urandom(64), os.urandom(5_000)):
                await send(channel, "", queue, body)
        assert await agent.gateway.instances("host-1") == ()
        assert link_of(transport, "host-1") is link


async def test_a_flood_of_parts_ends_the_session(
    far: FarWay, transport: RabbitTransport, broker: RabbitBroker, names: GatewayNames
) -> None:
    """Empty parts of a frame that never ends count like frames."""
    agent = await far.enrolled("host-1")
    async with far.stream(agent) as stream:
        hello = wire.control_frame_of(await anext(aiter(stream)))
        assert isinstance(hello, wire.Hello)
        signature = agent.key.sign(wire.proof_text("host-1", "s", hello.nonce))
        await stream.send(wire.encode(wire.Proof(wire.PROTOCOL, "host-1", "s", signature)))
        await until(lambda: agent.plane.sessions.by_host)
        secure: SecureChannel = stream._secure  # type: ignore[attr-defined] # the host is hostile
        queue = link_of(transport, "host-1").queue
        async with channel_of(broker) as channel:
            for _ in range(2_500):
                part = secure._sealed(_Kind.PART, b"")
                await send(channel, names.exchange, queue, part)
        await until(lambda: not agent.plane.sessions.by_host)


async def test_a_stranger_can_not_act_as_the_control_plane(
    far: FarWay, transport: RabbitTransport, broker: RabbitBroker, plane: Plane
) -> None:
    """An answer with a key that the host has not pinned is refused; the agent sends no frame."""
    await transport.stop()
    client_opened = asyncio.Event()
    agent = await far.enrolled("host-1")
    own, names = Ed25519PrivateKey.generate(), GatewayNames(broker.prefix)
    taken: list[bytes] = []
    async with channel_of(broker) as channel:
        queue = await channel.get_queue(names.openings)
        mine = await channel.declare_queue("", exclusive=True)
        await mine.bind(names.exchange, mine.name)

        async def answer(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                opening = opening_of(message.body)
                _, body = accept(message.body, opening, mine.name, own.sign, frame_bytes_max=1024)
                await send(channel, "", names.of_host(opening.host, opening.channel), body)
                client_opened.set()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            taken.append(message.body)

        await queue.consume(answer)
        await mine.consume(take)
        async with running(agent.run):
            await asyncio.wait_for(client_opened.wait(), 30)
            await asyncio.sleep(1)
            assert not agent.gateway.is_connected
            assert not taken
    assert not plane.sessions.by_host


async def test_a_flood_of_openings_costs_a_bounded_amount(
    far: FarWay, transport: RabbitTransport, broker: RabbitBroker, plane: Plane
) -> None:
    """Openings that no host has signed leave nothing, and few lines in the log."""
    names = GatewayNames(broker.prefix)
    stranger = Ed25519PrivateKey.generate()
    async with channel_of(broker) as channel:
        for number in range(300):
            forged = HostHandshake(f"host-{number % 3}", stranger.sign, os.urandom).opening
            await send(channel, names.exchange, OPENINGS, forged)
            await send(channel, names.exchange, OPENINGS, os.urandom(100))
        async with far.joined("host-1"):
            assert transport.brokered is not None
            assert len(transport.brokered._links) == 1
    assert 1 <= plane.desk.told.events.count("host_refused") < 60


async def test_an_opening_is_good_for_one_session(
    far: FarWay, transport: RabbitTransport, broker: RabbitBroker, names: GatewayNames
) -> None:
    """A recorded opening begins no second session, and the first one goes on."""
    assert transport.brokered is not None
    recorded: list[bytes] = []
    take = transport.brokered._open

    async def record(channel: object, body: bytes) -> None:
        recorded.append(body)
        await take(channel, body)  # type: ignore[arg-type] # as it is called

    transport.brokered._open = record  # type: ignore[method-assign]
    agent = await far.enrolled("host-1")
    async with far.running(agent), channel_of(broker) as channel:
        link = link_of(transport, "host-1")
        await send(channel, names.exchange, OPENINGS, recorded[0])
        await until(lambda: len(recorded) == 2)
        assert await agent.gateway.instances("host-1") == ()
        assert link_of(transport, "host-1") is link
        assert len(transport.brokered._links) == 1


async def test_a_silent_control_plane_is_given_up(
    far: FarWay, transport: RabbitTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent connects again when nothing has arrived for too long."""
    monkeypatch.setattr(client, "SILENT_S_MAX", 1.0)
    monkeypatch.setattr(client, "ALIVE_S", 0.2)
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        await asyncio.sleep(2)
        assert agent.prepared == 1, "signs of life keep the session open"
        link_of(transport, "host-1")._is_closed = True  # it hears nothing and says nothing
        told = agent.plane.desk.told
        await until(lambda: "gateway_lost" in told.events)
        await until(lambda: agent.prepared > 1 and agent.gateway.is_connected)


async def test_a_silent_agent_is_given_up(
    far: FarWay, transport: RabbitTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway ends the session of an agent whose messages do not arrive any more."""
    monkeypatch.setattr(server, "SILENT_S_MAX", 1.0)
    monkeypatch.setattr(server, "_SWEEP_S", 0.1)
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        transport.proxy.is_silent = True
        await until(lambda: not agent.plane.sessions.by_host)
        transport.proxy.is_silent = False


@pytest.mark.parametrize("is_idle", [True, False])
async def test_a_gateway_that_dies_is_noticed_by_the_next_message(
    far: FarWay,
    transport: RabbitTransport,
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_idle: bool,
) -> None:
    """The broker returns heartbeats and signs of life to a queue that is gone."""
    monkeypatch.setattr(client, "SILENT_S_MAX", 1_000.0)
    monkeypatch.setattr(client, "ALIVE_S", 0.2 if is_idle else 1_000.0)
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        assert transport.brokered is not None
        transport.brokered.finish = _nothing  # type: ignore[method-assign] # it dies without closing sessions
        await transport.stop()
        if not is_idle:
            with suppress(UnavailableError):
                await agent.gateway.heartbeat(["host-1"])
        await until(lambda: "gateway_lost" in plane.desk.told.events)
        await transport.start()
        await until(lambda: agent.gateway.is_connected)


async def test_an_agent_says_when_no_gateway_is_there(
    plane: Plane, broker: RabbitBroker, tmp_path: Path, names: GatewayNames
) -> None:
    """It does not wait for an answer, whether a gateway has ever been connected or not."""
    agent = await plane.agent("host-1")
    pins = ControlPins(tmp_path / "pins")
    pins.save([bytes(32)])
    connect = broker_connector(lambda: broker, "host-1", agent.key.sign, pins)
    with pytest.raises(UnavailableError, match="no gateway is connected"):
        await connect().__aenter__()
    async with channel_of(broker) as channel:
        await channel.declare_exchange(names.exchange, durable=True)
        with pytest.raises(UnavailableError, match="no gateway is connected"):
            await connect().__aenter__()
        await channel.exchange_delete(names.exchange)


async def test_a_wrong_password_is_not_in_the_error(
    far: FarWay, transport: RabbitTransport, plane: Plane
) -> None:
    """The broker refuses the user, and the agent says so without the password."""
    transport.logins["host-1"] = ("guest", "s3same")
    agent = await far.enrolled("host-1")
    with pytest.raises(UnavailableError) as caught:
        await far.stream(agent).__aenter__()
    assert "refused" in str(caught.value).lower()
    assert "s3same" not in str(caught.value)
    assert not plane.sessions.by_host


async def test_tls_to_the_broker_is_verified(
    far: FarWay, plane: Plane, broker: RabbitBroker, tmp_path: Path
) -> None:
    """An agent connects with the CA of the broker, and not with another one."""
    right, wrong = tmp_path / "right.pem", tmp_path / "wrong.pem"
    write_certificate(right, tmp_path / "right.key")
    write_certificate(wrong, tmp_path / "wrong.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(right, tmp_path / "right.key")
    url, key = URL(broker.url), (await far.enrolled("host-1")).key
    pins = ControlPins(pins_path(tmp_path / "host-1.key"))
    async with proxying(url.host or "", url.port or 5672, context) as proxy:
        near = url.with_scheme("amqps").with_host(loopback.HOST).with_port(proxy.port)
        tls = replace(broker, url=str(near), ca_file=wrong)
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await broker_connector(lambda: tls, "host-1", key.sign, pins)().__aenter__()
        trusting = replace(tls, ca_file=right)
        connect = broker_connector(lambda: trusting, "host-1", key.sign, pins)
        async with running(Agent(plane, "host-1", key, connect).run):
            await until(lambda: plane.sessions.by_host)


async def _nothing() -> None:
    """Do nothing."""


async def test_gateways_share_the_openings(
    far: FarWay, transport: RabbitTransport, plane: Plane, broker: RabbitBroker, tmp_path: Path
) -> None:
    """Sessions spread over the processes, and each stays at the process that began it."""
    second = SessionList(plane.sessions.services, plane.desk.clock, plane.desk.told, os.urandom)
    other = RabbitTransport(second, broker, tmp_path)
    await other.start()
    agents = [await far.enrolled(f"host-{number}") for number in range(1, 9)]
    async with running(*(agent.run for agent in agents)):
        await until(lambda: all(agent.views for agent in agents))
        assert len(plane.sessions.by_host) + len(second.by_host) == len(agents)
        assert plane.sessions.by_host
        assert second.by_host
        for agent in agents:
            assert await agent.gateway.instances(agent.host) == ()
    await other.stop()
    await other._stack.aclose()


@pytest.fixture
def restricted(broker: RabbitBroker, names: GatewayNames) -> Iterator[tuple[str, str]]:
    """Yield user and password of host-1, made by the commands that Berth prints."""
    if not is_own(broker):
        pytest.skip("rabbitmqctl may not administer the broker, so it can make no restricted user")
    password = os.urandom(12).hex()
    add, *rest = names.commands("host-1", vhost_of(broker.url))
    shell(add, password + "\n")
    try:
        for command in rest:
            shell(command)
        yield names.user("host-1"), password
    finally:
        shell(f"rabbitmqctl -q delete_user {names.user('host-1')}")


Attempt = Callable[[AbstractChannel, str, GatewayNames], Awaitable[object]]


async def _read_other(channel: AbstractChannel, queue: str, _: GatewayNames) -> object:
    found = await channel.get_queue(queue, ensure=False)
    return await found.get(no_ack=True, fail=False)


async def _read_openings(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    found = await channel.get_queue(names.openings, ensure=False)
    return await found.get(no_ack=True, fail=False)


async def _declare_other(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    return await channel.declare_queue(names.of_host("host-2", bytes(16)), exclusive=True)


async def _declare_longer(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    return await channel.declare_queue(f"{names.of_host('host-1', bytes(16))}.x", exclusive=True)


async def _declare_server_named(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    del names
    return await channel.declare_queue("", exclusive=True)


async def _declare_exchange(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    return await channel.declare_exchange(f"{names.prefix}.x")


async def _bind(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    own = await channel.declare_queue(names.of_host("host-1", bytes(16)), exclusive=True)
    return await own.bind(names.exchange, OPENINGS)


async def _bind_other(channel: AbstractChannel, queue: str, names: GatewayNames) -> object:
    found = await channel.get_queue(queue, ensure=False)
    return await found.bind(names.exchange, OPENINGS)


async def _publish_to_other(channel: AbstractChannel, queue: str, _: GatewayNames) -> object:
    await send(channel, "", queue, b"x")
    return None


async def _publish_command(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    await send(channel, f"{names.prefix}.commands", "x", b"x")
    return None


async def _purge_other(channel: AbstractChannel, queue: str, _: GatewayNames) -> object:
    return await (await channel.get_queue(queue, ensure=False)).purge()


async def _delete_openings(channel: AbstractChannel, _: str, names: GatewayNames) -> object:
    return await channel.queue_delete(names.openings)


ATTEMPTS: list[Attempt] = [
    _read_other,
    _read_openings,
    _declare_other,
    _declare_longer,
    _declare_server_named,
    _declare_exchange,
    _bind,
    _bind_other,
    _publish_to_other,
    _publish_command,
    _purge_other,
    _delete_openings,
]


async def test_the_user_of_a_host_can_do_its_work_and_nothing_else(
    far: FarWay,
    transport: RabbitTransport,
    plane: Plane,
    broker: RabbitBroker,
    restricted: tuple[str, str],
    names: GatewayNames,
) -> None:
    """The agent works with the printed rights; other hosts' and all other queues are closed."""
    transport.logins["host-1"] = restricted
    await put(plane, vm(1))
    one, two = await far.enrolled("host-1"), await far.enrolled("host-2")
    async with channel_of(broker) as channel:
        await channel.declare_exchange(f"{names.prefix}.commands", durable=True)
    async with far.running(one), far.running(two):
        assert set(one.seen) == {vm(1).uuid}
        assert len(await one.gateway.instances("host-1")) == 1
        queue = link_of(transport, "host-2").host_queue
        assert queue in _queues(broker)
        for attempt in ATTEMPTS:
            async with channel_of(transport.near("host-1")) as channel:
                with pytest.raises((ChannelAccessRefused, AMQPError), match=r"(?i)refused"):
                    await attempt(channel, queue, names)
        assert await two.gateway.instances("host-2") == ()


def _queues(broker: RabbitBroker) -> set[str]:
    vhost = vhost_of(broker.url)
    listed = shell(f"rabbitmqctl -q --formatter json list_queues -p {vhost} name")
    return {str(one["name"]) for one in json.loads(listed)}


@pytest.mark.parametrize("host", ["rack1-07", "a.b", "a", "weird host*", "x" * 200, "ä"])
def test_rights_name_one_host(host: str) -> None:
    """The expressions match the queues of the host and not those of hosts with similar names."""
    names = GatewayNames("berth")
    configure, write, read = names.permissions(host)
    queue = names.of_host(host, bytes(range(16)))
    assert len(queue.encode()) < 256
    assert configure == read
    assert re.search(read, queue)
    for other in (f"{host}.{'0' * 32}", f"{host}x", f"x{host}", "aXb", "a.b.c", host.upper()):
        if other != host and names.user(other) != names.user(host):
            assert not re.search(read, names.of_host(other, bytes(range(16))))
    assert re.fullmatch(write, names.exchange)
    assert not re.search(write, names.openings)
    assert not re.search(write, "amq.default")
