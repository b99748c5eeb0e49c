"""Tests for collecting releases to children."""

import asyncio
from dataclasses import dataclass, field

from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import RemoteInstance, Zone, ZoneInfo
from berth.domain.zones.zone_orders import (
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    RemoteServer,
    SelectOrder,
    ZoneCapacity,
)
from berth.domain.zones.zone_orders import UnusedOffers as Unused
from berth.services.zoning.offers.child_releases import ChildReleases
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told

EAST, WEST = Zone(1, "east", "http://east"), Zone(2, "west", "http://west")
FIRST, SECOND = Unused(b"1" * 16), Unused(b"2" * 16, keep=3)


@dataclass
class Listening:
    """Children that record releases and answer no other call."""

    heard: list[tuple[str, ReleaseOrder]] = field(default_factory=list[tuple[str, ReleaseOrder]])
    deaf: str = ""

    async def info(self, zone: Zone, *, timeout_s: float) -> ZoneInfo:
        """See `ChildZones.info`."""
        raise AssertionError(zone, timeout_s)

    async def select(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> Offers:
        """See `ChildZones.select`."""
        raise AssertionError(zone, order, timeout_s)

    async def capacity(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> ZoneCapacity:
        """See `ChildZones.capacity`."""
        raise AssertionError(zone, order, timeout_s)

    async def build(
        self, zone: Zone, order: BuildOrder, *, timeout_s: float
    ) -> tuple[BuildOutcome, ...]:
        """See `ChildZones.build`."""
        raise AssertionError(zone, order, timeout_s)

    async def release(self, zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        """See `ChildZones.release`."""
        assert timeout_s > 0
        if zone.name == self.deaf:
            raise UnavailableError("away")
        self.heard.append((zone.name, order))
        return frozenset()

    async def server(
        self, zone: Zone, remote: RemoteInstance, *, timeout_s: float
    ) -> RemoteServer | None:
        """See `ChildZones.server`."""
        raise AssertionError(zone, remote, timeout_s)


def child_releases(children: Listening, told: Told, *, pause_s: float) -> ChildReleases:
    """Return the service under test."""
    clock = VirtualClock()
    return ChildReleases(
        zone="top", children=children, clock=clock, telemetry=told, pause_s=pause_s
    )


async def test_without_a_pause_each_is_told_at_once() -> None:
    """Without a pause each release is sent before `add` returns."""
    children = Listening()
    below = child_releases(children, Told(), pause_s=0.0)
    await below.add([(EAST, FIRST), (WEST, FIRST)])
    await below.add([(EAST, SECOND)])
    assert children.heard == [
        ("east", ReleaseOrder("top", surplus=(FIRST,))),
        ("west", ReleaseOrder("top", surplus=(FIRST,))),
        ("east", ReleaseOrder("top", surplus=(SECOND,))),
    ]


async def test_what_comes_in_the_pause_is_told_together() -> None:
    """Releases that come during the pause are sent as one message for each child."""
    children = Listening()
    below = child_releases(children, Told(), pause_s=0.1)
    await below.add([(EAST, FIRST), (WEST, FIRST)])
    await below.add([(EAST, SECOND)])
    assert children.heard == []
    await asyncio.sleep(0.2)
    assert sorted(children.heard) == [
        ("east", ReleaseOrder("top", surplus=(FIRST, SECOND))),
        ("west", ReleaseOrder("top", surplus=(FIRST,))),
    ]
    await below.add([(WEST, SECOND)])
    await asyncio.sleep(0.2)
    assert children.heard[-1] == ("west", ReleaseOrder("top", surplus=(SECOND,)))
    assert len(children.heard) == 3


async def test_what_a_child_did_not_hear_goes_along_with_what_it_is_told_next() -> None:
    """A release that a child did not receive is sent with the next one."""
    children = Listening(deaf="east")
    below = child_releases(children, Told(), pause_s=0.0)
    await below.add([(EAST, FIRST)])
    assert children.heard == []
    children.deaf = ""
    await below.add([(EAST, SECOND)])
    assert children.heard == [("east", ReleaseOrder("top", surplus=(FIRST, SECOND)))]
    assert below.take(EAST) == ()


async def test_a_child_that_does_not_answer_keeps_its_part() -> None:
    """A child that does not answer does not affect other children, and the failure is logged."""
    children, told = Listening(deaf="east"), Told()
    await child_releases(children, told, pause_s=0.0).add([(EAST, FIRST), (WEST, FIRST)])
    assert [name for name, _ in children.heard] == ["west"]
    assert "zone_release_failed" in str(told.__dict__)
