"""The executor: its work on one instance, and the state that it leaves."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.executor.executor import CARRIED_OUT
from berth.agent.executor.power import change_power
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import HOST_TASKS
from berth.domain.errors import DriverError, UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Usage
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Free, Put, Unit
from berth.testing.builders import make_instance, make_server_group, make_take
from tests.unit.services.wiring import Desk, open_desk

VM = replace(make_instance(1, host="host-1"), task=Task.SPAWNING)


class Rig:
    """The executor of one host, and the instance that it works on."""

    def __init__(self, desk: Desk, fake: FakeHost, attempts_max: int) -> None:
        self.ledger = desk.ledger
        self.driver = FakeDriver(fake, desk.clock)
        gateway = desk.gateway(attempts_max=attempts_max)
        self.context = HostContext("host-1", gateway, self.driver, desk.clock)
        self.work = HostExecutor(self.context)

    async def now(self) -> Instance:
        """Return the instance from the ledger."""
        instance = await self.ledger.get(Instance, VM.uuid)
        assert instance is not None
        return instance

    async def used(self) -> int:
        """Return the VCPUs that are used in the ledger."""
        return (await self.ledger.used(1)).get(VCPU, 0)


async def open_bench(
    instance: Instance = VM, *, fake: FakeHost | None = None, attempts_max: int = 3
) -> Rig:
    """Return a rig whose ledger has the instance and its claim on `host-1`."""
    desk = await open_desk()
    await desk.ledger.write(make_take(1), Put(instance))
    return Rig(desk, fake or FakeHost("host-1"), attempts_max)


async def test_a_spawning_instance_is_started() -> None:
    """The instance becomes active and has a launch time."""
    bench = await open_bench()
    revision = await bench.work.carry_out(await bench.now())
    now = await bench.now()
    assert (now.status, now.task, now.revision) == (Status.ACTIVE, None, revision)
    assert now.launched_at_s is not None
    assert await bench.driver.running() == [VM.uuid]


async def test_a_deleting_instance_is_stopped_and_its_room_freed() -> None:
    """One unit deletes the instance and frees its room."""
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
    """One unit frees the room and writes a pending request that excludes the host."""
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
    """After the last attempt, or on a forced host, the instance is in ERROR with a fault."""
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
    """The ledger refuses the outcome of the build, and the instance is deleted."""
    bench = await open_bench(fake=FakeHost("host-1", spawn_s=5.0))
    work = asyncio.create_task(bench.work.carry_out(await bench.now()))
    await asyncio.sleep(1)
    await bench.ledger.write(Put(replace(await bench.now(), task=Task.DELETING)))
    await work
    assert (await bench.now()).status is Status.DELETED
    assert (await bench.used(), await bench.driver.running()) == (0, [])


async def test_a_delete_during_a_build_that_fails_is_carried_out() -> None:
    """The instance is deleted and not scheduled again."""
    bench = await open_bench(fake=FakeHost("host-1", spawn_s=5.0, fails=True))
    work = asyncio.create_task(bench.work.carry_out(await bench.now()))
    await asyncio.sleep(1)
    await bench.ledger.write(Put(replace(await bench.now(), task=Task.DELETING)))
    await work
    assert (await bench.now()).status is Status.DELETED
    assert (await bench.used(), await bench.ledger.all(PendingRequest)) == (0, [])


async def test_a_change_during_a_build_is_kept() -> None:
    """A change made during the build remains after it."""
    bench = await open_bench(fake=FakeHost("host-1", spawn_s=5.0))
    work = asyncio.create_task(bench.work.carry_out(await bench.now()))
    await asyncio.sleep(1)
    await bench.ledger.write(Put(replace(await bench.now(), name="other")))
    await work
    now = await bench.now()
    assert (now.status, now.name) == (Status.ACTIVE, "other")


@pytest.mark.parametrize("task", [Task.SPAWNING, Task.DELETING])
async def test_a_repeated_event_does_no_harm(task: Task) -> None:
    """Carrying out the same event again changes nothing."""
    bench = await open_bench(replace(VM, task=task))
    old = await bench.now()
    await bench.work.carry_out(old)
    after, running = await bench.now(), await bench.driver.running()
    await bench.work.carry_out(old)
    assert (await bench.now(), await bench.driver.running()) == (after, running)


async def test_what_was_started_for_an_instance_elsewhere_is_stopped() -> None:
    """An old event starts no guest on a host that the instance has left."""
    bench = await open_bench()
    old = await bench.now()
    moved = replace(old, host="host-2", node="host-2")
    await bench.ledger.write(Free(VM.uuid), Put(moved))
    await bench.work.carry_out(old)
    assert await bench.driver.running() == []
    assert (await bench.now()).host == "host-2"


async def test_what_was_started_for_a_deleted_instance_is_stopped() -> None:
    """An old event starts no guest for a deleted instance, which still names its last host."""
    bench = await open_bench()
    old = await bench.now()
    await bench.ledger.write(Free(VM.uuid), Put(replace(old, status=Status.DELETED, task=None)))
    await bench.work.carry_out(old)
    assert await bench.driver.running() == []


async def test_a_lost_answer_is_found_out_before_anything_is_done_again() -> None:
    """After a lost answer, the agent reads the instance first and does not start it again."""
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
    desk = Desk(bench.ledger)
    work = HostExecutor(HostContext("host-1", desk.gateway(), healed, desk.clock))
    revision = await work.carry_out(old, in_doubt=True)
    assert (started, await healed.running()) == ([], [])
    now = await bench.now()
    assert (now.task, now.revision) == (Task.SCHEDULING, revision)


async def test_an_active_instance_is_made_to_run() -> None:
    """After a loss of power, an active instance is started again and nothing is written."""
    bench = await open_bench(replace(VM, status=Status.ACTIVE, task=None))
    before = await bench.ledger.version()
    await bench.work.carry_out(await bench.now(), in_doubt=True)
    assert await bench.driver.running() == [VM.uuid]
    assert await bench.ledger.version() == before


async def test_an_active_instance_that_does_not_start_stays_active() -> None:
    """The caller gets an error, and the instance is not rebuilt elsewhere, as its data is here."""
    active = replace(VM, status=Status.ACTIVE, task=None)
    bench = await open_bench(active, fake=FakeHost("host-1", fails=True))
    with pytest.raises(BuildError):
        await bench.work.carry_out(await bench.now())
    assert (await bench.now()).status is Status.ACTIVE


def test_every_task_of_a_host_has_a_handler() -> None:
    """The executor handles exactly the tasks that the audit expects of a host."""
    assert CARRIED_OUT == HOST_TASKS


async def test_a_power_task_that_fails_reports_an_unknown_state() -> None:
    """If guests cannot be listed after a failed power task, its report contains no state."""
    bench = await open_bench(replace(VM, status=Status.ACTIVE, task=Task.PAUSING))

    async def fail(*_: object) -> NoReturn:
        raise DriverError("the hypervisor is away")

    bench.driver.pause = bench.driver.guests = fail  # type: ignore[method-assign, assignment]
    ended = await change_power(bench.context, await bench.now(), Task.PAUSING)
    assert ended.error is not None
    assert (ended.error.text, ended.error.power) == ("the hypervisor is away", "")
