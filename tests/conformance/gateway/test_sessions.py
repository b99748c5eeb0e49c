"""Sessions over each transport: proofs, order, limits, breaks, and the end of a process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import pytest

from berth.adapters.gateway import wire
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.remote import FrameStream
from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.step import StepOutcome, StepResult
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.ledger.write import Put
from berth.services.fleet.uptimes import read_uptime
from berth.testing.builders import make_take
from tests.conformance.gateway.cloud import FarWay, put, read_console, repeated, until
from tests.unit.adapters.gateway.rig import Agent, Plane, vm
from tests.unit.services.wiring import running

_KIB = 1024
_MIB = 1024 * 1024


@dataclass
class Raw:
    """A connection of an agent that sends single frames."""

    stream: FrameStream
    frames: AsyncIterator[bytes]

    async def take(self) -> wire.ControlFrame:
        """Return the next frame from the control plane.

        Raises:
            StopAsyncIteration: the connection is closed.
        """
        async with asyncio.timeout(60):
            return wire.control_frame_of(await anext(self.frames))

    async def ended(self) -> None:
        """Wait until the connection is closed; frames that still arrive are ignored."""
        async with asyncio.timeout(60):
            async for _ in self.frames:
                pass


@asynccontextmanager
async def raw(far: FarWay, agent: Agent) -> AsyncGenerator[Raw]:
    """Open a connection of an agent and prove the identity of its host."""
    async with far.stream(agent) as stream:
        end = Raw(stream, aiter(stream))
        hello = await end.take()
        assert isinstance(hello, wire.Hello)
        signature = agent.key.sign(wire.proof_text(agent.host, "s", hello.nonce))
        proof = wire.Proof(wire.PROTOCOL, agent.host, "s", signature)
        await stream.send(wire.encode(proof))
        assert isinstance(await end.take(), wire.Welcome)
        yield end


def call_of_size(size: int) -> bytes:
    """Return a frame of exactly `size` bytes, which calls an unknown method."""
    room = size - len(wire.encode(wire.Call(1, "none", wire.raw(b"x" * _MIB)))) + _MIB
    data = wire.encode(wire.Call(1, "none", wire.raw(b"x" * room)))
    assert len(data) == size
    return data


async def flood(stream: FrameStream) -> None:
    """Send far more frames than a host may."""
    beat = wire.encode(wire.Beat())
    for _ in range(20_000):
        await stream.send(beat)
        await asyncio.sleep(0)


async def test_a_wrong_key_does_not_get_in(far: FarWay, plane: Plane) -> None:
    """Neither a key that is not the host's nor a host without an identity is let in."""
    await far.enrolled("host-1")
    stranger = HostKeyFile.create(plane.folder / "stranger.key")
    for host in ("host-1", "nowhere"):
        agent = Agent(plane, host, stranger, far.transport.connect(host, stranger))
        async with running(agent.run):
            await until(lambda: "gateway_lost" in plane.desk.told.events)
            assert not agent.gateway.is_connected
        plane.desk.told.events.clear()
    assert not plane.sessions.by_host


async def test_a_revoked_key_ends_the_session(far: FarWay, plane: Plane) -> None:
    """The session ends when the feed brings the revocation, and no new one begins."""
    plane.identities.changed = plane.sessions.check_keys
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        await plane.identities.revoke("host-1")
        await until(lambda: not agent.gateway.is_connected)
        lost = plane.desk.told.events.count("gateway_lost")
        await until(lambda: plane.desk.told.events.count("gateway_lost") > lost)
        assert not agent.gateway.is_connected
        assert not plane.sessions.by_host


async def test_a_key_is_rotated_in_a_new_session(far: FarWay, plane: Plane) -> None:
    """The agent makes a new key and proves itself with it; the old key becomes invalid."""
    plane.identities.changed = plane.sessions.check_keys
    agent = await far.enrolled("host-1")
    old = agent.key.public_key
    async with far.running(agent):
        await plane.identities.rotate("host-1")
        await until(lambda: plane.identities.is_valid("host-1", agent.key.public_key))
        await until(lambda: not plane.identities.is_valid("host-1", old))
        await until(lambda: agent.gateway.is_connected)


