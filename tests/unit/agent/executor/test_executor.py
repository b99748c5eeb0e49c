"""Building: what one agent does with one instance, and what it leaves behind."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.executor.executor import CARRIED_OUT
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import HOST_TASKS
from berth.domain.errors import UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Usage
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Free, Put, Unit
from berth.testing.builders import make_instance, make_server_group, make_take
from tests.unit.services.wiring import Desk, open_desk

VM = replace(make_instance(1, host="host-1"), task=Task.SPAWNING)


class Rig:
    """One host's building, and the instance that it works on."""

    def __init__(self, desk: Desk, fake: FakeHost, attempts_max: int) -> None:
        self.ledger = desk.ledger
        self.driver = FakeDriver(fake, desk.clock)
        bench = HostContext("host-1", desk.ledger, self.driver, desk.clock, attempts_max)
        self.work = HostExecutor(bench)

    async def now(self) -> Instance:
        """Return the instance as the ledger has it."""
        instance = await self.ledger.get(Instance, VM.uuid)
        assert instance is not None
        return instance

    async def used(self) -> int:
        """Return the VCPUs that the ledger counts as used."""
        return (await self.ledger.used(1)).get(VCPU, 0)


async def open_bench(
    instance: Instance = VM, *, fake: FakeHost | None = None, attempts_max: int = 3
) -> Rig:
    """Put an instance with its room on `host-1`."""
    desk = await open_desk()
    await desk.ledger.write(make_take(1), Put(instance))
    return Rig(desk, fake or FakeHost("host-1"), attempts_max)


async def test_a_spawning_instance_is_started() -> None:
    """It becomes active, with the time of its launch."""
    bench = await open_bench()
    revision = await bench.work.carry_out(await bench.now())
    now = await bench.now()
    assert (now.status, now.task, now.revision) == (Status.ACTIVE, None, revision)
    assert now.launched_at_s is not None
    assert await bench.driver.running() == [VM.uuid]


async def test_a_deleting_instance_is_stopped_and_its_room_freed() -> None:
    """Both in one unit: nobody sees a deleted instance that holds room."""
    bench = await open_bench(replace(VM, status=Status.ACTIVE, task=Task.DELETING))
    await bench.driver.spawn(VM)
    before = await bench.ledger.version()
    await bench.work.carry_out(await bench.now())
    now = await bench.now()
    assert (now.status, now.task) == (Status.DELETED, None)
    assert now.terminated_at_s is not None
    assert (await bench.used(), await bench.driver.running()) == (0, [])
    assert await bench.ledger.version() == before + 1


async def test_a_failed_build_is_tried_elsewhere() -> None:
    """Room freed, host left, and a request that spares it: all in one unit."""
    bench = await open_bench(
        replace(
            VM,
            group_uuid=make_server_group().uuid,
            requested_zone="az",
            alternates=(("host-1", "host-1"), ("host-2", "host-2")),
        ),
        fake=FakeHost("host-1", fails=True),
    )
    before = await bench.ledger.version()
    await bench.work.carry_out(await bench.now())
    now = await bench.now()
    assert (now.task, now.host, now.node) == (Task.SCHEDULING, None, None)
    assert now.retried == (("host-1", "host-1"),)
    assert await bench.used() == 0
    changes = await bench.ledger.changes(before)
    at_once = {type(change.event) for change in changes if change.version == before + 1}
    assert at_once == {Usage, Instance, PendingRequest}
    pending = await bench.ledger.get(PendingRequest, "req-1.0.1")
    assert pending is not None
    assert pending.request.instance_uuids == (VM.uuid,)
    assert pending.request.retried == now.retried
    assert pending.request.alternates == (("host-2", "host-2"),)
    assert pending.request.group_uuid == now.group_uuid
    assert pending.request.availability_zone == "az"


@pytest.mark.parametrize(
    "instance",
    [
        replace(VM, retried=(("host-8", "host-8"), ("host-9", "host-9"))),
        replace(VM, forced=True),
    ],
)
async def test_the_last_failed_build_is_an_error(instance: Instance) -> None:
    """After the last attempt, or on a host that was named by force, its owner is told."""
    bench = await open_bench(instance, fake=FakeHost("host-1", fails=True))
    await bench.work.carry_out(await bench.now())
    now = await bench.now()
    assert (now.status, now.task, now.host) == (Status.ERROR, None, None)
    assert now.fault is not None
    assert "The build failed on" in now.fault.message
    assert "host-1" not in now.fault.message, "owners do not learn the names of hosts"
    assert "set to fail" in now.fault.details
    assert await bench.used() == 0
    assert await bench.ledger.all(PendingRequest) == []


