"""Tests for capacity and dry runs over a tree of zones."""

import asyncio
import os
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import pytest

from berth.domain.compute.decision import Decision, NoValidHostError, Verdict
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import SelectOrder, ZoneCapacity
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.filters.below_host_limits import build_num_instances
from berth.scheduling.plan.capacity import Capacity
from berth.services.zoning.offers.selection import Selection
from berth.testing.builders import make_uuid
from tests.unit.services.wiring import order_of
from tests.unit.services.zoning.zone_harness import (
    InProcessZones,
    SharePolicy,
    ZoneServices,
    open_tree,
    open_zone_services,
    request_of,
)

TREES: Final = int(os.environ.get("BERTH_WALKS", "4"))
GROUP: Final = make_uuid("group", 1)
PLACES: Final = 30
"""The number of instances that fit in the tree of `open_tree`."""


@dataclass
class LimitedPolicy:
    """The policy of the tests, with a limit on the instances of a host."""

    most: int

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        policy = SharePolicy().policy
        limit = build_num_instances(max_instances_per_host=self.most)
        return replace(policy, filters=(*policy.filters, limit))


async def random_tree(rng: Random) -> ZoneServices:
    """Return the root of a tree of up to five zones, each under a random earlier one."""
    near = InProcessZones()
    policies = rng.choice((SharePolicy(), LimitedPolicy(rng.randint(1, 3))))
    houses: list[ZoneServices] = []
    for number in range(rng.randint(1, 5)):
        house = await open_zone_services(
            f"z{number}", near, hosts=rng.randint(0, 3), vcpus=rng.randint(1, 4), policies=policies
        )
        if houses:
            rng.choice(houses).adopt(house)
        houses.append(house)
    return houses[0]


def asking(template: Request, request_id: str, count: int) -> Request:
    """Return a request like the template for a number of instances."""
    uuids = tuple(instance_uuid_of(request_id, number) for number in range(count))
    return replace(template, request_id=request_id, instance_uuids=uuids)


async def is_placed(root: ZoneServices, request: Request) -> bool:
    """Place a request and return whether the tree took it."""
    order = order_of(request)
    members = tuple(replace(one, group_uuid=request.group_uuid) for one in order.instances)
    try:
        decision = await root.tree.place(replace(order, instances=members))
    except NoValidHostError:
        return False
    return decision.verdict is Verdict.PLACED


