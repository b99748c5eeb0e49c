"""Tests for placing requests over a tree of zones."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Put, Remove
from berth.domain.zones.offer import OfferRefusalReason
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.domain.zones.zone_orders import BuildOrder, BuildOutcome, ReleaseOrder
from berth.services.requests.orders import PlaceOrder
from berth.services.zoning.delegation.delegation import Delegation
from berth.services.zoning.delegation.sagas import SagaStore
from tests.unit.services.wiring import order_of
from tests.unit.services.zoning.zone_harness import ZoneServices, open_tree, request_of, withdrawal

PLACES = 30


async def live(root: ZoneServices) -> dict[str, list[str]]:
    """Return the uuids of the instances that have a host, by zone."""
    found: dict[str, list[str]] = {}
    for name, house in root.near.houses.items():
        for uuid in request_of(50).instance_uuids:
            one = await house.desk.ledger.get(Instance, uuid)
            if one is not None and one.host is not None and one.task is not Task.DELETING:
                found.setdefault(name, []).append(uuid)
    return found


def held(root: ZoneServices) -> int:
    """Return the number of offers held in the whole tree."""
    return sum(len(house.held) for house in root.near.houses.values())


async def is_pending(root: ZoneServices, request: Request) -> bool:
    """Return whether a request is pending in the root's ledger."""
    return await root.desk.ledger.get(PendingRequest, request.request_id) is not None


async def test_instances_go_to_the_best_places_of_the_tree() -> None:
    """Each instance is in one zone, and the root keeps remote instances of the others."""
    root = await open_tree()
    request = request_of(20)
    decision = await root.tree.place(order_of(request))
    assert decision.verdict is Verdict.PLACED
    zones = await live(root)
    assert sorted(uuid for some in zones.values() for uuid in some) == list(request.instance_uuids)
    for uuid in request.instance_uuids:
        here = await root.desk.ledger.get(Instance, uuid)
        remote = await root.desk.ledger.get(RemoteInstance, uuid)
        assert (here is None) == (remote is not None)
        assert remote is None or remote.stage is RemoteInstanceStage.THERE
    assert not await is_pending(root, request)
    assert held(root) == 0


@pytest.mark.parametrize(("levels", "verdict"), [(1, Verdict.REFUSED), (2, Verdict.PLACED)])
async def test_so_many_levels_of_zones_are_asked(levels: int, verdict: Verdict) -> None:
    """The number of levels that are asked is that of the settings."""
    root = await open_tree(levels_max=levels)
    assert (await root.tree.place(order_of(request_of(PLACES)))).verdict is verdict


async def test_zones_may_be_children_of_each_other() -> None:
    """Zones that are children of each other place a request on all of them."""
    root = await open_tree()
    for house in root.near.houses.values():
        if house is not root:
            house.adopt(root)
    deep = root.near.houses["deep"]
    decision = await deep.tree.place(order_of(request_of(PLACES)))
    assert decision.verdict is Verdict.PLACED
    placed = [uuid for some in (await live(root)).values() for uuid in some]
    assert sorted(placed) == list(request_of(PLACES).instance_uuids)
    assert held(root) == 0


async def test_the_decision_says_which_zones_have_how_many() -> None:
    """The decision has the number of instances by child zone."""
    root = await open_tree()
    decision = await root.tree.place(order_of(request_of(20)))
    counts = {one.zone: one.instances for one in decision.zones}
    places = {name: len(uuids) for name, uuids in (await live(root)).items()}
    places["east"] = places.get("east", 0) + places.pop("deep", 0)
    assert counts == {name: count for name, count in places.items() if count}
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


async def test_what_is_best_here_stays_here() -> None:
    """Instances that fit best in the root stay there."""
    root = await open_tree()
    root.children[:] = [replace(one, weight_offset=-100.0) for one in root.children]
    decision = await root.tree.place(order_of(request_of(2)))
    assert [one.host for one in decision.placements] == ["host-1", "host-1"]
    assert held(root) == 0
    assert await root.desk.ledger.get(RemoteInstance, request_of().instance_uuids[0]) is None


