"""Heartbeats outside the ledger: steps of the clock, and times that were not observed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from berth.domain.errors import UnavailableError
from berth.ports.ledger import HeartbeatReport
from berth.services.replica.liveness import Liveness, gateway_id
from berth.services.replica.scheduler_reports import LAG, PLACED
from berth.testing.builders import make_uuid
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second, running

DOWN_S = 60.0
HOSTS = ("host-1", "host-2", "host-3", "host-4")


class SteppedClock(VirtualClock):
    """A clock that an operator sets, while the monotonic clock runs on."""

    step_s = 0.0

    def now_s(self) -> float:
        """Return the time that the operator has set."""
        return super().now_s() + self.step_s


class Outage:
    """A store of heartbeats that cannot be reached for a while."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.is_away = False

    async def save_heartbeats(self, report: HeartbeatReport) -> None:
        """Store a report."""
        if self.is_away:
            raise UnavailableError("the ledger is away")
        await self._desk.ledger.save_heartbeats(report)

    async def heartbeats(self, known: Mapping[str, int]) -> list[HeartbeatReport]:
        """Return the reports that are newer."""
        if self.is_away:
            raise UnavailableError("the ledger is away")
        return await self._desk.ledger.heartbeats(known)


def liveness_of(desk: Desk, number: int = 1, clock: VirtualClock | None = None) -> Liveness:
    """Return the liveness of a process with an id of its own."""
    parts = (desk.ledger, desk.replica, clock or desk.clock, desk.told)
    return Liveness(*parts, make_uuid("gateway", number))


def process_of(desk: Desk, part: str, number: int, clock: VirtualClock | None = None) -> Liveness:
    """Return the liveness of a process of a kind."""
    parts = (desk.ledger, desk.replica, clock or desk.clock, desk.told)
    return Liveness(*parts, gateway_id(part, make_uuid("gateway", number)))


def up(desk: Desk, clock: VirtualClock | None = None) -> list[str]:
    """Return the names of the hosts that are up."""
    now_s, found = (clock or desk.clock).now_s(), map(desk.replica.service, HOSTS)
    return [one.host for one in found if one is not None and one.is_up(now_s, DOWN_S)]


@asynccontextmanager
async def beating(liveness: Liveness, *hosts: str) -> AsyncIterator[None]:
    """Let agents of hosts send heartbeats every ten seconds."""

    async def beat() -> None:
        while True:
            for host in hosts:
                liveness.note(host)
            await asyncio.sleep(10)

    async with running(beat):
        yield


async def open_four() -> Desk:
    """Return a process with four hosts."""
    return await open_desk(Fleet(hosts=4))


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0, 1.0])
async def test_a_step_of_the_clock_makes_no_host_silent(step_s: float) -> None:
    """After a step each host has a full interval to report, and a small correction is no step."""
    desk, clock = await open_desk(), SteppedClock()
    liveness = liveness_of(desk, clock=clock)
    liveness.note("host-1")
    await clock.sleep(10)
    clock.step_s = step_s
    liveness.observe()
    is_step = abs(step_s) > 2
    for name in ("host-1", "host-2") if is_step else ("host-1",):
        service = desk.replica.service(name)
        assert service is not None
        age_s = clock.now_s() - service.last_seen_s
        assert age_s == pytest.approx(0 if is_step else 10 + step_s)
    assert desk.told.events == (["clock_stepped"] if is_step else [])


async def test_a_step_of_the_clock_revives_no_dead_host() -> None:
    """A host that was down before the step is down after it."""
    desk, clock = await open_four(), SteppedClock()
    liveness = liveness_of(desk, clock=clock)
    async with beating(liveness, *HOSTS[:3]):
        await asyncio.sleep(100)
        liveness.observe()
        clock.step_s = 3_600.0
        liveness.observe()
        assert up(desk, clock) == [*HOSTS[:3]]


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0])
async def test_the_clock_of_another_machine_does_not_matter(step_s: float) -> None:
    """Heartbeats of a gateway whose clock is off by an hour, or was stepped, keep hosts up."""
    desk, clock = await open_desk(), SteppedClock()
    other = await open_second(desk)
    gateway, reader = liveness_of(desk, 1, clock), liveness_of(other, 2)
    async with running(gateway.run, reader.run), beating(gateway, "host-1", "host-2"):
        await asyncio.sleep(30)
        clock.step_s = step_s
        for _ in range(30):
            await asyncio.sleep(10)
            assert up(other) == ["host-1", "host-2"]
    late = await open_second(desk)
    await liveness_of(late, 3).share()
    assert up(late) == ["host-1", "host-2"]


