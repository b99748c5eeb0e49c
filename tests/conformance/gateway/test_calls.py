"""What the gateway does for an agent, wherever the agent runs."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.server_image import ImageStatus, ServerImage
from berth.domain.compute.step import (
    OTHER_HOST,
    UNKNOWN,
    LeftoverUse,
    StepOutcome,
    StepResult,
)
from berth.domain.errors import (
    ConflictError,
    DriverError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from berth.domain.ledger.write import Put
from berth.ports.gateway import VNC_BYTES_MAX, HostNote, VncRequest, VncStep
from berth.ports.virt import Power
from berth.services.fleet.uptimes import UPTIME, UptimeAsked
from berth.services.servers.diagnostics import DIAGNOSTICS, DiagnosticsAsked
from berth.services.servers.vnc_consoles import VNC
from berth.testing.builders import make_migration, make_take, make_uuid
from tests.conformance.gateway.cloud import Way, put, read_console, until
from tests.unit.adapters.gateway import rig
from tests.unit.adapters.gateway.rig import Plane, vm


def active(number: int = 1, host: str = "host-1") -> Instance:
    """Return an instance that runs on a host."""
    return replace(vm(number, host), status=Status.ACTIVE, task=None)


async def test_a_host_registers_itself(way: Way, plane: Plane) -> None:
    """A new host is added, and a report under the UUID of another host is refused."""
    async with way.joined("host-3") as agent:
        report = await FakeDriver(FakeHost("host-3"), plane.desk.clock).report()
        await agent.gateway.register([report])
        await agent.gateway.report(report)
        other = make_uuid("host", 2)
        forged = replace(
            report,
            host=replace(report.host, uuid=other),
            provider=replace(report.provider, uuid=other),
        )
        with pytest.raises(ConflictError, match="belongs to another host"):
            await agent.gateway.report(forged)
    names = {host.name for host in await plane.desk.ledger.all(Host)}
    assert names == {"host-1", "host-2", "host-3"}


async def test_heartbeats_count(way: Way, plane: Plane) -> None:
    """A heartbeat makes the host alive in the host table, without a version of the ledger."""
    async with way.joined("host-1") as agent:
        version = await plane.desk.ledger.version()
        before_s = plane.desk.replica.hosts.last_seen_s[0]
        await agent.gateway.heartbeat(["host-1"])
        await until(lambda: plane.desk.replica.hosts.last_seen_s[0] > before_s)
        assert await plane.desk.ledger.version() == version


async def test_a_host_sees_its_own_instances_and_no_others(way: Way, plane: Plane) -> None:
    """The first view is complete; later ones have arrivals, changes and departures, in order."""
    await put(plane, vm(1, "host-1"))
    await put(plane, vm(2, "host-2"))
    async with way.joined("host-1") as agent:
        (first,) = agent.views
        assert first.is_complete
        assert [one.uuid for one in first.instances] == [vm(1).uuid]
        await put(plane, vm(3, "host-1"))
        await put(plane, vm(4, "host-2"))
        await put(plane, vm(3, "host-2"))
        last = await put(plane, replace(vm(1, "host-1"), name="renamed"))
        await until(lambda: agent.seen[vm(1).uuid] == last)
        assert set(agent.seen) == {vm(1).uuid, vm(3).uuid}
        assert agent.seen[vm(3).uuid].host == "host-2", "it learns of a departure"
        versions = [view.version for view in agent.views]
        assert versions == sorted(versions)


async def test_a_host_sees_its_moves_with_their_instances(way: Way, plane: Plane) -> None:
    """A move concerns the hosts at both of its ends, and no other."""
    move = make_migration()
    moving = replace(active(), migration_uuid=move.uuid, task=Task.RESIZE_PREP)
    async with way.joined("host-2") as there, way.joined("host-3") as elsewhere:
        await plane.desk.ledger.write(Put(move), Put(moving))
        await until(lambda: moving.uuid in there.seen)
        assert [one.uuid for view in there.views for one in view.migrations] == [move.uuid]
        assert await there.gateway.move("host-2", move.uuid) == move
        assert await elsewhere.gateway.move("host-3", move.uuid) is None
        assert await there.gateway.leftover_move("host-2", move.uuid) is None
        assert not elsewhere.seen


async def test_an_outcome_is_recorded_once_and_only_by_the_host_in_turn(
    way: Way, plane: Plane
) -> None:
    """The host in turn concludes a task; another host, or a repetition, changes nothing."""
    await plane.desk.ledger.write(make_take(1))
    instance = await put(plane, replace(vm(1), task=Task.SPAWNING))
    outcome = StepOutcome(instance.uuid, instance.revision, StepResult.DONE)
    async with way.joined("host-1") as one, way.joined("host-2") as two:
        refused = await two.gateway.conclude("host-2", outcome)
        assert not refused.is_recorded
        assert (await one.gateway.conclude("host-1", outcome)).is_recorded
        again = await one.gateway.conclude("host-1", outcome)
        assert not again.is_recorded
        assert again.standing is not None
        assert again.standing.instance is not None
        assert again.standing.instance.status is Status.ACTIVE
        await until(lambda: one.seen[instance.uuid].status is Status.ACTIVE)


async def test_an_outcome_that_cannot_be_is_refused(way: Way, plane: Plane) -> None:
    """An outcome that the step cannot have is an error with its own type."""
    await plane.desk.ledger.write(make_take(1))
    instance = await put(plane, replace(vm(1), task=Task.SPAWNING))
    outcome = StepOutcome(instance.uuid, instance.revision, StepResult.GUEST_GONE)
    async with way.joined("host-1") as agent:
        with pytest.raises(InvalidInputError):
            await agent.gateway.conclude("host-1", outcome)


async def test_standing_tells_what_concerns_the_host(way: Way, plane: Plane) -> None:
    """The record of an own instance, and of others only that they are elsewhere or unknown."""
    mine, other = await put(plane, active(1)), await put(plane, active(2, "host-2"))
    async with way.joined("host-1") as agent:
        gateway = agent.gateway
        assert (await gateway.standing("host-1", mine.uuid)).instance == mine
        elsewhere = await gateway.standing("host-1", other.uuid)
        assert (elsewhere.instance, elsewhere.where) == (None, OTHER_HOST)
        assert (await gateway.standing("host-1", make_uuid("instance", 9))).where == UNKNOWN
        assert list(await gateway.instances("host-1")) == [mine]


async def test_guest_states_change_own_instances_only(way: Way, plane: Plane) -> None:
    """A stopped guest and one that keeps crashing are recorded, for instances of the host."""
    ledger = plane.desk.ledger
    stopped, crashed = await put(plane, active(1)), await put(plane, active(2))
    other = await put(plane, active(3, "host-2"))
    async with way.joined("host-1") as agent:
        gateway = agent.gateway
        args = ("host-1", stopped.uuid, stopped.revision, Power.STOPPED)
        assert await gateway.report_power(*args) is not None
        assert await gateway.report_power(*args) is None, "it has changed by now"
        assert await gateway.report_crashes(
            "host-1", crashed.uuid, crashed.revision, restarts=5, window_s=60.0
        )
        assert not await gateway.report_crashes(
            "host-1", other.uuid, other.revision, restarts=5, window_s=60.0
        )
    states = [await ledger.get(Instance, one.uuid) for one in (stopped, crashed, other)]
    assert [one and one.status for one in states] == [Status.SHUTOFF, Status.ERROR, Status.ACTIVE]


async def test_leftovers_are_judged(way: Way, plane: Plane) -> None:
    """Disks of an unknown instance may be the only copy; nothing is left to clear."""
    async with way.joined("host-1") as agent:
        unknown = make_uuid("instance", 9)
        verdict = await agent.gateway.judge_leftover("host-1", unknown, address="rbd:pool/disks")
        assert verdict.use is LeftoverUse.UNCLEAR
        await agent.gateway.report_cleared("host-1", make_uuid("migration", 9))
        await agent.gateway.report_image_cleared("host-1", make_uuid("image", 9))


async def test_only_an_image_that_is_gone_is_recorded_as_cleared(way: Way, plane: Plane) -> None:
    """A host cannot delete an image by reporting that its data is gone."""
    ledger, statuses = plane.desk.ledger, (ImageStatus.ACTIVE, ImageStatus.DELETED)
    images = [
        ServerImage(make_uuid("image", n), "x", "p", "u", vm(1).uuid, status=status)
        for n, status in enumerate(statuses)
    ]
    await ledger.commit([tuple(map(Put, images))])
    async with way.joined("host-1") as agent:
        for image in images:
            await agent.gateway.report_image_cleared("host-1", image.image_id)
    found = {one.status: one.is_cleared for one in await ledger.all(ServerImage)}
    assert found == {ImageStatus.ACTIVE: False, ImageStatus.DELETED: True}


async def test_notices_are_saved_with_the_service(way: Way, plane: Plane) -> None:
    """A finding is stored in the record of the service of the host."""
    note = HostNote("guest_missing", vm(1).uuid, "the guest is gone")
    async with way.joined("host-1") as agent:
        await agent.gateway.save_notes("host-1", [note], begins_pass=True)
    service = next(one for one in await plane.desk.ledger.all(Service) if one.host == "host-1")
    assert [one.text for one in service.audit.found] == ["the guest is gone"]


async def test_a_console_is_read_by_the_agent(way: Way, plane: Plane) -> None:
    """The bus brings the request to the process of the session, and the agent answers."""
    async with way.joined("host-1"):
        assert await read_console(plane, "host-1", vm(1).uuid) == f"{vm(1).uuid} 7"


async def test_diagnostics_are_read_by_the_agent(way: Way, plane: Plane) -> None:
    """A query brings back a structure of the agent, or the error of its driver with its type."""
    bus = plane.desk.bus
    async with way.joined("host-1"):
        told = await bus.call(DIAGNOSTICS, DiagnosticsAsked("vm"), timeout_s=5, server="host-1")
        assert told.diagnostics == rig.DIAGNOSTICS
        missing = DiagnosticsAsked("missing")
        with pytest.raises(DriverError, match="does not exist"):
            await bus.call(DIAGNOSTICS, missing, timeout_s=5, server="host-1")
        with pytest.raises(UnsupportedFeatureError):
            await bus.call(UPTIME, UptimeAsked(), timeout_s=5, server="host-1")


async def test_the_screen_of_a_guest_is_not_a_flood(way: Way, plane: Plane) -> None:
    """The answers to more queries than a host may send frames and bytes do not end its session."""
    bus = plane.desk.bus
    sent = VncRequest("vm", VncStep.SEND, number=1, data=b"\x00\xff")
    received = VncRequest("vm", VncStep.RECEIVE, channel="c", number=1)
    async with way.joined("host-1"):
        assert (await bus.call(VNC, sent, timeout_s=5, server="host-1")).data == b"\x00\xff"
        for _ in range(600):
            told = await bus.call(VNC, received, timeout_s=5, server="host-1")
            assert len(told.data) == VNC_BYTES_MAX
