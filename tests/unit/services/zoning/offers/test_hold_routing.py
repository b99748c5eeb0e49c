"""Tests for several schedulers of one zone that build each other's offers."""

import asyncio

import pytest

from berth.adapters.bus.local import LocalBus
from berth.domain.zones.offer import LapsedHoldAction, OfferRefusalReason
from berth.domain.zones.zone_orders import (
    BuildOutcome,
    Offers,
    ReleaseOrder,
    SelectOrder,
    UnusedOffers,
)
from berth.services.zoning.messages.zone_commands import (
    BUILD,
    BUILD_HELD,
    RELEASE,
    SELECT,
    HeldBuildOrder,
)
from tests.unit.services.wiring import Fleet, Told, open_desk, open_second
from tests.unit.services.zoning.zone_harness import (
    InProcessZones,
    ZoneServices,
    build_order,
    request_of,
)

FIRST, SECOND = b"first___", b"second__"
TIMEOUT_S = 5.0


async def open_pair(
    *, vcpus: int = 4, on_gone: LapsedHoldAction = LapsedHoldAction.TAKE
) -> tuple[ZoneServices, ZoneServices, LocalBus]:
    """Return two schedulers of a zone with one host, and their bus."""
    near, bus = InProcessZones(), LocalBus(Told())
    desk = await open_desk(Fleet(hosts=1, vcpus=vcpus))
    first = ZoneServices("zone", desk, near, on_gone=on_gone, holder=FIRST, bus=bus)
    other = await open_second(desk)
    second = ZoneServices("zone", other, near, on_gone=on_gone, holder=SECOND, bus=bus)
    return first, second, bus


async def offered(bus: LocalBus, order: SelectOrder) -> Offers:
    """Request offers over the bus and return them."""
    return await bus.call(SELECT, order, timeout_s=TIMEOUT_S)


async def settled() -> None:
    """Let all background tasks finish."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_offer_is_built_by_the_scheduler_that_holds_its_room() -> None:
    """An offer is built by the scheduler that holds it, even if another one is asked."""
    first, second, bus = await open_pair(vcpus=1)
    first.handlers.serve(bus)
    request = request_of(1)
    offers = await offered(bus, first.select_order(request))
    assert len(first.held) == 1
    outcomes = await second.builder.build(build_order(request, offers.blobs))
    assert outcomes == (BuildOutcome(request.instance_uuids[0]),)
    assert len(first.held) == 0
    assert first.desk.used(1)["VCPU"] == 1


async def test_the_commands_reach_any_scheduler() -> None:
    """The commands work through any scheduler on the bus."""
    first, second, bus = await open_pair(vcpus=2)
    first.handlers.serve(bus)
    second.handlers.serve(bus)
    request = request_of(2)
    offers = await offered(bus, first.select_order(request))
    built = await bus.call(BUILD, build_order(request, offers.blobs), timeout_s=TIMEOUT_S)
    assert [one.flaw for one in built.outcomes] == [None, None]
    assert len(first.held) == len(second.held) == 0
    order = ReleaseOrder("client", withdrawn=(), project_id="p")
    released = await bus.call(RELEASE, order, timeout_s=TIMEOUT_S)
    assert released.kept == frozenset()


@pytest.mark.parametrize("on_gone", [LapsedHoldAction.TAKE, LapsedHoldAction.REFUSE])
async def test_a_scheduler_that_is_gone_took_its_holds_along(on_gone: LapsedHoldAction) -> None:
    """Offers of a scheduler that is gone are treated as lapsed holds."""
    first, second, _ = await open_pair(on_gone=on_gone)
    request = request_of(1)
    offers = await first.selector.offers(first.select_order(request))
    (outcome,) = await second.builder.build(build_order(request, offers.blobs))
    assert outcome.flaw == (OfferRefusalReason.GONE if on_gone is LapsedHoldAction.REFUSE else None)


async def test_a_scheduler_that_does_not_answer_may_still_build() -> None:
    """If the holding scheduler fails, the outcome is unsettled."""
    first, second, bus = await open_pair(on_gone=LapsedHoldAction.REFUSE)

    async def break_down(order: HeldBuildOrder) -> None:
        raise RuntimeError(order.key)

    bus.serve(BUILD_HELD, break_down, server=FIRST.hex())  # type: ignore[arg-type]
    request = request_of(1)
    offers = await first.selector.offers(first.select_order(request))
    (outcome,) = await second.builder.build(build_order(request, offers.blobs))
    assert outcome.flaw is OfferRefusalReason.UNSETTLED


async def test_both_may_build_the_same_offer() -> None:
    """Two schedulers that build the same offer make one claim."""
    first, second, _ = await open_pair()
    request = request_of(1)
    offers = await first.selector.offers(first.select_order(request))
    order = build_order(request, offers.blobs)
    both = await asyncio.gather(second.builder.build(order), first.builder.build(order))
    assert [one.flaw for outcomes in both for one in outcomes] == [None, None]
    assert (await first.desk.ledger.used(1))["VCPU"] == 1


async def test_offers_are_let_go_whoever_has_made_them() -> None:
    """A release through any scheduler reaches the one that holds the offers."""
    first, second, bus = await open_pair()
    first.handlers.serve(bus)
    offers = await first.selector.offers(first.select_order(request_of(3)))
    assert len(first.held) == 3
    order = ReleaseOrder("client", surplus=(UnusedOffers(offers.select_id, 1),))
    await second.release_handler.release(order)
    await settled()
    assert len(first.held) == 1


async def test_a_stranger_lets_nothing_go() -> None:
    """A parent cannot release the offers of another parent."""
    first, second, bus = await open_pair()
    first.handlers.serve(bus)
    second.handlers.serve(bus)
    offers = await first.selector.offers(first.select_order(request_of(2)))
    order = ReleaseOrder("somebody", surplus=(UnusedOffers(offers.select_id),))
    await second.release_handler.release(order)
    await settled()
    assert len(first.held) == 2
