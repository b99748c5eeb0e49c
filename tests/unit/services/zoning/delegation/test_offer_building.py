"""Tests for building instances from offers."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.write import Put
from berth.domain.zones.offer import LapsedHoldAction, OfferKey, OfferRefusalReason
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.domain.zones.zone_orders import BuildOrder, BuildOutcome
from tests.unit.services.zoning.zone_harness import (
    InProcessZones,
    ZoneServices,
    build_order,
    open_tree,
    open_zone_services,
    request_of,
    withdrawal,
)


async def built(house: ZoneServices) -> dict[str, list[Instance]]:
    """Return the live instances of each zone of a tree."""
    found: dict[str, list[Instance]] = {}
    for name, one in house.near.houses.items():
        records = [
            await one.desk.ledger.get(Instance, uuid) for uuid in (request_of(50).instance_uuids)
        ]
        found[name] = [
            one for one in records if one is not None and one.status is not Status.DELETED
        ]
    return found


async def used(house: ZoneServices) -> int:
    """Return the VCPUs in use in the ledgers of the whole tree."""
    total = 0
    for one in house.near.houses.values():
        for number in range(1, 4):
            row = one.desk.replica.hosts.row_of(
                f"{b'host'.hex():0<8.8}-0000-4000-8000-{number:012d}"
            )
            if row is not None:
                total += (await one.desk.ledger.used(number)).get(VCPU, 0)
    return total


def flaws(outcomes: tuple[BuildOutcome, ...]) -> list[OfferRefusalReason | None]:
    """Return the reason for which each item was refused, or None if it is built."""
    return [one.flaw for one in outcomes]


async def test_a_plan_is_built_in_the_whole_tree() -> None:
    """Each instance is built once, in the zone that offered its place."""
    root = await open_tree()
    request = request_of(20)
    offers = await root.selector.offers(root.select_order(request))
    outcomes = await root.builder.build(build_order(request, offers.blobs))
    assert flaws(outcomes) == [None] * 20
    instances = await built(root)
    assert sorted(one.uuid for some in instances.values() for one in some) == list(
        request.instance_uuids
    )
    assert await used(root) == 20
    assert all(
        one.task is Task.SPAWNING and one.host for some in instances.values() for one in some
    )
    await asyncio.sleep(0)
    assert sum(len(one.held) for one in root.near.houses.values()) == 0


async def test_records_tell_why_offers_were_made() -> None:
    """Decisions record the weights that were offered."""
    house = await open_zone_services("alone", InProcessZones())
    request = request_of(8)
    selection = await house.selector.select(house.select_order(request))
    offered = [choice.weight for choice in selection.choices]
    held = await open_zone_services("held", InProcessZones())
    offers = await held.selector.offers(held.select_order(request))
    await held.builder.build(build_order(request, offers.blobs[:3]))
    assert len(held.held) == 5
    decisions = [
        await held.desk.ledger.get(Decision, OfferKey(offers.select_id, place).claim_key)
        for place in range(3)
    ]
    placements = [one.placements[0] for one in decisions if one is not None]
    assert [one.chosen.score for one in placements] == list(offers.weights[:3]) == offered[:3]
    assert [one.instance_uuid for one in placements] == list(request.instance_uuids[:3])
    assert len(placements[0].runners_up) == 1


async def test_errands_say_where_instances_are() -> None:
    """Remote instances in every zone on the way lead to the zone of an instance."""
    root = await open_tree()
    request = request_of(28)
    offers = await root.selector.offers(root.select_order(request))
    await root.builder.build(build_order(request, offers.blobs))
    instances = await built(root)
    for one in instances["deep"]:
        for house, number in (("root", 2), ("east", 1)):
            remote = await root.near.houses[house].desk.ledger.get(RemoteInstance, one.uuid)
            assert remote is not None
            assert (remote.zone_id, remote.stage) == (number, RemoteInstanceStage.THERE)
        assert await root.near.houses["deep"].desk.ledger.get(RemoteInstance, one.uuid) is None
    assert instances["deep"]


async def test_the_same_build_again_changes_nothing() -> None:
    """A repeated build changes nothing."""
    root = await open_tree()
    request = request_of(12)
    offers = await root.selector.offers(root.select_order(request))
    order = build_order(request, offers.blobs)
    await root.builder.build(order)
    before = await built(root)
    assert flaws(await root.builder.build(order)) == [None] * 12
    assert await built(root) == before
    assert await used(root) == 12


async def test_an_offer_is_used_once() -> None:
    """An offer that was used for one instance is refused for another."""
    root = await open_tree()
    request = request_of(2)
    offers = await root.selector.offers(root.select_order(request))
    first, second = request.instance_uuids
    one = replace(request, instance_uuids=(first,))
    other = replace(request, instance_uuids=(second,))
    await root.builder.build(build_order(one, offers.blobs[:1]))
    outcomes = await root.builder.build(build_order(other, offers.blobs[:1]))
    assert flaws(outcomes) == [OfferRefusalReason.USED]
    assert await used(root) == 1


@pytest.mark.parametrize("on_gone", list(LapsedHoldAction))
async def test_an_offer_whose_hold_has_ended(on_gone: LapsedHoldAction) -> None:
    """An offer whose hold has ended is refused or built as the settings say."""
    near = InProcessZones()
    zone = await open_zone_services("zone", near, hosts=1, vcpus=1)
    zone.on_gone = on_gone
    zone.__post_init__()
    request = request_of(1)
    offers = await zone.selector.offers(zone.select_order(request))
    zone.held.expire(zone.desk.clock.now_s() + 100)
    outcomes = await zone.builder.build(build_order(request, offers.blobs))
    assert flaws(outcomes) == [
        OfferRefusalReason.GONE if on_gone is LapsedHoldAction.REFUSE else None
    ]
    assert await used(zone) == (on_gone is not LapsedHoldAction.REFUSE)


async def test_another_host_is_taken_where_the_settings_say_so() -> None:
    """With the setting for it, another host is used if the offered one is full."""
    near = InProcessZones()
    zone = await open_zone_services("zone", near, hosts=2, vcpus=1)
    zone.on_gone = LapsedHoldAction.OTHER
    zone.__post_init__()
    first, second = request_of(1), request_of(2)
    second = replace(second, request_id="req-2", instance_uuids=second.instance_uuids[1:])
    offers = await zone.selector.offers(zone.select_order(first))
    zone.held.expire(zone.desk.clock.now_s() + 100)
    others = await zone.selector.offers(zone.select_order(second))
    await zone.builder.build(build_order(second, others.blobs))
    assert flaws(await zone.builder.build(build_order(first, offers.blobs))) == [None]
    assert await used(zone) == 2


async def test_a_held_place_is_not_given_to_others() -> None:
    """Two parents cannot both get the last place."""
    near = InProcessZones()
    zone = await open_zone_services("zone", near, hosts=1, vcpus=1)
    first = await zone.selector.offers(zone.select_order(request_of(1), audience="one"))
    second = await zone.selector.offers(
        zone.select_order(request_of(1, request_id="req-2"), audience="two")
    )
    assert (len(first.blobs), len(second.blobs)) == (1, 0)


async def test_only_for_the_parent_and_the_request() -> None:
    """Offers for another parent or request, and expired offers, are refused."""
    root = await open_tree()
    request = request_of(3)
    offers = await root.selector.offers(root.select_order(request))
    elsewhere = build_order(request, offers.blobs, audience="other")
    assert flaws(await root.builder.build(elsewhere)) == [OfferRefusalReason.OTHER_AUDIENCE] * 3
    bigger = replace(request, flavor=replace(request.flavor, vcpus=2))
    assert (
        flaws(await root.builder.build(build_order(bigger, offers.blobs)))
        == [OfferRefusalReason.OTHER_REQUEST] * 3
    )
    await root.desk.clock.sleep(61)
    assert (
        flaws(await root.builder.build(build_order(request, offers.blobs)))
        == [OfferRefusalReason.EXPIRED] * 3
    )
    assert await used(root) == 0


async def test_a_child_whose_answer_is_lost() -> None:
    """If a child's answer is lost, the outcome is unsettled until a release settles it."""
    root = await open_tree()
    request = request_of(28)
    offers = await root.selector.offers(root.select_order(request))
    root.near.silent.add("deep")
    outcomes = await root.builder.build(build_order(request, offers.blobs))
    lost = [one.instance_uuid for one in outcomes if one.flaw is OfferRefusalReason.UNSETTLED]
    there = [one.uuid for one in (await built(root))["deep"]]
    assert sorted(lost) == sorted(there)
    assert there
    root.near.silent.clear()
    await root.release_handler.release(withdrawal(*lost))
    deep = root.near.houses["deep"].desk.ledger
    for uuid in lost:
        instance = await deep.get(Instance, uuid)
        assert instance is not None
        assert instance.task is Task.DELETING
        assert await root.desk.ledger.get(RemoteInstance, uuid) is None