async def test_too_many_for_the_tree() -> None:
    """A request that does not fit the tree is refused with the room of the child zones."""
    root = await open_tree()
    decision = await root.tree.place(order_of(request_of(PLACES + 1)))
    assert decision.verdict is Verdict.REFUSED
    assert await live(root) == {}
    assert held(root) == 0
    instance = await root.desk.ledger.get(Instance, request_of().instance_uuids[0])
    assert instance is not None
    assert instance.fault is not None
    assert "zone" not in instance.fault.message
    assert "28" not in instance.fault.message
    assert "The child zones have room for 28 of the instances." in instance.fault.details


async def test_what_is_not_known_of_zones_below_is_not_said() -> None:
    """The refusal does not claim a lack of room in a zone that did not answer."""
    root = await open_tree()
    root.near.away.add("east")
    await root.tree.place(order_of(request_of(PLACES)))
    instance = await root.desk.ledger.get(Instance, request_of().instance_uuids[0])
    assert instance is not None
    assert instance.fault is not None
    assert "A part of the cloud gave no answer and may have room" in instance.fault.message
    assert "zone" not in instance.fault.message
    assert "1 of the child zones gave no usable answer." in instance.fault.details


async def test_the_same_order_again() -> None:
    """A repeated order gets the same decision."""
    root = await open_tree()
    first = await root.tree.place(order_of(request_of(20)))
    assert await root.tree.place(order_of(request_of(20))) == first
    assert sum(map(len, (await live(root)).values())) == 20


async def test_a_child_that_cannot_honour_its_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a child refuses its offers, the next best offers are used without a new select."""
    root = await open_tree()
    west = root.near.houses["west"]
    for uuid in request_of(50).instance_uuids:
        await west.release_handler.release(withdrawal(uuid))
    decision = await root.tree.place(order_of(request_of(20)))
    assert decision.verdict is Verdict.PLACED
    zones = await live(root)
    assert "west" not in zones
    assert sum(map(len, zones.values())) == 20
    assert root.near.asked.count(("west", "select")) == 1
    assert held(root) == 0


async def test_the_next_select_finds_the_room_of_the_one_before() -> None:
    """The holds of a failed plan are released before the next select."""
    root = await open_tree()
    right = root.near.build
    refused: list[str] = []

    async def refuse(zone: object, order: BuildOrder, *, timeout_s: float) -> object:
        if not refused:
            refused.extend(one.instance.uuid for one in order.items)
            return tuple(BuildOutcome(uuid, OfferRefusalReason.GONE) for uuid in refused)
        return await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]

    root.near.build = refuse  # type: ignore[method-assign, assignment]
    decision = await root.tree.place(order_of(request_of(PLACES)))
    assert refused
    assert decision.verdict is Verdict.PLACED
    assert sum(map(len, (await live(root)).values())) == PLACES
    assert held(root) == 0


async def test_a_child_that_goes_away_before_the_build() -> None:
    """If a child is away at the build, its instances go elsewhere."""
    root = await open_tree()
    right = root.near.select

    async def last(*args: object, **more: object) -> object:
        offers = await right(*args, **more)  # type: ignore[arg-type]
        root.near.away.add("west")
        return offers

    root.near.select = last  # type: ignore[method-assign, assignment]
    decision = await root.tree.place(order_of(request_of(20)))
    assert decision.verdict is Verdict.PLACED
    zones = await live(root)
    assert "west" not in zones
    assert sum(map(len, zones.values())) == 20


async def test_a_child_whose_answer_is_lost_is_settled_first() -> None:
    """If a child's answer is lost, its outcome is settled before other places are used."""
    root = await open_tree()
    right = root.near.build
    lost: list[str] = []

    async def lose(zone: object, order: object, *, timeout_s: float) -> object:
        outcomes = await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]
        if not lost:
            lost.extend(one.instance_uuid for one in outcomes)
            raise UnavailableError("the answer is lost")
        return outcomes

    root.near.build = lose  # type: ignore[method-assign, assignment]
    decision = await root.tree.place(order_of(request_of(12)))
    assert decision.verdict is Verdict.PLACED
    zones = await live(root)
    assert sorted(uuid for some in zones.values() for uuid in some) == list(
        request_of(12).instance_uuids
    )
    assert lost


