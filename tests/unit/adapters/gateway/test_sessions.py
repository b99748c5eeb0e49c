"""Sessions of agents: who gets in, what a host is told, and what it may do."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from berth.adapters.gateway import wire
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.session import DENIED, MALFORMED, AgentSession
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.step import OTHER_HOST, UNKNOWN, StepOutcome, StepResult
from berth.domain.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidInputError,
    UnavailableError,
)
from berth.domain.ledger.write import Put
from berth.ports.virt import Power
from berth.services.replica.liveness import Liveness
from berth.services.servers.consoles import CONSOLE, ConsoleAsked
from berth.testing.builders import make_take, make_uuid
from tests.unit.adapters.gateway.rig import Agent, Plane, open_plane, vm
from tests.unit.services.wiring import open_second


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    """Return a control plane with two hosts."""
    return await open_plane(tmp_path)


async def put(plane: Plane, instance: Instance) -> Instance:
    """Write an instance at its current revision, and return it."""
    ledger = plane.desk.ledger
    before = await ledger.get(Instance, instance.uuid)
    await ledger.write(Put(replace(instance, revision=before.revision if before else 0)))
    found = await ledger.get(Instance, instance.uuid)
    assert found is not None
    return found


async def test_an_agent_gets_its_own_instances_and_no_others(plane: Plane) -> None:
    """The first view is complete; later ones have arrivals, changes and departures."""
    await put(plane, vm(1, "host-1"))
    await put(plane, vm(2, "host-2"))
    one = await plane.agent("host-1")
    async with plane.running(one):
        assert one.gateway.is_connected
        (view,) = one.views
        assert view.is_complete
        assert [each.uuid for each in view.instances] == [vm(1).uuid]
        await put(plane, vm(3, "host-1"))
        await put(plane, vm(4, "host-2"))
        await asyncio.sleep(2)
        assert set(one.seen) == {vm(1).uuid, vm(3).uuid}
        await put(plane, vm(3, "host-2"))
        await asyncio.sleep(2)
        assert one.seen[vm(3).uuid].host == "host-2"
        told = len(one.views)
        await put(plane, replace(vm(3, "host-2"), name="renamed"))
        await asyncio.sleep(2)
        assert len(one.views) == told, "an instance that has left is no longer told"


async def test_an_agent_knows_its_instances_without_a_call(plane: Plane) -> None:
    """Reconciling a host reads nothing from the ledger: the views have all of its instances."""
    await put(plane, vm(1))
    one = await plane.agent("host-1")
    async with plane.running(one):
        await put(plane, vm(2))
        await put(plane, vm(3))
        await put(plane, vm(3, "host-2"))
        await put(plane, replace(vm(1), status=Status.DELETED))
        await asyncio.sleep(2)
        plane.desk.ledger.reads.clear()
        (found,) = await one.gateway.instances("host-1")
        assert found == await plane.desk.ledger.get(Instance, vm(2).uuid)
        assert len(plane.desk.ledger.reads) == 1
        plane.sessions.by_host["host-1"].end(1000, "again")
        await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        with pytest.raises(UnavailableError):
            await one.gateway.instances("host-1")


async def test_a_change_during_the_first_read_is_not_lost(plane: Plane) -> None:
    """A change that is committed while the view is read arrives in the view or after it."""
    one = await plane.agent("host-1")
    async with plane.running(one):
        for number in range(1, 40):
            await put(plane, vm(number, "host-1"))
            if number % 10 == 0:
                plane.sessions.by_host["host-1"].end(1000, "again")
                await asyncio.sleep(40)
        await asyncio.sleep(60)
        assert len(one.seen) == 39
        assert one.prepared == 4, "the host is registered in each session"


async def test_an_outcome_is_recorded_once_and_only_by_the_host_in_turn(plane: Plane) -> None:
    """The host in turn concludes the task; another host, or a repetition, changes nothing."""
    await plane.desk.ledger.write(make_take(1))
    instance = await put(plane, replace(vm(1), task=Task.SPAWNING))
    one, two = await plane.agent("host-1"), await plane.agent("host-2")
    outcome = StepOutcome(instance.uuid, instance.revision, StepResult.DONE)
    async with plane.running(one, two):
        refused = await two.gateway.conclude("host-2", outcome)
        assert not refused.is_recorded
        assert refused.standing is not None
        assert (refused.standing.instance, refused.standing.where) == (None, OTHER_HOST)
        assert (await one.gateway.conclude("host-1", outcome)).is_recorded
        again = await one.gateway.conclude("host-1", outcome)
        assert not again.is_recorded
        assert again.standing is not None
        assert again.standing.instance is not None
        assert again.standing.instance.status is Status.ACTIVE


async def test_a_host_can_not_touch_what_is_on_another(plane: Plane) -> None:
    """A host learns nothing of other hosts' instances and cannot change them."""
    instance = await put(plane, replace(vm(1, "host-2"), status=Status.ACTIVE, task=None))
    one = await plane.agent("host-1")
    async with plane.running(one):
        gateway, uuid = one.gateway, instance.uuid
        standing = await gateway.standing("host-1", uuid)
        assert (standing.instance, standing.where) == (None, OTHER_HOST)
        assert (await gateway.standing("host-1", make_uuid("instance", 99))).where == UNKNOWN
        power = await gateway.report_power("host-1", uuid, instance.revision, Power.STOPPED)
        assert power is None
        assert not await gateway.report_crashes(
            "host-1", uuid, instance.revision, restarts=5, window_s=60.0
        )
        with pytest.raises(AccessDeniedError):
            await gateway.instances("host-2")
        assert await gateway.instances("host-1") == ()
    assert await plane.desk.ledger.get(Instance, uuid) == instance


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("conclude", ("../../etc",)),
        ("conclude", ({"instance_uuid": "../../etc", "revision": 1, "result": "done"},)),
        ("standing", (5,)),
        ("standing", ()),
        ("report_power", (vm().uuid, "1", None)),
        ("report_crashes", (vm().uuid, 1, 0, 60.0)),
        ("delete_everything", ()),
        ("add_key", ("no key",)),
    ],
)
async def test_malformed_calls_are_refused(plane: Plane, method: str, args: object) -> None:
    """A call with wrong arguments gets an error, and the session goes on."""
    one = await plane.agent("host-1")
    async with plane.running(one):
        assert isinstance(args, tuple)
        with pytest.raises(InvalidInputError):
            await one.gateway.call(method, *args)
        assert await one.gateway.instances("host-1") == ()