async def test_an_outage_of_the_ledger_makes_no_host_silent() -> None:
    """While reports cannot be exchanged hosts stay up, and then have a full interval to report."""
    desk = await open_four()
    other = await open_second(desk)
    away = Outage(desk)
    gateway = liveness_of(desk)
    parts = (other.replica, other.clock, other.told, make_uuid("gateway", 2))
    reader = Liveness(away, *parts)
    async with running(reader.run, gateway.run):
        async with beating(gateway, *HOSTS[:3]):
            await asyncio.sleep(100)
            assert up(other) == [*HOSTS[:3]]
        away.is_away = True
        for _ in range(30):
            await asyncio.sleep(10)
            assert up(other) == [*HOSTS[:3]]
        away.is_away = False
        await asyncio.sleep(55)
        assert up(other) == [*HOSTS[:3]]
        assert "heartbeat_sharing_resumed" in other.told.events
        await asyncio.sleep(20)
        assert up(other) == []


async def test_nine_outages_of_the_ledger_in_a_row_never_make_a_host_silent() -> None:
    """However often and at whatever moment reports cannot be exchanged, living hosts stay up."""
    desk = await open_four()
    away = Outage(desk)
    parts = (desk.replica, desk.clock, desk.told, make_uuid("gateway", 1))
    liveness = Liveness(away, *parts)
    other = await open_second(desk)
    gateway = liveness_of(other, 2)
    await liveness.share()
    async with running(liveness.run, gateway.run), beating(gateway, *HOSTS):
        for number in range(9):
            away.is_away = True
            for _ in range(140 + number):
                await asyncio.sleep(1.1)
                assert up(desk) == [*HOSTS]
            away.is_away = False
            for _ in range(20 + 3 * number):
                await asyncio.sleep(0.9)
                assert up(desk) == [*HOSTS]
    assert "fleet_uncertain" not in desk.told.events


async def test_a_paused_process_makes_no_host_silent() -> None:
    """A process that stood still gives each host a full interval, except those down before."""
    desk = await open_four()

    class Suspended(VirtualClock):
        asleep_s = 0.0

        def now_s(self) -> float:
            return super().now_s() + self.asleep_s

        def ticks_ns(self) -> int:
            return super().ticks_ns() + int(self.asleep_s * 1e9)

    clock = Suspended()
    liveness = liveness_of(desk, clock=clock)
    async with running(liveness.run), beating(liveness, *HOSTS[:3]):
        await asyncio.sleep(100)
    async with running(liveness.run):
        await asyncio.sleep(1)
        clock.asleep_s = 900.0
        liveness.observe()
        assert up(desk, clock) == [*HOSTS[:3]]
        await asyncio.sleep(58)
        assert up(desk, clock) == [*HOSTS[:3]]
        assert "process_paused" in desk.told.events


async def test_a_process_that_starts_gives_hosts_an_interval() -> None:
    """Hosts that were up when anything was last heard are up at the start; the dead are not."""
    desk = await open_four()
    gateway = liveness_of(desk)
    async with running(gateway.run), beating(gateway, *HOSTS[:3]):
        await asyncio.sleep(200)
    await asyncio.sleep(600)
    late = await open_second(desk)
    liveness = liveness_of(late, 2)
    await liveness.share()
    assert up(late) == [*HOSTS[:3]]
    async with running(liveness.run):
        await asyncio.sleep(57)
        assert up(late) == [*HOSTS[:3]]
        await asyncio.sleep(30)
        assert up(late) == []


async def test_hosts_of_a_lost_gateway_have_an_interval_to_find_another() -> None:
    """When a gateway no longer reports, the silence of its hosts counts from then."""
    desk = await open_four()
    other, reader = await open_second(desk), await open_second(desk)
    lost, kept, liveness = liveness_of(desk), liveness_of(other, 2), liveness_of(reader, 3)
    async with running(kept.run, liveness.run), beating(kept, *HOSTS[2:]):
        async with running(lost.run), beating(lost, *HOSTS[:2]):
            await asyncio.sleep(100)
        await asyncio.sleep(70)
        assert up(reader) == [*HOSTS]
        await asyncio.sleep(30)
        assert up(reader) == [*HOSTS[2:]]


async def test_a_host_that_dies_alone_is_down_after_the_interval() -> None:
    """The silence of one host counts while its gateway reports, in every process."""
    desk = await open_four()
    other = await open_second(desk)
    gateway, reader = liveness_of(desk), liveness_of(other, 2)
    async with running(gateway.run, reader.run), beating(gateway, *HOSTS[:3]):
        async with beating(gateway, HOSTS[3]):
            await asyncio.sleep(100)
        await asyncio.sleep(45)
        assert up(desk) == up(other) == [*HOSTS]
        await asyncio.sleep(25)
        assert up(desk) == up(other) == [*HOSTS[:3]]
        assert not gateway.is_uncertain()


async def test_hosts_that_fall_silent_at_once_are_uncertain_until_they_report() -> None:
    """Most hosts silent at once is an event; when most are back the others get an interval."""
    desk = await open_four()
    liveness = liveness_of(desk)
    async with running(liveness.run), beating(liveness, HOSTS[0]):
        async with beating(liveness, *HOSTS[1:]):
            await asyncio.sleep(100)
        await asyncio.sleep(90)
        assert liveness.is_uncertain()
        assert str(liveness.silence) == "3 of 4 hosts fell silent at the same time"
        assert [one.value for one in liveness.read()] == [1.0, 0]
        async with beating(liveness, HOSTS[1]):
            await asyncio.sleep(1)
            assert not liveness.is_uncertain()
            assert up(desk) == [*HOSTS]
            await asyncio.sleep(90)
            assert not liveness.is_uncertain()
            assert up(desk) == [*HOSTS[:2]]
    told = [name for name in desk.told.events if name.startswith("fleet")]
    assert told == ["fleet_uncertain", "fleet_certain"]


