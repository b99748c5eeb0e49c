"""Tests for project quotas over a tree of zones."""

from dataclasses import replace

import pytest

from berth.domain.compute.decision import Verdict
from berth.domain.compute.quota import UNLIMITED, Footprint, QuotaExceededError
from berth.domain.ledger.write import QuotaCheck
from berth.services.requests.orders import PlaceOrder
from tests.unit.services.wiring import order_of
from tests.unit.services.zoning.delegation.test_tree_placement import live
from tests.unit.services.zoning.zone_harness import ZoneServices, open_tree, request_of


def order(count: int, number: int, *, limit: int) -> PlaceOrder:
    """Return an order of a project with this instance limit and distinct uuids."""
    request = request_of(count, request_id=f"req-{number}")
    uuids = tuple(f"{index:08}-{number:04}-4000-8000-000000000000" for index in range(count))
    within = QuotaCheck("p", Footprint(limit, UNLIMITED, UNLIMITED))
    return replace(order_of(replace(request, instance_uuids=uuids)), within=within)


async def footprint(house: ZoneServices) -> int:
    """Return the number of the project's instances that count in a zone."""
    return (await house.desk.ledger.project_footprint("p")).instances


async def test_what_is_in_other_zones_counts() -> None:
    """Instances in child zones count against the project's limit."""
    root = await open_tree()
    assert (await root.tree.place(order(20, 1, limit=20))).verdict is Verdict.PLACED
    assert await footprint(root) == 20
    with pytest.raises(QuotaExceededError):
        await root.tree.place(order(1, 2, limit=20))
    assert (await root.tree.place(order(1, 3, limit=21))).verdict is Verdict.PLACED


async def test_a_request_for_more_than_there_may_be_asks_nobody_to_build() -> None:
    """A request above the limit is refused before any child builds."""
    root = await open_tree()
    with pytest.raises(QuotaExceededError):
        await root.tree.place(order(5, 1, limit=4))
    assert await footprint(root) == 0
    assert ("west", "build") not in root.near.asked


async def test_what_was_refused_does_not_count() -> None:
    """A refused request does not count in the children."""
    root = await open_tree()
    decision = await root.tree.place(order(40, 1, limit=50))
    assert decision.verdict is Verdict.REFUSED
    for house in root.near.houses.values():
        # Instances in ERROR count in the zone of the request until their owner deletes them.
        assert await footprint(house) == (40 if house is root else 0)


async def test_the_limits_of_a_child_hold_there() -> None:
    """The limits of a child hold for it and the zones below it."""
    root = await open_tree()
    for name, limit in (("west", 2), ("east", 5)):
        house = root.near.houses[name]
        house.limits["p"] = Footprint(limit, UNLIMITED, UNLIMITED)
    decision = await root.tree.place(order_of(request_of(9)))
    assert decision.verdict is Verdict.PLACED
    places = {name: len(uuids) for name, uuids in (await live(root)).items()}
    assert places.get("west", 0) <= 2
    assert places.get("east", 0) + places.get("deep", 0) <= 5
    assert sum(places.values()) == 9