async def test_a_child_that_never_says_what_came_of_it() -> None:
    """If a child's outcome stays unknown, the request is refused."""
    root = await open_tree()
    right = root.near.build

    async def lose(zone: object, order: object, *, timeout_s: float) -> object:
        await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]
        root.near.silent.update(("west", "east"))
        raise UnavailableError("the answer is lost")

    root.near.build = lose  # type: ignore[method-assign, assignment]
    decision = await root.tree.place(order_of(request_of(12)))
    assert decision.verdict is Verdict.REFUSED
    assert "did not answer" in (decision.refusal.message if decision.refusal else "")
    assert (await live(root)).get("root") is None
    instance = await root.desk.ledger.get(Instance, request_of().instance_uuids[0])
    assert instance is not None
    assert instance.status is Status.ERROR


async def left_behind(root: ZoneServices, request: Request) -> PlaceOrder:
    """Return the order of a request whose scheduler died after a child had built its part."""
    right = root.near.build
    dying = asyncio.Event()

    async def stop(zone: object, order: object, *, timeout_s: float) -> object:
        await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]
        dying.set()
        await asyncio.Event().wait()
        return ()

    root.near.build = stop  # type: ignore[method-assign, assignment]
    task = asyncio.create_task(root.tree.place(order_of(request)))
    await dying.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    root.near.build = right  # type: ignore[method-assign]
    instances = tuple(
        [
            one
            for uuid in request.instance_uuids
            if (one := await root.desk.ledger.get(Instance, uuid)) is not None
            and one.task is Task.SCHEDULING
        ]
    )
    return replace(order_of(request, accepted=True), instances=instances)


async def test_a_scheduler_that_dies_is_replaced() -> None:
    """Another scheduler completes the request after the lease has ended."""
    root = await open_tree()
    request = request_of(20)
    accepted = await left_behind(root, request)
    second = ZoneServices("root", root.desk, root.near, root.children, scheduler="two")
    with pytest.raises(ConflictError, match="another scheduler"):
        await second.tree.place(accepted)
    await root.desk.clock.sleep(31)
    decision = await second.tree.place(accepted)
    assert decision.verdict is Verdict.PLACED
    zones = await live(root)
    assert sorted(uuid for some in zones.values() for uuid in some) == list(request.instance_uuids)
    assert not await is_pending(root, request)


async def test_what_was_given_up_is_not_taken_up_again() -> None:
    """A request that was given up is refused by the next scheduler."""
    root = await open_tree()
    request = request_of(20)
    accepted = await left_behind(root, request)
    sagas = SagaStore(
        ledger=root.desk.ledger,
        clock=root.desk.clock,
        telemetry=root.desk.told,
        scheduler="one",
        lease_s=30.0,
    )
    await sagas.give_up(request.request_id)
    second = ZoneServices("root", root.desk, root.near, root.children, scheduler="two")
    await root.desk.clock.sleep(31)
    root.held.expire(root.desk.clock.now_s())
    decision = await second.tree.place(accepted)
    assert decision.verdict is Verdict.REFUSED
    assert not any((await live(root)).values())
    assert not await is_pending(root, request)


