"""Tests for selecting offers over a tree of zones."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.request import Destination
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.zones.offer import BLOB_BYTES_MIN, ChildTerms, HostTerms
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import OFFER_BYTES, Offers, SelectOrder, UnusedOffers
from berth.services.zoning.offers.offer_seals import LAYER_BYTES
from berth.services.zoning.offers.selection import Selection
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.zoning.zone_harness import (
    HOLD_S,
    InProcessZones,
    ZoneServices,
    open_tree,
    open_zone_services,
    request_of,
)

PLACES = 2 + 2 * 4 + 8 + 3 * 4
"""The number of VCPUs in the whole tree."""


def sources(selection: Selection) -> set[int]:
    """Return the ids of the children that choices lead to, and 0 for this zone."""
    return {
        choice.where.zone_id if isinstance(choice.where, ChildTerms) else 0
        for choice in selection.choices
    }


def held(house: ZoneServices) -> list[int]:
    """Return the number of held offers in each zone, in the order of their names."""
    return [len(one.held) for _, one in sorted(house.near.houses.items())]


async def test_the_whole_tree_is_offered() -> None:
    """All places of the tree are offered."""
    root = await open_tree()
    offers = await root.selector.offers(root.select_order(request_of(40)))
    assert len(offers.weights) == len(offers.blobs) == PLACES
    assert offers.late == 0


async def test_all_blobs_have_one_length() -> None:
    """All blobs have the same length."""
    root = await open_tree()
    offers = await root.selector.offers(root.select_order(request_of(40)))
    assert {len(blob) for blob in offers.blobs} == {OFFER_BYTES}


async def test_a_zone_below_the_last_layer_is_not_asked() -> None:
    """A zone for which no layer fits into the blob is not asked."""
    root = await open_tree()
    order = replace(root.select_order(request_of(40)), blob_bytes=BLOB_BYTES_MIN + LAYER_BYTES)
    offers = await root.selector.offers(order)
    assert len(offers.blobs) == PLACES - 12
    assert ("deep", "select") not in root.near.asked
    assert root.near.houses["east"].desk.told.events == ["zone_too_deep"]


async def ring_of(*names: str) -> ZoneServices:
    """Return the first of several zones that are all children of each other."""
    near = InProcessZones()
    houses = [await open_zone_services(name, near, hosts=1, vcpus=2) for name in names]
    for house in houses:
        house.adopt(*(one for one in houses if one is not house))
    return houses[0]


@pytest.mark.parametrize("names", [("east", "west"), ("east", "west", "north")])
async def test_zones_that_are_children_of_each_other_ask_each_other_once(
    names: tuple[str, ...],
) -> None:
    """Zones in a ring ask each other once, and no place is offered twice."""
    east = await ring_of(*names)
    offers = await east.selector.offers(east.select_order(request_of(40)))
    assert len(offers.weights) == 2 * len(names)
    assert east.desk.told.events == ["zone_in_a_ring"] * (len(names) - 1)
    assert len(east.near.asked) == {2: 2, 3: 10}[len(names)]


async def test_operators_are_told_of_a_ring_once_a_minute() -> None:
    """A ring is reported at most once a minute."""
    east = await ring_of("east", "west")
    for _ in range(3):
        await east.selector.offers(east.select_order(request_of(1)))
    assert east.desk.told.events == ["zone_in_a_ring"]
    await east.desk.clock.sleep(60.0)
    await east.selector.offers(east.select_order(request_of(1)))
    assert east.desk.told.events == ["zone_in_a_ring"] * 2


async def test_the_best_zone_wins() -> None:
    """The best choice of all zones comes first."""
    root = await open_tree()
    selection = await root.selector.select(root.select_order(request_of(1)))
    weights = [choice.weight for choice in (*selection.choices, *selection.spares)]
    assert len(selection.choices) == 1
    assert weights[0] == max(weights)


async def test_a_parents_scale_decides() -> None:
    """The weight offset of a child's record changes its weights."""
    root = await open_tree()
    root.children[0] = replace(root.children[0], weight_offset=100.0)
    selection = await root.selector.select(root.select_order(request_of(8)))
    assert sources(selection) == {1}
    assert all(choice.weight > 99 for choice in selection.choices)


async def test_what_is_offered_is_held() -> None:
    """Offers are held in every zone until their time is over."""
    root = await open_tree()
    order = root.select_order(request_of(40))
    first = await root.selector.select(order)
    assert len(first.choices) == sum(held(root)) == PLACES
    assert not (await root.selector.select(order)).choices
    await root.desk.clock.sleep(HOLD_S)
    again = root.select_order(request_of(40))
    assert len((await root.selector.select(again)).choices) == PLACES


