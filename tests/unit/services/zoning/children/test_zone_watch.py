"""Tests for watching child zones."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from berth.domain.errors import UnavailableError
from berth.domain.ledger.change import Change, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.domain.zones.zone import Zone, ZoneInfo
from berth.services.zoning.children.zone_watch import WatchSettings, ZoneWatch
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told, running

WEST, EAST = Zone(1, "west", "http://west"), Zone(2, "east", "http://east")


class Answers:
    """Children that answer unless they are away."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.names: dict[str, str] = {}
        self.asked: list[str] = []

    async def info(self, zone: Zone, *, timeout_s: float) -> ZoneInfo:
        """Return the zone's name, or the replacement for it."""
        self.asked.append(zone.name)
        if zone.name in self.away:
            raise UnavailableError("away")
        return ZoneInfo(self.names.get(zone.name, zone.name), {"os": ("linux",)})


class World:
    """A watch with two children."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.children = Answers()
        self.told = Told()
        self.watch = ZoneWatch(
            children=self.children,  # type: ignore[arg-type]
            clock=self.clock,
            telemetry=self.told,
            rng=Random(1),
            settings=WatchSettings(),
        )
        self.watch.load(Snapshot(1, 0.0, zones=(EAST, WEST)))

    @property
    def counts(self) -> dict[str, float]:
        """The number of children by state, as shown to monitoring."""
        return {one.labels[0]: one.value for one in self.watch.read()}

    @property
    def names(self) -> list[str]:
        """The names of the active children."""
        return [zone.name for zone in self.watch.active()]


async def let_pass(world: World, seconds: float) -> None:
    """Run the watch for this long."""
    async with running(world.watch.run):
        await world.clock.sleep(seconds)
        await asyncio.sleep(0)


def test_children_are_active_until_they_fail() -> None:
    """Children are active, in the order of their ids, until they fail."""
    assert World().names == ["west", "east"]


async def test_one_that_fails_too_often_is_down_until_it_answers() -> None:
    """A child that fails three times in a row is down until it answers once."""
    world = World()
    world.children.away.add("west")
    await let_pass(world, 40)
    assert world.names == ["west", "east"]
    await let_pass(world, 60)
    assert world.names == ["east"]
    assert world.told.failed == ["zone_offline"]
    world.children.away.clear()
    await let_pass(world, 700)
    assert world.names == ["west", "east"]
    assert world.told.events == ["zone_online"]
    state = world.watch.states()[1]
    assert state.info is not None
    assert state.info.capabilities == {"os": ("linux",)}


async def test_one_that_is_down_is_asked_less_often() -> None:
    """A child that is down is asked less and less often, up to every five minutes."""
    world = World()
    world.children.away.add("west")
    await let_pass(world, 3000)
    assert world.children.asked.count("west") < 20
    assert world.children.asked.count("east") > 80


async def test_children_are_asked_as_often_when_the_time_of_day_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that is set back does not delay the questions to children."""
    world = World()
    world.children.away.add("west")
    await let_pass(world, 100)
    assert world.names == ["east"]
    world.children.away.clear()
    right = VirtualClock.now_s
    monkeypatch.setattr(VirtualClock, "now_s", lambda clock: right(clock) - 3600)
    await let_pass(world, 700)
    assert world.names == ["west", "east"]


async def test_a_zone_with_another_name_is_down() -> None:
    """A child that answers with another name is down."""
    world = World()
    world.children.names["west"] = "north"
    await let_pass(world, 1)
    assert world.names == ["east"]
    assert world.told.events == ["zone_name_mismatch"]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_records_are_followed(*, is_enabled: bool) -> None:
    """Children follow their records in the ledger."""
    world = World()
    world.watch.apply(
        [Change(2, replace(EAST, is_enabled=is_enabled)), Change(3, RecordRemoved(Kind.ZONE, "1"))]
    )
    assert world.names == (["east"] if is_enabled else [])
    assert world.watch.zone_of(1) is None
    assert world.watch.zone_of(2) == replace(EAST, is_enabled=is_enabled)


async def test_a_new_address_gets_a_new_chance() -> None:
    """A child with a new URL is active again."""
    world = World()
    world.children.away.add("west")
    await let_pass(world, 200)
    assert world.names == ["east"]
    world.watch.apply([Change(2, replace(WEST, api_url="http://elsewhere"))])
    assert world.names == ["west", "east"]


async def test_children_are_counted_by_state() -> None:
    """Children are counted by state."""
    world = World()
    world.children.away.add("west")
    assert world.counts == {"active": 2, "offline": 0, "disabled": 0}
    await let_pass(world, 100)
    assert world.counts == {"active": 1, "offline": 1, "disabled": 0}
    world.watch.apply([Change(2, replace(EAST, is_enabled=False))])
    assert world.counts == {"active": 0, "offline": 1, "disabled": 1}


def test_a_child_that_was_removed_is_none() -> None:
    """A removed child is not listed."""
    world = World()
    gone = Zone(2, "east", "", is_enabled=False, is_removed=True)
    world.watch.apply([Change(2, gone)])
    assert world.watch.zone_of(2) is None
    world.watch.load(Snapshot(1, 0.0, zones=(EAST,)))
    assert world.watch.zone_of(2) == EAST
    world.watch.load(Snapshot(1, 0.0, zones=(gone,)))
    assert not world.watch.states()
