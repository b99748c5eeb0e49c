"""Tests for the failed builds that agents record."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.executor.host_context import cause_of
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Task
from berth.domain.errors import DriverError
from berth.domain.ledger.write import Put, Unit
from berth.services.placement.failed_builds import FailedBuilds
from berth.testing.builders import make_instance, make_take, make_uuid
from berth.testing.virtual_time import STARTED_AT_S
from tests.unit.services.wiring import Desk, open_desk

HOST = "host-1"


async def service_of(desk: Desk) -> Service:
    """Return the service of the host from the ledger."""
    service = await desk.ledger.get(Service, HOST)
    assert service is not None
    return service


async def count(desk: Desk) -> int:
    """Return the number of failed builds of the host."""
    return (await service_of(desk)).failed_builds


async def test_failures_add_up_until_a_success() -> None:
    """Failures add up with the time of the newest, and a success clears both."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock)
    await builds.note_failure(HOST, "demo", FailureCause.DRIVER)
    await asyncio.sleep(5)
    await builds.note_failure(HOST, "demo", FailureCause.DRIVER)
    service = await service_of(desk)
    assert (service.failed_builds, service.failed_at_s) == (2, STARTED_AT_S + 5)
    await builds.note_success(HOST)
    service = await service_of(desk)
    assert (service.failed_builds, service.failed_at_s) == (0, 0.0)


async def test_a_success_writes_nothing_when_none_failed() -> None:
    """A success without earlier failures writes nothing."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock)
    before = await desk.ledger.version()
    for _ in range(3):
        await builds.note_success(HOST)
    assert await desk.ledger.version() == before


async def test_a_process_goes_on_from_the_count_of_the_one_before() -> None:
    """A new process continues the count in the ledger."""
    desk = await open_desk()
    await FailedBuilds(desk.ledger, desk.clock).note_failure(HOST, "demo", FailureCause.DRIVER)
    await FailedBuilds(desk.ledger, desk.clock).note_failure(HOST, "demo", FailureCause.DRIVER)
    assert await count(desk) == 2
    await FailedBuilds(desk.ledger, desk.clock).note_success(HOST)
    assert await count(desk) == 0


async def test_builds_that_fail_at_once_all_count() -> None:
    """Simultaneous failures are all counted."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock)
    await asyncio.gather(
        *(builds.note_failure(HOST, "demo", FailureCause.DRIVER) for _ in range(30))
    )
    assert await count(desk) == 30


async def test_what_an_operator_sets_meanwhile_stays() -> None:
    """An operator's simultaneous change of the service is kept."""
    desk = await open_desk()

    async def disable(units: Sequence[Unit]) -> None:
        desk.ledger.before_commit = None
        await desk.hosts.set_service(HOST, disabled=True, disabled_reason="repair")

    desk.ledger.before_commit = disable
    await FailedBuilds(desk.ledger, desk.clock).note_failure(HOST, "demo", FailureCause.DRIVER)
    service = await service_of(desk)
    assert (service.failed_builds, service.disabled_reason) == (1, "repair")


async def test_registering_again_keeps_the_count() -> None:
    """A new registration of the host keeps the count."""
    desk = await open_desk()
    await FailedBuilds(desk.ledger, desk.clock).note_failure(HOST, "demo", FailureCause.DRIVER)
    report = await FakeDriver(FakeHost(HOST), desk.clock).report()
    await desk.hosts.register([report])
    assert await count(desk) == 1


async def test_a_removed_service_does_not_come_back() -> None:
    """A failure does not bring a removed service back."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock)

    async def remove(units: Sequence[Unit]) -> None:
        desk.ledger.before_commit = None
        await desk.hosts.remove(HOST)

    desk.ledger.before_commit = remove
    await builds.note_failure(HOST, "demo", FailureCause.DRIVER)
    await builds.note_success(HOST)
    assert await desk.ledger.get(Service, HOST) is None


async def test_a_host_that_counts_while_it_is_removed_is_removed() -> None:
    """A failure during the removal of its host does not prevent the removal."""
    desk = await open_desk()

    async def fail(units: Sequence[Unit]) -> None:
        desk.ledger.before_commit = None
        await FailedBuilds(desk.ledger, desk.clock).note_failure(HOST, "demo", FailureCause.DRIVER)

    desk.ledger.before_commit = fail
    await desk.hosts.remove(HOST)
    assert await desk.ledger.get(Service, HOST) is None


async def test_a_count_that_cannot_be_saved_is_given_up() -> None:
    """A count that cannot be saved is dropped, and the next build continues from the ledger."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock)
    desk.ledger.away = 1
    await builds.note_failure(HOST, "demo", FailureCause.DRIVER)
    assert await count(desk) == 0
    desk.ledger.silent = 1
    await builds.note_failure(HOST, "demo", FailureCause.DRIVER)
    assert await count(desk) == 1
    await builds.note_success(HOST)
    assert await count(desk) == 0