async def test_after_a_hush_every_host_has_an_interval() -> None:
    """When no host was heard of for an interval, the first one to report speaks for the others."""
    desk = await open_four()
    liveness = liveness_of(desk)
    async with running(liveness.run):
        async with beating(liveness, *HOSTS):
            await asyncio.sleep(100)
        await asyncio.sleep(300)
        assert up(desk) == []
        assert liveness.is_uncertain()
        liveness.note(HOSTS[2])
        assert up(desk) == [*HOSTS]
        assert not liveness.is_uncertain()


async def test_every_process_knows_the_live_schedulers() -> None:
    """Schedulers count while they share reports, without any host; APIs do not count."""
    desk = await open_desk(Fleet(hosts=0))
    api, scheduler = process_of(desk, "api", 1), process_of(desk, "scheduler", 2)
    whole = process_of(desk, "up", 3)
    async with running(api.run):
        async with running(scheduler.run):
            async with running(whole.run):
                await asyncio.sleep(20)
                assert (api.schedulers, scheduler.schedulers, whole.schedulers) == (2, 2, 2)
            await asyncio.sleep(40)
            assert (api.schedulers, scheduler.schedulers) == (1, 1)
        await asyncio.sleep(40)
        assert api.schedulers == 0


async def test_schedulers_report_their_counts() -> None:
    """An API knows the growth between two reports, and a scheduler its own; APIs have none."""
    desk = await open_desk(Fleet(hosts=0))
    placed = 0

    async def counts() -> dict[str, int]:
        nonlocal placed
        placed += 20
        return {LAG: 7, PLACED: placed}

    api = process_of(desk, "api", 1)
    parts = (desk.ledger, desk.replica, desk.clock, desk.told)
    own_id = make_uuid("gateway", 2)
    scheduler = Liveness(*parts, gateway_id("scheduler", own_id, "1.2"), counts=counts)
    await api.share()
    await scheduler.share()
    await api.share()
    (first,) = api.scheduler_reports()
    assert (first.scheduler, first.part, first.per_s) == (own_id, "scheduler", {})
    assert first.counts == {LAG: 7, PLACED: 20}
    await desk.clock.sleep(10.0)
    await scheduler.share()
    await api.share()
    (second,) = api.scheduler_reports()
    assert (second.counts[PLACED], second.per_s) == (40, {PLACED: 2.0})
    await desk.clock.sleep(3.0)
    (own,) = scheduler.scheduler_reports()
    assert (own.age_s, own.counts, own.per_s) == (3.0, second.counts, second.per_s)
    await desk.clock.sleep(40.0)
    await api.share()
    assert api.scheduler_reports() == []


async def test_schedulers_that_died_before_a_process_started_do_not_count() -> None:
    """The reports of earlier schedulers are kept for a day, but their processes are gone."""
    desk = await open_desk()
    await process_of(desk, "scheduler", 1).share()
    await asyncio.sleep(60)
    await process_of(desk, "scheduler", 2).share()
    late = process_of(desk, "api", 3)
    await late.share()
    assert late.schedulers == 1


async def test_an_outage_of_the_ledger_ends_no_scheduler() -> None:
    """A process that cannot read reports keeps the last number of schedulers."""
    desk = await open_desk()
    store = Outage(desk)
    api = Liveness(
        store, desk.replica, desk.clock, desk.told, gateway_id("api", make_uuid("gateway", 1))
    )
    async with running(api.run, process_of(desk, "scheduler", 2).run):
        await asyncio.sleep(20)
        store.is_away = True
        await asyncio.sleep(100)
        assert api.schedulers == 1


async def test_a_scheduler_whose_clock_is_set_back_counts_once() -> None:
    """A scheduler takes a new id when its clock is set back, and its former one ends."""
    desk, clock = await open_desk(), SteppedClock()
    api, scheduler = process_of(desk, "api", 1), process_of(desk, "scheduler", 2, clock)
    async with running(api.run, scheduler.run):
        await asyncio.sleep(20)
        clock.step_s = -3_600.0
        await asyncio.sleep(30)
        assert (api.schedulers, scheduler.schedulers) == (1, 1)


async def test_reports_of_schedulers_do_not_say_that_hosts_are_heard() -> None:
    """While no host can reach a gateway, hosts stay up although a scheduler shares its reports."""
    desk = await open_four()
    gateway, scheduler = liveness_of(desk, 1), process_of(desk, "scheduler", 2)
    async with running(gateway.run, scheduler.run):
        async with beating(gateway, *HOSTS):
            await asyncio.sleep(30)
        await asyncio.sleep(300)
        async with beating(gateway, "host-1"):
            await asyncio.sleep(30)
            assert up(desk) == [*HOSTS]