async def test_a_report_names_its_own_host(plane: Plane) -> None:
    """A host cannot report another host."""
    one, two = await plane.agent("host-1"), plane.desk.replica.hosts
    async with plane.running(one):
        other = await FakeDriver(FakeHost("host-2"), plane.desk.clock).report()
        with pytest.raises(InvalidInputError, match="session is that of host 'host-1'"):
            await one.gateway.register([other])
    assert len(two) == 2


async def test_a_host_can_not_take_over_another_by_its_uuid(plane: Plane) -> None:
    """A report under the UUID of another host is refused, at the start and later."""
    one = await plane.agent("host-1")
    before = await plane.desk.ledger.get(Host, make_uuid("host", 2))
    async with plane.running(one):
        mine = await FakeDriver(FakeHost("host-1"), plane.desk.clock).report()
        theirs = make_uuid("host", 2)
        forged = replace(
            mine,
            host=replace(mine.host, uuid=theirs),
            provider=replace(mine.provider, uuid=theirs),
        )
        with pytest.raises(ConflictError, match="belongs to another host"):
            await one.gateway.register([forged])
        with pytest.raises(ConflictError, match="belongs to another host"):
            await one.gateway.report(forged)
    assert await plane.desk.ledger.get(Host, make_uuid("host", 2)) == before