async def check(root: ZoneServices, template: Request) -> int:
    """Check the law for the present state of a tree; return the capacity."""
    found = await root.capacity.count(template)
    assert not found.is_partial
    for count in {1, max(1, found.total // 2), max(1, found.total), found.total + 1}:
        dry = await root.dry_runs.decide(asking(template, "dry", count))
        assert (dry.verdict is Verdict.PLACED) == (count <= found.total), (count, found)
        assert not dry.is_partial
    assert all(not house.held for house in root.near.houses.values())
    return found.total


@pytest.mark.parametrize("policy", [None, GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY])
@pytest.mark.parametrize("seed", range(TREES))
async def test_a_create_places_as_many_as_capacity_says(
    seed: int, policy: GroupPolicy | None
) -> None:
    """Dry runs and creates accept `capacity` instances and refuse one more, also afterwards."""
    root = await random_tree(Random(seed))
    template = request_of(1)
    if policy is not None:
        group = ServerGroup(GROUP, "g", policy, "p", "u", Random(seed).randint(1, 2))
        await root.desk.ledger.write(Put(group))
        await root.desk.follower.catch_up()
        template = replace(template, group_uuid=GROUP)
    for number in range(3):
        most = await check(root, template)
        assert not await is_placed(root, asking(template, f"more-{number}", most + 1))
        # The refused request must not have changed anything.
        assert await check(root, template) == most
        some = Random(seed + number).randint(0, most) if number < 2 else most
        if some:
            assert await is_placed(root, asking(template, f"some-{number}", some))
        for house in root.near.houses.values():
            await house.desk.follower.catch_up()
    if policy is not GroupPolicy.AFFINITY:
        assert await check(root, template) == 0


async def test_hosts_and_zones_are_named_as_far_as_this_zone_knows_them() -> None:
    """A plan on this zone's hosts names them; one over the tree counts instances by child."""
    root = await open_tree()
    dry = await root.dry_runs.decide(request_of(PLACES))
    assert sum(one.instances for one in dry.zones) == PLACES
    assert {one.zone for one in dry.zones} == {"root", "west", "east"}
    assert dry.placements == ()
    root.is_alone = True
    here = await root.dry_runs.decide(request_of(2), explains=True)
    assert (here.zones, len(here.placements)) == ((), 2)
    assert here.counterfactuals


@pytest.mark.parametrize("name", ["west", "deep"])
async def test_an_answer_without_a_child_is_partial(name: str) -> None:
    """The direct child is named, also if a zone below it is missing."""
    root = await open_tree()
    whole = await root.capacity.count(request_of())
    root.near.away.add(name)
    found = await root.capacity.count(request_of())
    direct = "west" if name == "west" else "east"
    assert found.is_partial
    assert 0 < found.total < whole.total
    partial = [
        one.zone for one in found.children if one.capacity is None or one.capacity.is_partial
    ]
    assert partial == [direct]
    dry = await root.dry_runs.decide(request_of(PLACES))
    assert (dry.verdict, dry.is_partial) == (Verdict.REFUSED, True)
    assert dry.zones_missing == (direct,)
    assert dry.refusal is not None
    assert "A part of the cloud gave no answer" in dry.refusal.message
    # What fits elsewhere is placed all the same.
    few = await root.dry_runs.decide(request_of(found.total))
    assert (few.verdict, few.is_partial) == (Verdict.PLACED, True)


async def test_a_child_that_is_down_makes_the_answer_partial() -> None:
    """A child known to be down is not asked, and counts as missing."""
    root = await open_tree()
    west = root.children[0]
    root.down.append(west)
    found = await root.capacity.count(request_of())
    assert ("west", "capacity") not in root.near.asked
    assert [one.zone for one in found.children if one.capacity is None] == ["west"]
    dry = await root.dry_runs.decide(request_of(PLACES))
    assert dry.zones_missing == ("west",)


async def test_a_child_of_an_earlier_version_makes_the_answer_partial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a child cannot count, but it offers room for dry runs as for creates."""
    root = await open_tree()
    ask = InProcessZones.capacity

    async def old(
        self: InProcessZones, zone: Zone, order: SelectOrder, *, timeout_s: float
    ) -> ZoneCapacity:
        if zone.name == "west":
            raise UnavailableError("zone west answered 405")
        return await ask(self, zone, order, timeout_s=timeout_s)

    monkeypatch.setattr(InProcessZones, "capacity", old)
    found = await root.capacity.count(request_of())
    assert (found.total, found.is_partial) == (PLACES - 8, True)
    # Every request of a tenant meets the same failure, and the log has one line a minute about it.
    await root.capacity.count(request_of())
    assert root.desk.told.failed == ["zone_capacity_failed"]
    await root.desk.clock.sleep(60.0)
    await root.capacity.count(request_of())
    assert root.desk.told.failed == ["zone_capacity_failed"] * 2
    dry = await root.dry_runs.decide(request_of(PLACES))
    assert (dry.verdict, dry.is_partial) == (Verdict.PLACED, False)


async def test_a_request_that_names_a_host_stays_here() -> None:
    """Children are not asked, so their absence does not make the answer partial."""
    root = await open_tree()
    root.near.away |= {"west", "east"}
    for named in (
        replace(request_of(), force_hosts=("host-0",)),
        replace(request_of(), hints={"build_near_host_ip": ("10.0.0.1",)}),
    ):
        found = await root.capacity.count(named)
        assert (found.children, found.is_partial) == ((), False)
        assert not (await root.dry_runs.decide(named)).is_partial


async def test_a_zone_is_counted_once_in_a_ring() -> None:
    """A zone that is asked for its own order through another zone reports nothing."""
    near = InProcessZones()
    one, two = [await open_zone_services(name, near) for name in ("one", "two")]
    one.adopt(two)
    two.adopt(one)
    found = await one.capacity.count(request_of())
    assert (found.total, found.is_partial) == (16, False)


async def test_a_zone_with_two_parents_is_counted_once() -> None:
    """Capacity, dry runs and creates agree over a diamond of zones."""
    near = InProcessZones()
    top, left, right, bottom = [
        await open_zone_services(name, near, hosts=hosts)
        for name, hosts in (("top", 1), ("left", 1), ("right", 1), ("bottom", 2))
    ]
    top.adopt(left, right)
    left.adopt(bottom)
    right.adopt(bottom)
    for _ in range(2):
        assert await check(top, request_of()) == 20
    assert not await is_placed(top, asking(request_of(), "more", 21))
    assert await is_placed(top, asking(request_of(), "all", 20))


async def test_a_mesh_of_zones_asks_each_zone_once_for_each_parent() -> None:
    """The number of calls grows with the square of the number of zones, not with its factorial."""
    near = InProcessZones()
    zones = [await open_zone_services(f"z{number}", near, hosts=1) for number in range(5)]
    for zone in zones:
        zone.adopt(*(other for other in zones if other is not zone))
    assert (await zones[0].capacity.count(request_of())).total == 20
    assert len(near.asked) <= 20
    near.asked.clear()
    dry = await zones[0].dry_runs.decide(asking(request_of(), "dry", 21))
    assert dry.verdict is Verdict.REFUSED
    assert len(near.asked) <= 20


async def test_a_group_that_leaves_its_home_asks_again_below() -> None:
    """A repeated inquiry of one parent replaces its first one, at every level."""
    near = InProcessZones()
    top, middle, low = [await open_zone_services(name, near) for name in ("top", "middle", "low")]
    top.adopt(middle)
    middle.adopt(low)
    group = ServerGroup(GROUP, "g", GroupPolicy.ANTI_AFFINITY, "p", "u")
    order = replace(
        top.select_order(request_of(4), audience="top"), group=group, hold=False, marks=(b"first",)
    )
    for _ in range(2):
        assert len((await middle.selector.offers(order)).weights) == 4
    other = replace(order, audience="other")
    assert (await middle.selector.offers(other)).weights == ()


async def test_a_zone_does_not_count_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline may pass before an order arrives, or while it waits for another count."""
    zone = await open_zone_services("zone", InProcessZones())
    desk = zone.desk
    now_s, counted = desk.clock.now_s(), 0
    count = desk.decision_service.capacity

    async def slow(request: Request) -> Capacity:
        nonlocal now_s, counted
        counted += 1
        # The first count still holds the lock when the others arrive; the second takes too long.
        now_s += 3.0 if counted == 2 else 0.0
        return await count(request)

    monkeypatch.setattr(desk.clock, "now_s", lambda: now_s)
    monkeypatch.setattr(desk.decision_service, "capacity", slow)
    order = zone.select_order(request_of(), audience="parent")
    with pytest.raises(UnavailableError, match="deadline"):
        await zone.capacity.count_for_parent(replace(order, deadline_s=desk.clock.now_s()))
    assert counted == 0
    answers = await asyncio.gather(
        zone.capacity.count_for_parent(order),
        zone.capacity.count(request_of()),
        zone.capacity.count(request_of()),
        zone.capacity.count_for_parent(order),
        return_exceptions=True,
    )
    assert answers[0] == ZoneCapacity(8)
    assert not isinstance(answers[1], BaseException)
    assert [type(one) for one in answers[2:]] == [UnavailableError, UnavailableError]
    assert counted == 2


async def test_other_work_runs_between_two_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that arrive together do not keep the event loop busy until the last one ends."""
    zone = await open_zone_services("zone", InProcessZones())
    service = zone.desk.decision_service
    count = service.capacity
    turn = 0
    turns: list[int] = []

    async def noted(request: Request) -> Capacity:
        turns.append(turn)
        return await count(request)

    async def other_work() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(service, "capacity", noted)
    working = asyncio.create_task(other_work())
    await asyncio.gather(*(zone.capacity.count(request_of()) for _ in range(5)))
    working.cancel()
    assert len(set(turns)) == 5


async def test_a_zone_does_not_decide_on_a_dry_run_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The deadline may pass while a dry run waits for another one; creates do not wait."""
    zone = await open_zone_services("zone", InProcessZones())
    desk = zone.desk
    now_s, decided = desk.clock.now_s(), 0
    decide = desk.decision_service.decide

    def slow(request: Request) -> Decision:
        nonlocal now_s, decided
        decided += 1
        now_s += 3.0
        return decide(request)

    monkeypatch.setattr(desk.clock, "now_s", lambda: now_s)
    monkeypatch.setattr(desk.decision_service, "decide", slow)
    create = zone.select_order(request_of(2), audience="parent")
    orders = [replace(create, hold=False, audience=name) for name in ("zone", "parent")]
    answers = await asyncio.gather(
        *(zone.selector.select(order) for order in orders),
        zone.selector.select(create),
        return_exceptions=True,
    )
    assert [type(one) for one in answers] == [Selection, UnavailableError, Selection]
    assert decided == 2


async def test_a_dry_run_leaves_the_home_of_a_group() -> None:
    """A group without members keeps its recorded home zone, although a request may go elsewhere."""
    root = await open_tree()
    group = ServerGroup(GROUP, "g", GroupPolicy.AFFINITY, "p", "u", zone_id=1)
    await root.desk.ledger.write(Put(group))
    await root.desk.follower.catch_up()
    request = replace(request_of(8), group_uuid=GROUP)
    # Hosts of the home zone have room for four; the host of east has room for eight.
    assert (await root.capacity.count(request)).total == 8
    dry = await root.dry_runs.decide(request)
    assert [(one.zone, one.instances) for one in dry.zones] == [("east", 8)]
    assert await root.desk.ledger.get(ServerGroup, GROUP) == group
