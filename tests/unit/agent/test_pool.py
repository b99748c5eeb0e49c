"""The pool of agents: one task at a time for each instance, and no task lost."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.pool import Agent, AgentPool, Pace
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.step import LeftoverUse, LeftoverVerdict
from berth.domain.errors import UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Change
from berth.domain.ledger.write import Free, Put
from berth.ports.virt import HostReport, OrphanFiles, Power
from berth.services.gateway.gateway import Gateway
from berth.testing.builders import make_instance, make_migration, make_take, make_uuid
from tests.unit.services.wiring import Desk, Fleet, open_desk, running

SPAWN_S = 5.0


class Driver(FakeDriver):
    """A fake driver that records its calls and fails when a test says so.

    Attributes:
        busy: the number of running calls for each instance.
    """

    def __init__(self, fake: FakeHost, desk: Desk) -> None:
        super().__init__(fake, desk.clock)
        self.asked: list[str] = []
        self.errors: list[Exception] = []
        self.busy: dict[str, int] = {}

    async def spawn(self, instance: Instance) -> None:
        """Start an instance, and check that no other start of it is running."""
        self.asked.append("spawn")
        self.busy[instance.uuid] = self.busy.get(instance.uuid, 0) + 1
        assert self.busy[instance.uuid] == 1, "two at once"
        try:
            await super().spawn(instance)
            if self.errors:
                raise self.errors.pop()
        finally:
            self.busy[instance.uuid] -= 1

    async def destroy(self, instance_uuid: str) -> None:
        """Stop an instance, and check that no start of it is running."""
        self.asked.append("destroy")
        assert not self.busy.get(instance_uuid), "destroyed while it is started"
        await super().destroy(instance_uuid)

    async def report(self) -> HostReport:
        """Return the report with the host uuid that the builders use."""
        report = await super().report()
        row = report.host.name.removeprefix("host-")
        uuid = f"686f7374-0000-4000-8000-{int(row):012d}"
        host, provider = replace(report.host, uuid=uuid), replace(report.provider, uuid=uuid)
        return HostReport(host, provider)


class Rig:
    """A pool, and the drivers of its hosts."""

    def __init__(self, desk: Desk, *fakes: FakeHost, builds_max: int = 256) -> None:
        self.desk = desk
        self.in_touch = True
        self.drivers = {fake.name: Driver(fake, desk) for fake in fakes}
        gateway = desk.gateway()
        agents = {
            name: Agent(name, driver, HostExecutor(HostContext(name, gateway, driver, desk.clock)))
            for name, driver in self.drivers.items()
        }
        pace = Pace(builds_max=builds_max)
        self.pool = AgentPool(
            agents, gateway, desk.clock, desk.told, pace, is_in_touch=lambda: self.in_touch
        )
        desk.follower.subscribers.append(self.pool)

    async def put(self, number: int = 1, *, host: str = "host-1", **state: object) -> Instance:
        """Put an instance and its claim on a host, by default while it is being built."""
        instance = replace(make_instance(number, host=host), task=Task.SPAWNING)
        instance = replace(instance, **state)  # type: ignore[arg-type]
        on = int(host.removeprefix("host-"))
        await self.desk.ledger.write(make_take(number, on=on), Put(instance))
        return await self.get(number)

    async def get(self, number: int = 1) -> Instance:
        """Return an instance from the ledger."""
        found = await self.desk.ledger.get(Instance, make_instance(number).uuid)
        assert found is not None
        return found

    async def move_away(self, number: int = 1) -> None:
        """Have the instance run on host-2, of which this pool learns nothing."""
        self.desk.follower.subscribers.remove(self.pool)
        instance = await self.get(number)
        moved = replace(instance, host="host-2", node="host-2", task=None, status=Status.ACTIVE)
        await self.desk.ledger.write(Put(moved))

    async def work(self, seconds: float = 60.0) -> None:
        """Follow the feed for this many seconds while the agents work."""
        async with running(self.desk.follower.run):
            await asyncio.sleep(seconds)

    def assert_idle(self) -> None:
        """Check that the pool has no task left."""
        pool = self.pool
        left = (pool._in_progress, pool._queued, pool._done, pool._tasks)
        assert not any(left), left


async def open_rig(*fakes: FakeHost, builds_max: int = 256, feed_versions: int = 1000) -> Rig:
    """Return a rig with two hosts in the ledger and agents for some of them."""
    retention = replace(Fleet().retention, feed_versions=feed_versions)
    desk = await open_desk(Fleet(hosts=2, retention=retention))
    return Rig(desk, *(fakes or (FakeHost("host-1", spawn_s=SPAWN_S),)), builds_max=builds_max)


async def start(rig: Rig) -> Rig:
    """Start the agents as a process does, and return the rig."""
    await rig.desk.follower.start()
    await rig.pool.adopt()
    return rig


async def restart(rig: Rig) -> Rig:
    """End the process and start the next one, with machines that have lost power."""
    await rig.pool.close()
    fakes = [driver._fake for driver in rig.drivers.values()]
    desk = Desk(rig.desk.ledger)
    return await start(Rig(desk, *fakes))


async def test_hosts_are_registered_and_stay_up() -> None:
    """The inventory is written at registration, and a heartbeat is sent every ten seconds."""
    rig = await open_rig(FakeHost("host-1", {VCPU: 99}), FakeHost("host-2"))
    await rig.pool.register()
    assert (await rig.desk.hosts.get("host-1")).inventories[VCPU].total == 99
    async with running(rig.pool.run):
        await asyncio.sleep(95)
    await rig.desk.follower.catch_up()
    service = rig.desk.replica.hosts.services.get("host-2")
    assert service is not None
    assert rig.desk.clock.now_s() - service.last_seen_s == pytest.approx(5)


async def test_heartbeats_outlast_a_store_that_is_away() -> None:
    """A failed exchange is reported once, and a later one has the heartbeats of all hosts."""
    rig = await open_rig()
    desk = rig.desk
    desk.ledger.heartbeats_away = 4
    async with running(rig.pool.run, desk.liveness.run):
        await asyncio.sleep(36)
    assert desk.told.failed == ["heartbeat_sharing_failed"]
    (report,) = await desk.ledger.heartbeats({})
    assert report.seen_s == {"host-1": desk.clock.now_s() - 6}


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_host_that_was_given_up_is_fenced_when_it_returns(*, restarts: bool) -> None:
    """A guest that runs elsewhere by now is destroyed at once, whether or not the agent ended."""
    rig = await start(await open_rig())
    await rig.put()
    await rig.work(10)
    assert await rig.drivers["host-1"].running() == [make_instance(1).uuid]
    await rig.move_away()
    await rig.work(10)
    assert await rig.drivers["host-1"].running() == [make_instance(1).uuid]
    if restarts:
        machine = rig.drivers["host-1"].machine
        rig = Rig(Desk(rig.desk.ledger), rig.drivers["host-1"]._fake)
        rig.drivers["host-1"].machine = machine
        assert await rig.drivers["host-1"].running() == [make_instance(1).uuid]
        await start(rig)
    else:
        rig.pool.load(await rig.desk.ledger.snapshot(rig.desk.clock.now_s()))
    await asyncio.sleep(1)
    assert await rig.drivers["host-1"].running() == []
    rig.assert_idle()


@pytest.mark.parametrize(("in_touch", "spawns"), [(False, 1), (True, 2)])
async def test_a_task_that_waited_out_of_touch_is_asked_for_first(
    *, in_touch: bool, spawns: int
) -> None:
    """A guest that was given up while its build waited for a slot is not started."""
    rig = await start(await open_rig(FakeHost("host-1", spawn_s=SPAWN_S), builds_max=1))
    await rig.put(1)
    await rig.put(2)
    await rig.work(1)
    assert rig.drivers["host-1"].asked.count("spawn") == 1
    rig.in_touch = in_touch
    await rig.move_away(2)
    await asyncio.sleep(30)
    assert rig.drivers["host-1"].asked.count("spawn") == spawns
    assert await rig.drivers["host-1"].running() == [make_instance(1).uuid]


async def test_a_new_instance_is_built() -> None:
    """A new instance in the feed is built immediately by the driver of its host."""
    rig = await start(await open_rig(FakeHost("host-1"), FakeHost("host-2")))
    await rig.put(1, host="host-1")
    await rig.put(2, host="host-2")
    await rig.work(1)
    assert await rig.drivers["host-1"].running() == [make_instance(1).uuid]
    assert await rig.drivers["host-2"].running() == [make_instance(2).uuid]
    assert [(await rig.get(n)).status for n in (1, 2)] == [Status.ACTIVE] * 2
    rig.assert_idle()


async def test_instances_of_other_hosts_are_left_alone() -> None:
    """The pool does not build an instance of a host that is not its own."""
    rig = await start(await open_rig())
    await rig.put(2, host="host-2")
    await rig.work()
    assert rig.drivers["host-1"].asked == []
    assert (await rig.get(2)).task is Task.SPAWNING


async def test_a_delete_waits_for_the_build_to_end() -> None:
    """A delete during a build is carried out after it, never simultaneously."""
    rig = await start(await open_rig())
    await rig.put()
    await rig.work(1)
    await rig.desk.instances.delete((await rig.get()).uuid)
    await rig.work()
    assert (await rig.get()).status is Status.DELETED
    assert await rig.drivers["host-1"].running() == []
    rig.assert_idle()


async def test_what_was_begun_is_finished_by_the_next_process() -> None:
    """A new process finds unfinished tasks in the snapshot and completes them."""
    rig = await start(await open_rig())
    await rig.put(1)
    await rig.put(2, task=Task.DELETING, status=Status.ACTIVE)
    await rig.work(1)
    await rig.pool.close()
    assert (await rig.get(1)).task is Task.SPAWNING
    rig = await restart(rig)
    await rig.work()
    assert [(await rig.get(n)).status for n in (1, 2)] == [Status.ACTIVE, Status.DELETED]
    rig.assert_idle()


async def test_what_was_deleted_without_its_agent_is_destroyed_when_it_hears_of_it() -> None:
    """A guest whose instance was deleted in the ledger only is destroyed when the feed says so."""
    rig = await start(await open_rig())
    active = await rig.put(1)
    await rig.work()
    active = await rig.get(1)
    assert list(await rig.drivers["host-1"].running()) == [active.uuid]
    gone = replace(active, status=Status.DELETED, task=None)
    await rig.desk.ledger.write(Free(active.uuid), Put(gone))
    await rig.work()
    assert list(await rig.drivers["host-1"].running()) == []
    rig.assert_idle()


async def test_what_was_active_runs_again_after_a_restart() -> None:
    """Active instances are started in parallel after a restart, without a write to the ledger."""
    rig = await open_rig()
    for number in range(1, 9):
        await rig.put(number, status=Status.ACTIVE, task=None)
    version = await rig.desk.ledger.version()
    rig = await restart(rig)
    await rig.work(SPAWN_S * 2)
    assert len(await rig.drivers["host-1"].running()) == 8
    assert await rig.desk.ledger.version() == version
    rig.assert_idle()


async def test_an_instance_deleted_while_it_is_adopted_does_not_run() -> None:
    """A delete during adoption is carried out after it."""
    rig = await open_rig()
    await rig.put(1, status=Status.ACTIVE, task=None)
    rig = await restart(rig)
    await rig.work(1)
    await rig.desk.instances.delete((await rig.get()).uuid)
    await rig.work()
    assert (await rig.get()).status is Status.DELETED
    assert await rig.drivers["host-1"].running() == []


async def test_an_adoption_that_fails_is_told() -> None:
    """A failed adoption is reported, and the instance stays active."""
    rig = await open_rig(FakeHost("host-1", fails=True))
    await rig.put(1, status=Status.ACTIVE, task=None)
    rig = await restart(rig)
    await rig.work()
    assert rig.desk.told.failed == ["adoption_failed"]
    assert (await rig.get()).status is Status.ACTIVE
    rig.assert_idle()


@pytest.mark.parametrize("error", [OSError("disk"), UnavailableError("away"), ValueError("bug")])
async def test_a_driver_that_fails_in_any_way_is_asked_again(error: Exception) -> None:
    """A build is retried after any unexpected error."""
    rig = await start(await open_rig())
    rig.drivers["host-1"].errors = [error, error]
    await rig.put()
    await rig.work()
    assert (await rig.get()).status is Status.ACTIVE
    assert rig.desk.told.failed == ["task_failed"] * 2
    rig.assert_idle()


async def test_a_failure_that_was_recorded_unheard_is_not_repeated() -> None:
    """A failed build whose commit lost its answer is not repeated."""
    rig = await start(await open_rig(FakeHost("host-1", fails=True)))
    await rig.put()
    rig.desk.ledger.silent = 1
    await rig.work()
    assert rig.drivers["host-1"].asked.count("spawn") == 1
    assert (await rig.get()).task is Task.SCHEDULING
    rig.assert_idle()


async def test_a_build_that_was_recorded_unheard_runs() -> None:
    """A build whose commit lost its answer leaves the instance active and running."""
    rig = await start(await open_rig())
    await rig.put()
    rig.desk.ledger.silent = 1
    await rig.work()
    assert await rig.drivers["host-1"].running() == [make_instance(1).uuid]
    assert (await rig.get()).status is Status.ACTIVE
    rig.assert_idle()


async def test_an_instance_that_moves_within_the_pool_is_built_by_its_new_host() -> None:
    """Each task goes to the agent of the host that the instance names."""
    rig = await start(await open_rig(FakeHost("host-1", fails=True), FakeHost("host-2")))
    first = await rig.put()
    rig.desk.ledger.silent = 1
    await rig.work(0.5)
    now = await rig.get()
    assert (now.task, first.host, now.host) == (Task.SCHEDULING, "host-1", None)
    await rig.desk.ledger.write(Put(replace(now, host="host-2", node="host-2", task=Task.SPAWNING)))
    await rig.work()
    assert (await rig.get()).status is Status.ACTIVE
    assert await rig.drivers["host-1"].running() == []
    assert await rig.drivers["host-2"].running() == [first.uuid]
    rig.assert_idle()


async def test_what_is_told_again_is_not_done_again() -> None:
    """An event or a snapshot from before the outcome starts nothing."""
    rig = await start(await open_rig(FakeHost("host-1", fails=True)))
    old = await rig.put()
    stale = await rig.desk.ledger.snapshot(0.0)
    version = rig.desk.follower.version
    (changes,) = [
        [Change(version + 1, one.event) for one in await rig.desk.ledger.changes(version)]
    ]
    rig.pool.apply(changes)
    await asyncio.sleep(1)
    assert (await rig.get()).task is Task.SCHEDULING
    rig.pool.load(stale)
    rig.pool.apply([Change(version + 1, old)])
    await asyncio.sleep(1)
    assert rig.drivers["host-1"].asked == ["spawn"]
    await rig.desk.follower.catch_up()
    rig.assert_idle()


async def test_a_change_during_a_build_is_old_news_after_it() -> None:
    """The event of a change that the build already included starts nothing."""
    rig = await start(await open_rig(FakeHost("host-1", spawn_s=SPAWN_S, fails=True)))
    await rig.put()
    await rig.desk.follower.catch_up()
    await asyncio.sleep(1)
    await rig.desk.ledger.write(Put(replace(await rig.get(), name="other")))
    await asyncio.sleep(3 * SPAWN_S)
    now = await rig.get()
    assert (now.task, now.name) == (Task.SCHEDULING, "other")
    asked = list(rig.drivers["host-1"].asked)
    await rig.desk.follower.catch_up()
    await asyncio.sleep(3 * SPAWN_S)
    assert rig.drivers["host-1"].asked == asked
    rig.assert_idle()


async def test_a_gap_in_the_feed_loses_no_task() -> None:
    """After a gap in the feed, a snapshot has the tasks that the feed omitted."""
    rig = await start(await open_rig(feed_versions=3))
    await rig.put(1)
    await rig.work(1)
    for number in range(2, 9):
        await rig.put(number)
    await rig.work()
    assert {(await rig.get(n)).status for n in range(1, 9)} == {Status.ACTIVE}
    rig.assert_idle()


async def test_an_instance_that_ends_within_a_gap_leaves_nothing_behind() -> None:
    """An instance deleted within a gap is stopped, and the pool keeps no task for it."""
    rig = await start(await open_rig(feed_versions=3))
    await rig.put(1)
    await rig.desk.follower.catch_up()
    await asyncio.sleep(1)
    gone = replace(await rig.get(), status=Status.DELETED, task=None)
    await rig.desk.ledger.write(Free(gone.uuid), Put(gone))
    for number in range(2, 9):
        await rig.put(number)
    await rig.work()
    assert make_instance(1).uuid not in await rig.drivers["host-1"].running()
    rig.assert_idle()


async def test_so_many_builds_at_once_and_no_more() -> None:
    """At most `builds_max` builds run simultaneously, and all complete."""
    rig = await start(await open_rig(builds_max=2))
    for number in range(1, 7):
        await rig.put(number)
    async with running(rig.desk.follower.run):
        await asyncio.sleep(SPAWN_S - 1)
        assert sum(rig.drivers["host-1"].busy.values()) == 2
        await asyncio.sleep(SPAWN_S * 3)
    assert {(await rig.get(n)).status for n in range(1, 7)} == {Status.ACTIVE}


async def test_closing_stops_the_work() -> None:
    """After the pool is closed, none of its tasks continue."""
    rig = await start(await open_rig())
    await rig.put()
    await rig.work(1)
    await rig.pool.close()
    assert (await rig.get()).task is Task.SPAWNING
    await asyncio.sleep(60)
    assert (await rig.get()).task is Task.SPAWNING


async def test_a_move_that_has_ended_is_forgotten() -> None:
    """The pool keeps the moves of its hosts until they end, and no others."""
    rig = await start(await open_rig())
    ours = make_migration(1)
    aside = replace(ours, source=replace(ours.source, host="host-3"))
    theirs = replace(
        aside, uuid=make_uuid("migration", 2), number=2, instance_uuid=make_uuid("instance", 2)
    )
    async with running(rig.desk.follower.run):
        await rig.desk.ledger.write(Put(ours))
        await rig.desk.ledger.write(Put(theirs))
        await asyncio.sleep(1)
        assert set(rig.pool._moves) == {ours.uuid}
        now = await rig.desk.ledger.get(Migration, ours.uuid)
        assert now is not None
        await rig.desk.ledger.write(Put(replace(now, stage=Stage.FAILED)))
        await asyncio.sleep(1)
    assert rig.pool._moves == {}


class Leftovers(Driver):
    """A driver with files that belong to no guest; listing or deleting them may fail."""

    def __init__(self, fake: FakeHost, desk: Desk) -> None:
        super().__init__(fake, desk)
        self.machine.files = {make_uuid("instance", number): 0.0 for number in range(50, 70)}
        self.lists = 0
        self.fault: Exception | None = None

    async def leftovers(self, image: str = "") -> Sequence[OrphanFiles]:
        """List the files, if a test lets it succeed."""
        self.lists += 1
        if self.fault is not None:
            raise self.fault
        return await super().leftovers(image)


async def open_leftovers() -> tuple[Rig, Leftovers]:
    """Return a rig whose host has twenty leftovers, and its driver."""
    rig = await open_rig()
    driver = Leftovers(FakeHost("host-1"), rig.desk)
    gateway = rig.desk.gateway()
    executor = HostExecutor(HostContext("host-1", gateway, driver, rig.desk.clock))
    agents = {"host-1": Agent("host-1", driver, executor)}
    rig.pool = AgentPool(agents, gateway, rig.desk.clock, rig.desk.told, Pace())
    rig.desk.follower.subscribers[-1] = rig.pool
    rig.drivers["host-1"] = driver
    await rig.desk.follower.start()
    return rig, driver


async def test_missing_guests_are_restarted_although_no_leftovers_can_be_listed() -> None:
    """A storage that is away does not keep guests from starting."""
    rig, driver = await open_leftovers()
    await rig.put(status=Status.ACTIVE, task=None)
    driver.fault = OSError(116, "stale file handle")
    await rig.pool._reconcile("host-1")
    await rig.work()
    assert await driver.running() == [make_instance().uuid]
    assert "leftovers_failed" in rig.desk.told.failed


async def test_leftovers_are_listed_less_and_less_often_after_errors() -> None:
    """The pauses grow up to eight intervals, and end with the first success."""
    rig, driver = await open_leftovers()
    driver.fault = OSError(116, "stale file handle")
    seen: list[int] = []
    for _ in range(24):
        await rig.pool._reconcile("host-1")
        seen.append(driver.lists)
        await asyncio.sleep(600.0)
    tried = [n for n, (was, now) in enumerate(zip([0, *seen], seen, strict=False)) if now > was]
    assert tried == [0, 1, 3, 7, 15, 23]


async def test_a_control_plane_that_is_away_is_not_asked_about_every_leftover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One question fails, and the others wait for a later pass."""
    rig, _ = await open_leftovers()
    asked: list[str] = []

    async def judge(*_: object, address: str) -> LeftoverVerdict:
        asked.append(address)
        if len(asked) == 1:
            raise UnavailableError("away")
        return LeftoverVerdict(LeftoverUse.UNCLEAR, "unknown")

    monkeypatch.setattr(Gateway, "judge_leftover", judge)
    # The tests' slots admit one task at a time, as when all of a process are taken.
    rig.pool._slots = asyncio.Semaphore(1)
    for questions in (1, 1, 21):
        await rig.pool._reconcile("host-1")
        await rig.work(10.0)
        assert len(asked) == questions
        await asyncio.sleep(300.0)


async def test_an_event_of_a_guest_is_no_reason_to_look_for_leftovers() -> None:
    """The guest that has crashed is restarted; the leftovers wait for the next whole pass."""
    rig, driver = await open_leftovers()
    await rig.put(status=Status.ACTIVE, task=None)
    await rig.pool._reconcile("host-1")
    await rig.work()
    lists = driver.lists
    async with running(rig.desk.follower.run, rig.pool.listen):
        await asyncio.sleep(1.0)
        driver.machine.set_power(make_instance().uuid, Power.CRASHED)
        await asyncio.sleep(30.0)
    assert await driver.running() == [make_instance().uuid]
    assert driver.lists == lists