async def test_a_delete_during_a_build_is_carried_out_after_it() -> None:
    """The outcome of the build is refused, and the instance is stopped again."""
    bench = await open_bench(fake=FakeHost("host-1", spawn_s=5.0))
    work = asyncio.create_task(bench.work.carry_out(await bench.now()))
    await asyncio.sleep(1)
    await bench.ledger.write(Put(replace(await bench.now(), task=Task.DELETING)))
    await work
    assert (await bench.now()).status is Status.DELETED
    assert (await bench.used(), await bench.driver.running()) == (0, [])


async def test_a_delete_during_a_build_that_fails_is_carried_out() -> None:
    """The instance is not scheduled once more."""
    bench = await open_bench(fake=FakeHost("host-1", spawn_s=5.0, fails=True))
    work = asyncio.create_task(bench.work.carry_out(await bench.now()))
    await asyncio.sleep(1)
    await bench.ledger.write(Put(replace(await bench.now(), task=Task.DELETING)))
    await work
    assert (await bench.now()).status is Status.DELETED
    assert (await bench.used(), await bench.ledger.all(PendingRequest)) == (0, [])


async def test_a_change_during_a_build_is_kept() -> None:
    """The build goes on from what the ledger has."""
    bench = await open_bench(fake=FakeHost("host-1", spawn_s=5.0))
    work = asyncio.create_task(bench.work.carry_out(await bench.now()))
    await asyncio.sleep(1)
    await bench.ledger.write(Put(replace(await bench.now(), name="other")))
    await work
    now = await bench.now()
    assert (now.status, now.name) == (Status.ACTIVE, "other")


@pytest.mark.parametrize("task", [Task.SPAWNING, Task.DELETING])
async def test_a_repeated_event_does_no_harm(task: Task) -> None:
    """What is told again after it was done changes nothing."""
    bench = await open_bench(replace(VM, task=task))
    old = await bench.now()
    await bench.work.carry_out(old)
    after, running = await bench.now(), await bench.driver.running()
    await bench.work.carry_out(old)
    assert (await bench.now(), await bench.driver.running()) == (after, running)


async def test_what_was_started_for_an_instance_elsewhere_is_stopped() -> None:
    """An old event starts nothing on a host that the instance has left."""
    bench = await open_bench()
    old = await bench.now()
    moved = replace(old, host="host-2", node="host-2")
    await bench.ledger.write(Free(VM.uuid), Put(moved))
    await bench.work.carry_out(old)
    assert await bench.driver.running() == []
    assert (await bench.now()).host == "host-2"


async def test_what_was_started_for_a_deleted_instance_is_stopped() -> None:
    """A deleted instance names its last host, and does not run there."""
    bench = await open_bench()
    old = await bench.now()
    await bench.ledger.write(Free(VM.uuid), Put(replace(old, status=Status.DELETED, task=None)))
    await bench.work.carry_out(old)
    assert await bench.driver.running() == []


async def test_a_lost_answer_is_found_out_before_anything_is_done_again() -> None:
    """After a failed build nobody heard of, the instance may be starting elsewhere."""
    bench = await open_bench(fake=FakeHost("host-1", fails=True))
    old = await bench.now()
    bench.ledger.silent = 1
    with pytest.raises(UnavailableError):
        await bench.work.carry_out(old)
    started: list[str] = []
    healed = FakeDriver(FakeHost("host-1"), Desk(bench.ledger).clock)

    async def start(units: Sequence[Unit]) -> None:
        started.extend(await healed.running())

    bench.ledger.before_commit = start
    work = HostExecutor(HostContext("host-1", bench.ledger, healed, Desk(bench.ledger).clock))
    revision = await work.carry_out(old, in_doubt=True)
    assert (started, await healed.running()) == ([], [])
    now = await bench.now()
    assert (now.task, now.revision) == (Task.SCHEDULING, revision)


async def test_an_active_instance_is_made_to_run() -> None:
    """A machine that was switched off runs again what the ledger says; nothing is written."""
    bench = await open_bench(replace(VM, status=Status.ACTIVE, task=None))
    before = await bench.ledger.version()
    await bench.work.carry_out(await bench.now(), in_doubt=True)
    assert await bench.driver.running() == [VM.uuid]
    assert await bench.ledger.version() == before


async def test_an_active_instance_that_does_not_start_stays_active() -> None:
    """Whoever asked is told; it is not built elsewhere, since its data is here."""
    active = replace(VM, status=Status.ACTIVE, task=None)
    bench = await open_bench(active, fake=FakeHost("host-1", fails=True))
    with pytest.raises(BuildError):
        await bench.work.carry_out(await bench.now())
    assert (await bench.now()).status is Status.ACTIVE


def test_every_task_of_a_host_has_a_handler() -> None:
    """The audit and the agent agree on which tasks an agent carries out."""
    assert CARRIED_OUT == HOST_TASKS