class Refusing(FakeDriver):
    """A driver that refuses every build and does or does not blame the host."""

    def __init__(self, desk: Desk, *, blames_host: bool) -> None:
        super().__init__(FakeHost(HOST), desk.clock)
        self.blames_host = blames_host

    async def spawn(self, instance: Instance) -> None:
        """Raise a build error."""
        raise BuildError("it may not be here", blames_host=self.blames_host)


@pytest.mark.parametrize(("blames_host", "counted"), [(True, 1), (False, 0)])
async def test_only_what_the_host_is_to_blame_for_counts(
    *, blames_host: bool, counted: int
) -> None:
    """Only failures that blame the host are counted."""
    desk = await open_desk()
    driver = Refusing(desk, blames_host=blames_host)
    work = HostExecutor(HostContext(HOST, desk.gateway(), driver, desk.clock))
    spawning = replace(make_instance(1, host=HOST), task=Task.SPAWNING)
    await desk.ledger.write(make_take(1), Put(spawning))
    await work.carry_out(replace(spawning, revision=1))
    assert await count(desk) == counted


async def test_every_scheduler_hears_of_it() -> None:
    """The feed brings the count to the host table of every scheduler."""
    desk = await open_desk()
    driver = FakeDriver(FakeHost(HOST, fails=True), desk.clock)
    work = HostExecutor(HostContext(HOST, desk.gateway(), driver, desk.clock))
    for number in (1, 2):
        spawning = replace(make_instance(number, host=HOST), task=Task.SPAWNING)
        await desk.ledger.write(make_take(number), Put(spawning))
        await work.carry_out(replace(spawning, revision=1))
    await desk.follower.catch_up()
    hosts = desk.replica.hosts
    row = hosts.row_of(make_uuid("host", 1))
    assert row is not None
    assert hosts.failed_builds[row] == 2
    assert hosts.failed_at_s[row] == STARTED_AT_S


async def test_failures_are_kept_by_cause_and_tenant() -> None:
    """Failures are recorded by cause and tenant, and only the host's own count in Nova's sense."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock)
    await builds.note_failure(HOST, "a", FailureCause.DRIVER)
    await builds.note_failure(HOST, "a", FailureCause.DRIVER)
    await builds.note_failure(HOST, "b", FailureCause.GUEST)
    service = await service_of(desk)
    assert (service.failed_builds, service.failure_level) == (2, 1.0)
    kept = [(one.project_id, one.cause, one.level) for one in service.build_failures]
    assert kept == [("a", FailureCause.DRIVER, 2.0), ("b", FailureCause.GUEST, 1.0)]
    await builds.note_success(HOST)
    service = await service_of(desk)
    assert (service.failed_builds, service.failure_level, service.build_failures) == (0, 0.0, ())


async def test_what_speaks_against_a_host_fades_in_the_ledger() -> None:
    """`fade` writes the decayed level, but only if it changed noticeably."""
    desk = await open_desk()
    builds = FailedBuilds(desk.ledger, desk.clock, 100.0)
    await builds.note_failure(HOST, "a", FailureCause.DRIVER)
    before = await desk.ledger.version()
    await asyncio.sleep(10)
    await builds.fade(HOST)
    assert await desk.ledger.version() == before  # hardly less
    await asyncio.sleep(90)
    await builds.fade(HOST)
    service = await service_of(desk)
    assert (service.failed_builds, service.failure_level) == (1, 0.5)
    assert [one.level for one in service.build_failures] == [1.0]
    await asyncio.sleep(400)
    await builds.fade(HOST)
    service = await service_of(desk)
    assert (service.failed_builds, service.failure_level, service.build_failures) == (1, 0.0, ())
    before = await desk.ledger.version()
    await builds.fade(HOST)
    assert await desk.ledger.version() == before


async def test_a_process_that_is_new_on_a_host_goes_on_with_the_fading() -> None:
    """A new process continues the decay when it reconciles the host."""
    desk = await open_desk()
    await FailedBuilds(desk.ledger, desk.clock, 100.0).note_failure(HOST, "a", FailureCause.DRIVER)
    await asyncio.sleep(100)
    driver = FakeDriver(FakeHost(HOST), desk.clock)
    await desk.follower.catch_up()
    await desk.gateway(half_life_s=100.0).report(await driver.report())
    assert (await service_of(desk)).failure_level == 0.5


async def test_a_time_that_ran_out_below_the_driver_is_the_cause() -> None:
    """A timeout below the driver is the cause, and an unrelated error has none."""
    error = BuildError("cannot start")
    error.__cause__ = DriverError("no answer")
    error.__cause__.__cause__ = TimeoutError("the monitor does not answer")
    assert cause_of(error) is FailureCause.TIMEOUT
    assert cause_of(BuildError("no file", cause=FailureCause.IMAGE)) is FailureCause.IMAGE
    assert cause_of(DriverError("no")) is None