async def test_a_newer_session_replaces_the_older(far: FarWay, plane: Plane) -> None:
    """A host has one session; the older one ends with a reason."""
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as older, raw(far, agent) as newer:
        await older.ended()
        assert "newer session" in older.stream.close_reason
        await newer.stream.send(wire.encode(wire.Beat(wants_echo=True)))
        assert isinstance(await newer.take(), wire.Beat)
        assert len(plane.sessions.by_host) == 1


async def test_an_agent_that_has_left_is_forgotten(far: FarWay, plane: Plane) -> None:
    """The session ends with its connection, and nothing is sent to the host any more."""
    async with far.joined("host-1"):
        assert "host-1" in plane.sessions.by_host
    await until(lambda: not plane.sessions.by_host)
    with pytest.raises(UnavailableError):
        await read_console(plane, "host-1", vm(1).uuid)


async def test_many_calls_at_once_have_their_own_replies(far: FarWay, plane: Plane) -> None:
    """Sixty calls in progress are served at once, and each gets its own reply."""
    wanted = [await put(plane, vm(number)) for number in range(1, 61)]
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        calls = [agent.gateway.standing("host-1", one.uuid) for one in wanted]
        found = await asyncio.gather(*calls)
    assert [one.instance for one in found] == wanted


async def test_changes_arrive_in_order_and_complete(far: FarWay, plane: Plane) -> None:
    """Each of three hundred changes of one instance arrives, none twice and none early."""
    agent = await far.enrolled("host-1")
    last = vm(1)
    async with far.running(agent):
        for number in range(300):
            last = await put(plane, replace(vm(1), name=f"vm-{number}"))
        await until(lambda: agent.seen.get(last.uuid) == last)
    revisions = [one.revision for view in agent.views for one in view.instances]
    assert revisions == sorted(set(revisions))


async def test_a_large_view_arrives_whole(far: FarWay, plane: Plane) -> None:
    """A complete view of several MiB arrives as one frame."""
    blob = {f"key-{number}": "x" * 250 for number in range(60)}
    instances = [replace(vm(number), metadata=blob) for number in range(1, 301)]
    await plane.desk.ledger.write(*(Put(one) for one in instances))
    async with far.joined("host-1") as agent:
        (view,) = agent.views
        assert len(view.instances) == len(instances)
        assert len(wire.encode(wire.View(view))) > 4 * _MIB


async def test_a_frame_of_the_largest_size_is_taken(far: FarWay) -> None:
    """A frame of exactly 1 MiB is handled, and the session goes on."""
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as end:
        await end.stream.send(call_of_size(wire.AGENT_FRAME_BYTES_MAX))
        reply = await end.take()
        assert isinstance(reply, wire.Reply)
        assert reply.failure is not None
        await end.stream.send(wire.encode(wire.Beat(wants_echo=True)))
        assert isinstance(await end.take(), wire.Beat)


async def test_a_larger_frame_ends_the_session(far: FarWay, plane: Plane) -> None:
    """A frame of one byte more is refused with the end of the session."""
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as end:
        with suppress(UnavailableError):  # the session may end before all of the frame is sent
            await end.stream.send(call_of_size(wire.AGENT_FRAME_BYTES_MAX + 1))
        await end.ended()
        await until(lambda: not plane.sessions.by_host)


async def test_a_malformed_frame_ends_the_session(far: FarWay, plane: Plane) -> None:
    """Bytes that are no frame end the session with a reason."""
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as end:
        await end.stream.send(b"\xc1")
        await end.ended()
        assert "4400" in end.stream.close_reason
        await until(lambda: not plane.sessions.by_host)


async def test_a_flood_ends_the_session(far: FarWay, plane: Plane) -> None:
    """An agent that sends more than its share is cut off."""
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as end:
        with pytest.raises(UnavailableError):
            await flood(end.stream)
        await end.ended()
        await until(lambda: not plane.sessions.by_host)
    assert "host_session_ended" in plane.desk.told.events