async def test_heartbeats_are_shared_in_batches_without_a_version(plane: Plane) -> None:
    """One report has those of all hosts, and another process learns them from it."""
    agents = [await plane.agent("host-1"), await plane.agent("host-2")]
    other = await open_second(plane.desk)
    told, gateway = other.told, make_uuid("gateway", 3)
    reader = Liveness(other.ledger, other.replica, other.clock, told, gateway=gateway)
    async with plane.running(*agents):
        before = await plane.desk.ledger.version()
        await asyncio.sleep(100)
        for agent in agents:
            await agent.gateway.heartbeat([agent.host])
        now_s = plane.desk.clock.now_s()
        assert plane.desk.replica.hosts.last_seen_s.tolist() == [now_s, now_s]
        await plane.liveness.share()
        await reader.share()
        assert other.replica.hosts.last_seen_s.tolist() == [now_s, now_s]
        assert await plane.desk.ledger.version() == before
        services = await plane.desk.hosts.services()
        assert [service.last_seen_s for service in services] == [now_s, now_s]


async def test_a_record_of_the_ledger_does_not_hide_a_heartbeat(plane: Plane) -> None:
    """An operator's change of a service, and a new snapshot, leave the last heartbeat in force."""
    plane.liveness.note("host-1")
    now_s = plane.desk.clock.now_s()
    await plane.desk.hosts.set_service("host-1", disabled=True)
    await plane.desk.follower.catch_up()
    service = plane.desk.replica.hosts.services.get("host-1")
    assert service is not None
    assert (service.disabled, service.last_seen_s) == (True, now_s)
    await plane.desk.follower.start()
    service = plane.desk.replica.hosts.services.get("host-1")
    assert service is not None
    assert service.last_seen_s == now_s


async def test_a_console_is_read_through_the_session(plane: Plane) -> None:
    """The bus brings the request to the process with the session, and the agent answers."""
    one = await plane.agent("host-1")
    async with plane.running(one):
        asked = ConsoleAsked(vm().uuid, 7)
        told = await plane.desk.bus.call(CONSOLE, asked, timeout_s=5, server="host-1")
        assert told.text == f"{vm().uuid} 7"
    with pytest.raises(UnavailableError):
        await plane.desk.bus.call(CONSOLE, asked, timeout_s=5, server="host-1")


async def test_a_wrong_key_does_not_get_in(plane: Plane, tmp_path: Path) -> None:
    """A key that is not the host's, or a host without identity, is refused."""
    await plane.agent("host-1")
    stranger = HostKeyFile.create(tmp_path / "stranger.key")
    for host in ("host-1", "host-2", "nowhere"):
        agent = Agent(plane, host, stranger)
        async with plane.running(agent):
            assert not agent.gateway.is_connected
            with pytest.raises(UnavailableError):
                await agent.gateway.instances(host)
    assert plane.desk.told.events.count("host_refused") >= 3


async def test_revoking_a_key_ends_the_session(plane: Plane) -> None:
    """The session ends as soon as the feed brings the revocation, and no new one begins."""
    one = await plane.agent("host-1")
    async with plane.running(one):
        await plane.identities.revoke("host-1")
        await asyncio.sleep(1)
        await asyncio.sleep(60)
        assert not one.gateway.is_connected
        assert not plane.sessions.by_host


async def test_a_key_is_rotated_without_a_gap(plane: Plane) -> None:
    """The agent makes a new key, uses it in its next session, and the old one becomes invalid."""
    one = await plane.agent("host-1")
    old = one.key.public_key
    async with plane.running(one):
        await plane.identities.rotate("host-1")
        await asyncio.sleep(1)
        await asyncio.sleep(10)
        assert one.gateway.is_connected
        assert one.key.public_key != old
        identity = plane.identities.by_host.get("host-1")
        assert identity is not None
        assert len(identity.keys) == 1
        assert not identity.rotates
        assert not plane.identities.is_valid("host-1", old)
        assert plane.identities.is_valid("host-1", one.key.public_key)