async def test_what_was_released_is_not_built_late() -> None:
    """An instance that was released before its build arrives is not built."""
    root = await open_tree()
    request = request_of(1)
    offers = await root.selector.offers(root.select_order(request))
    await root.release_handler.release(withdrawal(*request.instance_uuids))
    for house in root.near.houses.values():
        await house.release_handler.release(withdrawal(*request.instance_uuids))
    outcomes = await root.builder.build(build_order(request, offers.blobs))
    assert flaws(outcomes) == [OfferRefusalReason.WITHDRAWN]
    assert await used(root) == 0


async def test_a_child_that_is_not_a_child_any_more() -> None:
    """Offers of a removed child are refused."""
    root = await open_tree()
    request = request_of(28)
    offers = await root.selector.offers(root.select_order(request))
    root.children.clear()
    outcomes = await root.builder.build(build_order(request, offers.blobs))
    assert flaws(outcomes).count(None) == 2
    assert flaws(outcomes).count(OfferRefusalReason.GONE) == 26


async def test_members_of_a_group_are_kept_apart_by_the_zone_that_builds() -> None:
    """The zone that builds keeps the members of an anti-affinity group on different hosts."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.ANTI_AFFINITY)
    request = replace(request_of(7), group_uuid=group.uuid)
    order = replace(root.select_order(request), group=group)
    offers = await root.selector.offers(order)
    build = build_order(request, offers.blobs)
    grouped = tuple(
        replace(item, instance=replace(item.instance, group_uuid=group.uuid))
        for item in build.items
    )
    outcomes = await root.builder.build(replace(build, items=grouped, group=group))
    assert flaws(outcomes) == [None] * 7
    hosts = [(name, one.host) for name, some in (await built(root)).items() for one in some]
    assert len(set(hosts)) == 7
    assert await root.near.houses["west"].desk.ledger.get(ServerGroup, group.uuid) == group


async def test_what_was_withdrawn_may_be_sent_anew() -> None:
    """A withdrawal refuses builds sent before it and accepts later ones."""
    near = InProcessZones()
    zone = await open_zone_services("zone", near)
    request = request_of(1)
    offers = await zone.selector.offers(zone.select_order(request))
    order = build_order(request, offers.blobs)
    await zone.release_handler.release(withdrawal(*request.instance_uuids, sent_ms=1000))
    late = replace(order, items=(replace(order.items[0], sent_ms=1000),))
    assert flaws(await zone.builder.build(late)) == [OfferRefusalReason.WITHDRAWN]
    anew = replace(order, items=(replace(order.items[0], sent_ms=1001),))
    assert flaws(await zone.builder.build(anew)) == [None]
    assert await used(zone) == 1


async def test_what_is_there_may_stay() -> None:
    """A release that keeps built instances leaves them in the whole tree."""
    root = await open_tree()
    request = request_of(28)
    offers = await root.selector.offers(root.select_order(request))
    await root.builder.build(build_order(request, offers.blobs))
    kept = await root.release_handler.release(withdrawal(*request.instance_uuids, keeps_built=True))
    assert kept == set(request.instance_uuids)
    assert await used(root) == 28


async def late_below(root: ZoneServices, request: Request) -> BuildOrder:
    """Return an order that leads to a child and was sent long ago."""
    root.children[:] = [replace(one, weight_offset=100.0) for one in root.children]
    offers = await root.selector.offers(root.select_order(request))
    order = build_order(request, offers.blobs)
    return replace(order, items=tuple(replace(one, sent_ms=1000) for one in order.items))


async def test_what_was_released_is_not_passed_on_late() -> None:
    """A withdrawal in this zone refuses late orders for zones below it."""
    root = await open_tree()
    request = request_of(3)
    order = await late_below(root, request)
    uuids = request.instance_uuids
    assert await root.release_handler.release(withdrawal(*uuids, sent_ms=1000)) == frozenset()
    assert flaws(await root.builder.build(order)) == [OfferRefusalReason.WITHDRAWN] * 3
    assert not any((await built(root)).values())
    assert await root.desk.ledger.remote_instances() == []
    anew = replace(order, items=tuple(replace(one, sent_ms=1001) for one in order.items))
    assert flaws(await root.builder.build(anew)) == [None] * 3


@pytest.mark.parametrize("offset", [100.0, -100.0])
async def test_an_order_that_comes_after_its_successor_changes_nothing(offset: float) -> None:
    """An order that arrives after its successor is refused and changes nothing."""
    root = await open_tree()
    request = request_of(2)
    late = await late_below(root, request)
    await root.release_handler.release(withdrawal(*request.instance_uuids, sent_ms=1000))
    root.children[:] = [replace(one, weight_offset=offset) for one in root.children]
    offers = await root.selector.offers(root.select_order(request))
    order = build_order(request, offers.blobs)
    anew = replace(order, items=tuple(replace(one, sent_ms=1001) for one in order.items))
    assert flaws(await root.builder.build(anew)) == [None] * 2
    before = await built(root), await root.desk.ledger.remote_instances()
    assert flaws(await root.builder.build(late)) == [OfferRefusalReason.WITHDRAWN] * 2
    assert (await built(root), await root.desk.ledger.remote_instances()) == before


async def test_a_late_answer_does_not_end_what_was_sent_since() -> None:
    """A late answer does not end a remote instance that was sent again."""
    root = await open_tree()
    request = request_of(1)
    order = await late_below(root, request)
    (uuid,) = request.instance_uuids
    right = root.near.build

    async def answer_late(*_: object, **__: object) -> tuple[BuildOutcome, ...]:
        root.near.build = right  # type: ignore[method-assign]
        assert await root.release_handler.release(withdrawal(uuid, sent_ms=1000)) == frozenset()
        anew = replace(order, items=tuple(replace(one, sent_ms=1001) for one in order.items))
        assert flaws(await root.builder.build(anew)) == [None]
        return (BuildOutcome(uuid, OfferRefusalReason.GONE),)

    root.near.build = answer_late  # type: ignore[method-assign]
    assert flaws(await root.builder.build(order)) == [OfferRefusalReason.GONE]
    (remote,) = await root.desk.ledger.remote_instances()
    assert (remote.instance_uuid, remote.stage) == (uuid, RemoteInstanceStage.THERE)
    assert [one.uuid for some in (await built(root)).values() for one in some] == [uuid]


async def test_what_is_passed_on_during_its_release_is_settled() -> None:
    """An instance that is passed on during its release is settled either way."""
    root = await open_tree()
    request = request_of(1)
    order = await late_below(root, request)
    ledger, (uuid,) = root.desk.ledger, request.instance_uuids
    right = ledger.get
    passed: list[BuildOutcome] = []

    async def get(kind: type[object], key: str) -> object:
        found = await right(kind, key)  # type: ignore[type-var]
        if kind is RemoteInstance and not passed:
            passed.append(BuildOutcome(""))  # the build below comes just when this was read
            passed[:] = await root.builder.build(order)
        return found

    ledger.get = get  # type: ignore[method-assign, assignment]
    kept = await root.release_handler.release(withdrawal(uuid, sent_ms=1000, keeps_built=True))
    assert [one.instance_uuid for one in passed] == [uuid]
    assert kept == (frozenset({uuid}) if passed[0].flaw is None else frozenset())
    there = [one.uuid for some in (await built(root)).values() for one in some]
    assert frozenset(there) == kept


async def test_a_group_that_has_gone_elsewhere_since_the_offer() -> None:
    """A member of a group that moved to another zone after the offer is refused."""
    root = await open_tree()
    group = ServerGroup(str(UUID(int=7)), "g", GroupPolicy.AFFINITY, "p")
    request = replace(request_of(1), group_uuid=group.uuid)
    order = replace(root.select_order(request), group=group)
    offers = await root.selector.offers(order)
    await root.desk.ledger.write(Put(replace(group, zone_id=99)))
    (outcome,) = await root.builder.build(replace(build_order(request, offers.blobs), group=group))
    assert outcome.flaw is OfferRefusalReason.GONE
    assert await root.desk.ledger.remote_instances() == []


@pytest.mark.parametrize("other", ["west", "east"])
async def test_an_instance_that_is_there_is_not_built_by_another_offer(other: str) -> None:
    """An instance that was built is not built again through another offer."""
    root = await open_tree()
    request = request_of(1)
    children = {one.name: one for one in root.children}
    root.children[:] = [replace(children["west"], weight_offset=100.0)]
    first = await root.selector.offers(root.select_order(request))
    assert flaws(await root.builder.build(build_order(request, first.blobs))) == [None]
    root.children[:] = [children["west"], children["east"]]
    root.children[:] = [
        replace(one, weight_offset=100.0 if one.name == other else 0.0) for one in root.children
    ]
    second = await root.selector.offers(root.select_order(request))
    assert flaws(await root.builder.build(build_order(request, second.blobs))) == [
        OfferRefusalReason.USED
    ]
    remote = await root.desk.ledger.get(RemoteInstance, request.instance_uuids[0])
    assert remote is not None
    assert (remote.zone_id, remote.stage) == (1, RemoteInstanceStage.THERE)
    assert {name for name, some in (await built(root)).items() if some} == {"west"}