async def test_a_slow_reader_loses_nothing(far: FarWay, plane: Plane) -> None:
    """Views wait for an agent that does not read for a while, and arrive in order."""
    last = await put(plane, replace(vm(1), name="vm"))
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as end:
        await end.stream.send(wire.encode(wire.Watch()))
        assert isinstance(await end.take(), wire.View)
        blob = {f"key-{number}": "x" * 250 for number in range(200)}
        for number in range(200):
            last = await put(plane, replace(vm(1), name=f"vm-{number}", metadata=blob))
        await plane.desk.follower.catch_up()
        told: list[Instance] = []
        while not told or told[-1] != last:
            frame = await end.take()
            assert isinstance(frame, wire.View)
            told += frame.view.instances
        assert [one.revision for one in told] == sorted({one.revision for one in told})
        await end.stream.send(wire.encode(wire.Call(1, "instances", wire.raw(()))))
        reply = await end.take()
        assert isinstance(reply, wire.Reply)
        assert msgspec.msgpack.decode(reply.value, type=tuple[Instance, ...]) == (last,)


async def test_a_break_is_repaired_with_a_complete_view(far: FarWay, plane: Plane) -> None:
    """After a break the agent registers again and gets what it has missed."""
    await put(plane, vm(1))
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        for number in range(2, 5):
            agent.views.clear()
            await far.transport.cut()
            missed = await put(plane, vm(number))
            await until(partial(_has, agent, missed))
            assert agent.views[0].is_complete
        found = await repeated(lambda: agent.gateway.instances("host-1"), UnavailableError)
        assert isinstance(found, tuple)
        assert len(found) == 4
        assert agent.prepared == 4, "the host is registered in each session"


def _has(agent: Agent, instance: Instance) -> bool:
    return instance.uuid in agent.seen


async def test_a_gateway_that_stops_in_a_call_loses_no_outcome(far: FarWay, plane: Plane) -> None:
    """The call fails, the agent connects to the next process, and repeats the outcome."""
    await plane.desk.ledger.write(make_take(1))
    instance = await put(plane, replace(vm(1), task=Task.SPAWNING))
    outcome = StepOutcome(instance.uuid, instance.revision, StepResult.DONE)
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        plane.desk.ledger.gate = asyncio.Event()
        call = asyncio.create_task(agent.gateway.conclude("host-1", outcome))
        await asyncio.sleep(0.2)
        assert not call.done()
        await far.transport.stop()
        with pytest.raises(UnavailableError):
            await call
        await until(lambda: not plane.sessions.by_host)
        with pytest.raises(UnavailableError):
            await agent.gateway.instances("host-1")
        plane.desk.ledger.gate.set()
        await far.transport.start()
        await until(lambda: agent.gateway.is_connected)
        await repeated(lambda: agent.gateway.conclude("host-1", outcome), UnavailableError)
    found = await plane.desk.ledger.get(Instance, instance.uuid)
    assert found is not None
    assert found.task is None


async def test_errors_keep_their_types(far: FarWay) -> None:
    """An error of the gateway is raised by the call of the agent, and the session goes on."""
    agent = await far.enrolled("host-1")
    async with far.running(agent):
        with pytest.raises(InvalidInputError):
            await agent.gateway.call("delete_everything")
        assert await agent.gateway.instances("host-1") == ()


async def test_an_agent_of_the_previous_version_has_no_uptime(far: FarWay, plane: Plane) -> None:
    """It answers each query like one for a console, which is no answer to any other query."""
    agent = await far.enrolled("host-1")
    async with raw(far, agent) as end:
        await end.stream.send(wire.encode(wire.Watch()))
        assert isinstance(await end.take(), wire.View)
        asking = asyncio.create_task(read_uptime(plane.desk.bus, "host-1"))
        ask = await end.take()
        assert isinstance(ask, wire.Ask)
        await end.stream.send(msgspec.msgpack.encode([9, ask.number, None, "a console"]))
        with pytest.raises(UnavailableError, match="invalid answer"):
            await asking