async def test_a_token_is_good_for_one_key_and_for_its_time(plane: Plane) -> None:
    """A used, wrong or expired token is refused."""
    identities = plane.identities
    key = HostKeyFile.create(plane.folder / "k").public_key
    token = await identities.enroll("host-1", life_s=10)
    with pytest.raises(AccessDeniedError):
        await identities.redeem("host-1", token + "x", key)
    with pytest.raises(AccessDeniedError):
        await identities.redeem("host-2", token, key)
    with pytest.raises(InvalidInputError):
        await identities.redeem("host-1", token, "AAAA")
    await identities.redeem("host-1", token, key)
    with pytest.raises(AccessDeniedError):
        await identities.redeem("host-1", token, key)
    token = await identities.enroll("host-1", life_s=10)
    await asyncio.sleep(11)
    with pytest.raises(AccessDeniedError):
        await identities.redeem("host-1", token, key)
    await plane.desk.follower.catch_up()
    assert identities.is_valid("host-1", key), "a token that is not used leaves the key valid"


async def test_an_agent_knows_how_long_the_control_plane_was_silent(plane: Plane) -> None:
    """The silence is endless at first, short during a session, and grows after it."""
    agent = await plane.agent("host-1")
    assert agent.gateway.silent_s() == float("inf")
    async with plane.running(agent):
        for _ in range(10):
            await asyncio.sleep(10)
            await agent.gateway.heartbeat(["host-1"])
            assert agent.gateway.silent_s() <= 30
    await asyncio.sleep(200)
    assert agent.gateway.silent_s() >= 200


async def test_a_newer_session_replaces_the_older(plane: Plane) -> None:
    """Two agents with one key take turns, and never both have a session."""
    one = await plane.agent("host-1")
    two = Agent(plane, "host-1", one.key)
    async with plane.running(one, two):
        assert len(plane.sessions.by_host) == 1
        assert one.gateway.is_connected != two.gateway.is_connected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        bytes(range(64)),
        wire.encode(wire.Beat()),
        wire.encode(wire.Watch()),
        b"\x93\x01",
    ],
)
async def test_nothing_comes_before_the_proof(plane: Plane, data: bytes) -> None:
    """A session that does not begin with a proof ends."""
    closed: list[int] = []
    session = AgentSession(plane.sessions, lambda _: None, lambda code, _: closed.append(code))
    session.begin()
    session.receive(data)
    assert closed == [MALFORMED]
    session.receive(data)
    assert closed == [MALFORMED]


def _note(closed: list[int], code: int, _: str) -> None:
    closed.append(code)


async def test_a_signature_is_good_for_one_session(plane: Plane) -> None:
    """A recorded proof is refused in another session, since the nonce differs."""
    one = await plane.agent("host-1")
    proofs: list[bytes] = []
    for _ in range(2):
        sent: list[bytes] = []
        closed: list[int] = []
        session = AgentSession(plane.sessions, sent.append, partial(_note, closed))
        session.begin()
        hello = wire.control_frame_of(sent[0])
        assert isinstance(hello, wire.Hello)
        if not proofs:
            signature = one.key.sign(wire.proof_text("host-1", "s", hello.nonce))
            proofs.append(wire.encode(wire.Proof(wire.PROTOCOL, "host-1", "s", signature)))
            session.receive(proofs[0])
            assert not closed
            session.ended()
        else:
            session.receive(proofs[0])
            assert closed == [DENIED]


async def test_a_flood_ends_the_session(plane: Plane) -> None:
    """A host that sends more than its share is cut off."""
    one = await plane.agent("host-1")
    async with plane.running(one):
        frames = 0
        while one.gateway.is_connected and frames < 5_000:
            frames += 1
            with suppress(UnavailableError):
                await one.gateway.call("standing", vm().uuid)
        assert 1_000 < frames < 3_000
        assert "host_session_ended" in plane.desk.told.events