async def test_giving_up_is_written_down_before_anything_is_taken_back() -> None:
    """Giving up is recorded before any instance is withdrawn."""
    root = await open_tree()
    request = request_of(20)
    seen: list[bool] = []
    right = root.near.release

    async def refuse(zone: Zone, order: BuildOrder, *, timeout_s: float) -> object:
        del zone, timeout_s
        return tuple(
            BuildOutcome(one.instance.uuid, OfferRefusalReason.GONE) for one in order.items
        )

    async def look(zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        if order.withdrawn and not order.keeps_built:
            pending = await root.desk.ledger.get(PendingRequest, request.request_id)
            seen.append(pending is not None and pending.is_given_up)
        return await right(zone, order, timeout_s=timeout_s)

    build = root.near.build

    async def build_first(zone: Zone, order: BuildOrder, *, timeout_s: float) -> object:
        if zone.zone_id == root.children[0].zone_id:
            return await build(zone, order, timeout_s=timeout_s)
        return await refuse(zone, order, timeout_s=timeout_s)

    root.near.build = build_first  # type: ignore[method-assign, assignment]
    root.near.release = look  # type: ignore[method-assign]
    decision = await root.tree.place(order_of(request))
    assert decision.verdict is Verdict.REFUSED
    assert seen
    assert all(seen)


async def test_what_was_begun_is_not_begun_anew_when_the_children_are_down() -> None:
    """A request that was begun is not placed anew while the children are down."""
    root = await open_tree()
    accepted = await left_behind(root, request_of(2))
    before = await live(root)
    assert before
    second = ZoneServices(
        "root", root.desk, root.near, root.children, scheduler="two", is_alone=True
    )
    root.near.away = {"west", "east"}
    await root.desk.clock.sleep(31)
    root.held.expire(root.desk.clock.now_s())
    decision = await second.tree.place(accepted)
    assert decision.verdict is Verdict.REFUSED
    assert await live(root) == before


async def test_members_of_an_affinity_group_follow_the_first() -> None:
    """Later members of an affinity group go to the zone of the first ones."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY)
    await root.desk.ledger.write(Put(group))
    await root.desk.follower.catch_up()
    first = replace(request_of(2), group_uuid=group.uuid)
    later = replace(
        request_of(4),
        request_id="req-2",
        group_uuid=group.uuid,
        instance_uuids=request_of(4).instance_uuids[2:],
    )
    for request in (first, later):
        order = order_of(request)
        members = tuple(replace(one, group_uuid=group.uuid) for one in order.instances)
        decision = await root.tree.place(replace(order, instances=members))
        assert decision.verdict is Verdict.PLACED
        await root.desk.follower.catch_up()
    zones = await live(root)
    assert [len(some) for some in zones.values()] == [4]
    stored = await root.desk.ledger.get(ServerGroup, group.uuid)
    assert stored is not None
    assert stored.zone_id is not None


async def test_one_that_its_owner_deletes_meanwhile() -> None:
    """An instance that its owner deletes meanwhile is withdrawn from the child."""
    root = await open_tree()
    root.children[:] = root.children[:1]
    right = root.near.build
    (uuid,) = request_of(1).instance_uuids

    async def delete(zone: object, order: object, *, timeout_s: float) -> object:
        outcomes = await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]
        await root.desk.instances.delete(uuid)
        return outcomes

    root.near.build = delete  # type: ignore[method-assign, assignment]
    root.children[:] = [replace(root.children[0], weight_offset=100.0)]
    await root.tree.place(order_of(request_of(1)))
    assert await live(root) == {}
    assert await root.desk.ledger.get(RemoteInstance, uuid) is None


def _of_group(request: Request, group: ServerGroup) -> PlaceOrder:
    order = order_of(replace(request, group_uuid=group.uuid))
    members = tuple(replace(one, group_uuid=group.uuid) for one in order.instances)
    return replace(order, instances=members)


async def test_a_group_without_members_goes_where_there_is_room() -> None:
    """A group without members may go to any zone with room."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY, "p")
    await root.desk.ledger.write(Put(group))
    await root.desk.follower.catch_up()
    root.children[1] = replace(root.children[1], weight_offset=100.0)
    for uuid in request_of(50).instance_uuids:
        await root.near.houses["east"].release_handler.release(withdrawal(uuid))
    decision = await root.tree.place(_of_group(request_of(3), group))
    assert decision.verdict is Verdict.PLACED
    assert {name: len(some) for name, some in (await live(root)).items()} == {"west": 3}


async def test_a_refused_request_binds_no_group() -> None:
    """A refused request does not bind its group to a zone."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY, "p")
    await root.desk.ledger.write(Put(group))
    await root.desk.follower.catch_up()
    decision = await root.tree.place(_of_group(request_of(PLACES), group))
    assert decision.verdict is Verdict.REFUSED
    stored = await root.desk.ledger.get(ServerGroup, group.uuid)
    assert stored is not None
    assert stored.zone_id is None


async def test_a_group_whose_members_are_deleted_goes_where_there_is_room() -> None:
    """A group whose members are all deleted may go to any zone with room."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY, "p")
    await root.desk.ledger.write(Put(group))
    await root.desk.follower.catch_up()
    root.children[1] = replace(root.children[1], weight_offset=100.0)
    await root.tree.place(_of_group(request_of(2), group))
    await root.desk.follower.catch_up()
    east = root.children.pop()
    later = replace(
        request_of(3), request_id="req-2", instance_uuids=request_of(3).instance_uuids[2:]
    )
    decision = await root.tree.place(_of_group(later, group))
    assert decision.verdict is Verdict.REFUSED
    root.children.append(east)
    for remote in await root.desk.ledger.remote_instances():
        await root.desk.ledger.write(Put(replace(remote, counts_as=None)))
    root.children.pop()
    later = replace(later, request_id="req-3", instance_uuids=request_of(4).instance_uuids[3:])
    decision = await root.tree.place(_of_group(later, group))
    assert decision.verdict is Verdict.PLACED


async def test_a_group_that_is_newer_than_the_table() -> None:
    """A group that the replica does not know yet is sent to the children."""
    root = await open_tree()
    group = ServerGroup("group-1", "g", GroupPolicy.AFFINITY, "p")
    await root.desk.ledger.write(Put(group))
    decision = await root.tree.place(_of_group(request_of(4), group))
    assert decision.verdict is Verdict.PLACED
    assert [len(some) for some in (await live(root)).values()] == [4]


async def test_room_here_that_another_scheduler_takes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request goes to a child if another scheduler takes the local room first."""
    root = await open_tree()
    root.children[:] = [replace(one, weight_offset=-100.0) for one in root.children]
    right = root.desk.placer.place
    other = replace(
        request_of(4), request_id="req-2", instance_uuids=request_of(4).instance_uuids[2:]
    )

    async def place(order: PlaceOrder) -> Decision:
        monkeypatch.setattr(root.desk.placer, "place", right)
        await right(order_of(other))
        return await right(order)

    monkeypatch.setattr(root.desk.placer, "place", place)
    decision = await root.tree.place(order_of(request_of(2)))
    assert decision.verdict is Verdict.PLACED
    zones = await live(root)
    assert zones.pop("root") == list(other.instance_uuids)
    assert sorted(uuid for some in zones.values() for uuid in some) == list(
        request_of(2).instance_uuids
    )
    assert held(root) == 0


async def test_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set back does not make a repeated build look withdrawn."""
    root = await open_tree()
    root.children[:] = root.children[:1]
    right, now_s = root.near.build, root.desk.clock.now_s

    async def lose(zone: Zone, order: BuildOrder, *, timeout_s: float) -> object:
        del zone, order, timeout_s
        root.near.build = right  # type: ignore[method-assign]
        monkeypatch.setattr(root.desk.clock, "now_s", lambda: now_s() - 5.0)
        raise UnavailableError("it has never come")

    root.near.build = lose  # type: ignore[method-assign, assignment]
    decision = await root.tree.place(order_of(request_of(4)))
    assert decision.verdict is Verdict.PLACED
    assert sum(map(len, (await live(root)).values())) == 4
    assert (await live(root))["west"]


async def test_a_refused_instance_that_is_gone_leaves_the_accepted_ones_recorded() -> None:
    """A record that another process removes does not undo those of the accepted instances."""
    root = await open_tree()
    order = order_of(request_of(2))
    accepted, refused = order.request.instance_uuids

    async def build(zone: Zone, order: BuildOrder, *, timeout_s: float) -> tuple[BuildOutcome, ...]:
        await root.desk.ledger.commit([(Remove(Kind.REMOTE_INSTANCE, refused),)])
        return BuildOutcome(accepted), BuildOutcome(refused, OfferRefusalReason.GONE)

    root.near.build = build  # type: ignore[method-assign]
    delegations = [Delegation(one, b"offer", 1) for one in order.instances]
    flaws = await root.delegator.send(order.request, None, root.children[0].zone_id, delegations)
    assert flaws == {accepted: None, refused: OfferRefusalReason.GONE}
    (left,) = await root.desk.ledger.all(RemoteInstance)
    assert (left.instance_uuid, left.stage) == (accepted, RemoteInstanceStage.THERE)