@pytest.mark.parametrize("step_s", [-30.0, 30.0])
async def test_a_hold_lasts_as_long_when_the_time_of_day_is_set(
    monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """A hold lasts equally long if the clock is set back or forward."""
    root = await open_tree()
    await root.selector.select(root.select_order(request_of(40)))
    right = VirtualClock.now_s
    monkeypatch.setattr(VirtualClock, "now_s", lambda clock: right(clock) + step_s)
    await root.desk.clock.sleep(HOLD_S / 2)
    assert not (await root.selector.select(root.select_order(request_of(40)))).choices
    await root.desk.clock.sleep(HOLD_S / 2)
    order = root.select_order(request_of(40))
    assert len((await root.selector.select(order)).choices) == PLACES


async def test_a_select_may_hold_nothing() -> None:
    """A select with `hold` off holds nothing."""
    root = await open_tree()
    await root.selector.offers(replace(root.select_order(request_of(4)), hold=False))
    assert sum(held(root)) == 0


async def test_a_selection_is_released_in_the_whole_tree() -> None:
    """A selection is released in the whole tree, for its own parent only."""
    root = await open_tree()
    order = root.select_order(request_of(40))
    selection = await root.selector.select(order)
    await root.selector.release(UnusedOffers(selection.select_id, keep=13), order.audience)
    assert sum(held(root)) == 13
    await root.selector.release(UnusedOffers(selection.select_id), "another parent")
    assert sum(held(root)) == 13
    await root.selector.release(UnusedOffers(selection.select_id), order.audience)
    assert sum(held(root)) == 0


async def test_a_child_is_told_once_of_what_it_is_to_let_go() -> None:
    """A child is not told again about offers that it has already released."""
    root = await open_tree()
    order = root.select_order(request_of(1))
    selection = await root.selector.select(order)
    (best,) = selection.choices
    chosen = best.where.zone_id if isinstance(best.where, ChildTerms) else 0
    await root.selector.release(UnusedOffers(selection.select_id, keep=1), order.audience)
    told = [name for name, verb in root.near.asked if verb == "release"]
    names = {zone.name for zone in root.children if zone.zone_id != chosen}
    assert names <= set(told)
    await root.selector.release(UnusedOffers(selection.select_id), order.audience)
    again = [name for name, verb in root.near.asked if verb == "release"][len(told) :]
    assert not names & set(again)
    assert sum(held(root)) == 0


async def test_a_child_that_was_away_is_told_with_the_rest() -> None:
    """A child that did not receive a release gets it with the next one."""
    root = await open_tree()
    order = root.select_order(request_of(1))
    selection = await root.selector.select(order)
    root.near.away |= {"west", "east"}
    await root.selector.release(UnusedOffers(selection.select_id, keep=1), order.audience)
    root.near.away.clear()
    await root.selector.release(UnusedOffers(selection.select_id), order.audience)
    assert sum(held(root)) == 0


async def test_what_is_not_used_goes_along_with_the_next_select() -> None:
    """With gathering, releases are sent with the next select."""
    root = await open_tree(gathers=True)
    order = root.select_order(request_of(40))
    first = await root.selector.select(order)
    await root.selector.release(UnusedOffers(first.select_id), order.audience)
    assert sum(held(root)) == PLACES - 2
    second = await root.selector.select(root.select_order(request_of(40, request_id="req-2")))
    assert len(second.choices) == sum(held(root)) == PLACES
    await root.selector.release(UnusedOffers(second.select_id, keep=PLACES), order.audience)
    assert {verb for _, verb in root.near.asked} == {"select"}


async def test_what_a_child_did_not_hear_goes_along_again() -> None:
    """With gathering, a release that a child did not receive is sent with a later select."""
    root = await open_tree(gathers=True)
    order = root.select_order(request_of(40))
    first = await root.selector.select(order)
    root.near.away.add("west")
    await root.selector.release(UnusedOffers(first.select_id), order.audience)
    await root.selector.select(replace(order, hold=False))
    assert held(root)[-1] == 8
    root.near.away.clear()
    await root.selector.select(replace(order, hold=False))
    assert sum(held(root)) == 0


async def test_a_child_that_is_away_is_left_out() -> None:
    """A child that is away is left out of the selection."""
    root = await open_tree()
    root.near.away.add("west")
    selection = await root.selector.select(root.select_order(request_of(40)))
    assert (len(selection.choices), selection.late) == (PLACES - 8, 1)
    assert root.desk.told.failed == ["zone_select_failed"]


async def test_a_child_that_is_slow_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that misses the deadline is left out of the selection."""
    root = await open_tree()

    async def slow(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(root.near.houses["east"].selector, "offers", slow)
    order = replace(root.select_order(request_of(40)), deadline_s=root.desk.clock.now_s() + 0.05)
    selection = await root.selector.select(order)
    assert (len(selection.choices), selection.late) == (PLACES - 20, 1)


async def test_each_zone_keeps_a_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each zone gives its children less time than it has itself."""
    root, asked = await open_tree(), dict[str, SelectOrder]()

    def hear(name: str) -> None:
        house = root.near.houses[name].selector
        answer = house.offers

        async def heard(order: SelectOrder) -> Offers:
            asked[name] = order
            return await answer(order)

        monkeypatch.setattr(house, "offers", heard)

    for name in ("east", "deep"):
        hear(name)
    order = root.select_order(request_of(1))
    now_s = root.desk.clock.now_s()
    await root.selector.select(order)
    left_s = [one.deadline_s - now_s for one in (order, asked["east"], asked["deep"])]
    assert left_s == pytest.approx([2.0, 1.8, 1.62])


async def test_a_child_that_answers_oddly_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child whose blobs have another length is left out of the selection."""
    root = await open_tree()
    west = root.near.houses["west"].selector
    right = west.offers

    async def odd(order: object) -> object:
        offers = await right(order)  # type: ignore[arg-type]
        return replace(offers, blobs=tuple(blob + b"x" for blob in offers.blobs))

    monkeypatch.setattr(west, "offers", odd)
    selection = await root.selector.select(root.select_order(request_of(40)))
    assert len(selection.choices) == PLACES - 8
    assert "zone_response_invalid" in root.desk.told.events


async def test_a_named_host_is_of_this_zone() -> None:
    """A request for a named host is not sent to children."""
    root = await open_tree()
    request = replace(request_of(), destination=Destination("host-1", "host-1"))
    selection = await root.selector.select(root.select_order(request))
    assert sources(selection) == {0}
    assert not root.near.asked


async def test_names_of_hosts_do_not_leave_the_zone() -> None:
    """Host names in a request are not sent to children."""
    near = InProcessZones()
    root, child = await open_zone_services("root", near), await open_zone_services("child", near)
    root.adopt(child)
    seen: list[object] = []
    right = near.select

    async def watch(zone: Zone, order: object, *, timeout_s: float) -> object:
        seen.append(order)
        return await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]

    near.select = watch  # type: ignore[method-assign, assignment]
    request = replace(
        request_of(),
        ignore_hosts=("secret",),
        retried=(("secret", "secret"),),
        source_cell="secret",
    )
    await root.selector.select(root.select_order(request))
    assert len(seen) == 1
    assert "secret" not in repr(seen)


async def test_members_of_an_affinity_group_stay_together() -> None:
    """Members of an affinity group are all chosen from one zone."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY)
    request = replace(request_of(7), group_uuid=group.uuid)
    order = replace(root.select_order(request), group=group)
    selection = await root.selector.select(order)
    assert sources(selection) == {2}
    assert not root.desk.replica.hosts.server_groups


async def test_a_zone_offers_a_host_that_takes_the_whole_affinity_group() -> None:
    """A child offers its host with room for all members, although another ranks first for one."""
    near = InProcessZones()
    root = await open_zone_services("root", near, hosts=1, vcpus=1)
    child = await open_zone_services("child", near, hosts=2, vcpus=4)
    root.adopt(child)
    table = child.desk.replica.hosts
    probe = (await child.offer_maker.offer(child.select_order(request_of()))).offers[0]
    child.held.expire(float("inf"))
    row = table.row_of(probe.provider_uuid)
    assert row is not None
    table.hold(row, {"VCPU": 2})
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY)
    request = replace(request_of(4), group_uuid=group.uuid)
    selection = await root.selector.select(replace(root.select_order(request), group=group))
    assert len(selection.choices) == 4
    assert len(sources(selection)) == 1


async def test_members_of_an_anti_affinity_group_are_on_different_hosts() -> None:
    """Members of an anti-affinity group are chosen on different hosts of all zones."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.ANTI_AFFINITY)
    request = replace(request_of(10), group_uuid=group.uuid)
    selection = await root.selector.select(replace(root.select_order(request), group=group))
    assert len(selection.choices) == 7


async def test_no_room_anywhere() -> None:
    """Without room the selection is empty and has a refusal."""
    root = await open_tree()
    request = replace(request_of(), flavor=replace(request_of().flavor, vcpus=100))
    selection = await root.selector.select(root.select_order(request))
    assert not selection.choices
    assert selection.decision.refusal is not None


async def test_choices_here_name_their_hold() -> None:
    """Choices of this zone have consecutive places, by which builds find their holds."""
    root = await open_tree()
    selection = await root.selector.select(root.select_order(request_of(40)))
    mine = [one.where.place for one in selection.choices if isinstance(one.where, HostTerms)]
    assert mine == [0, 1]
