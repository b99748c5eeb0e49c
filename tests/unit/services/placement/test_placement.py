"""Tests for placing orders: decisions, claims, races and an unreachable ledger."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Decision, RefusalCode, Verdict
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Operation
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import ConflictError, InvalidInputError, UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Free, Put, Take, Unit
from berth.services.requests.orders import PlaceOrder
from berth.testing.builders import make_flavor, make_request, make_take, make_uuid
from tests.unit.services import wiring
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second, order_of


def wanted(number: int = 1, *, count: int = 1, vcpus: int = 1) -> PlaceOrder:
    """Return an order of instances with this many VCPUs each."""
    request = make_request(number, count=count)
    return order_of(replace(request, flavor=make_flavor(vcpus=vcpus)))


def member(number: int, group: ServerGroup) -> PlaceOrder:
    """Return an order of one instance in a server group."""
    order = wanted(number)
    return replace(
        order,
        request=replace(order.request, group_uuid=group.uuid),
        instances=tuple(replace(one, group_uuid=group.uuid) for one in order.instances),
    )


async def free_vcpus(desk: Desk, hosts: int = 2) -> list[int]:
    """Return the VCPUs in use on each host."""
    return [(await desk.ledger.used(n)).get(VCPU, 0) for n in range(1, hosts + 1)]


async def test_an_order_is_placed_and_recorded() -> None:
    """An order is placed and recorded in one unit."""
    desk = await open_desk()
    order = wanted(count=2)
    before = await desk.ledger.version()
    decision = await desk.placer.place(order)
    assert decision.verdict is Verdict.PLACED
    assert await desk.ledger.version() == before + 1
    assert await desk.ledger.get(Decision, "req-1") == decision
    for placement in decision.placements:
        instance = await desk.ledger.get(Instance, placement.instance_uuid)
        assert instance is not None
        assert (instance.host, instance.node) == (placement.host, placement.node)
        assert (instance.status, instance.task) == (Status.BUILD, Task.SPAWNING)
    assert sorted(await free_vcpus(desk)) == [1, 1]


async def test_a_claim_counts_for_the_next_decision_before_the_feed_tells_it() -> None:
    """A claim counts in the replica before the feed delivers it, and only once afterwards."""
    desk = await open_desk(Fleet(hosts=1))
    await desk.placer.place(wanted())
    assert (desk.used(1)[VCPU], desk.replica.held) == (1, 1)
    await desk.follower.catch_up()
    assert (desk.used(1)[VCPU], desk.replica.held) == (1, 0)


async def test_a_refusal_is_recorded_and_says_why() -> None:
    """A refused order is recorded, its instance is in ERROR, and nothing is held."""
    desk = await open_desk()
    decision = await desk.placer.place(wanted(vcpus=100))
    assert decision.refusal is not None
    instance = await desk.ledger.get(Instance, make_uuid("instance", 1))
    assert instance is not None
    assert instance.fault is not None
    assert instance.fault.message == decision.refusal.message
    assert (instance.status, instance.task, instance.host) == (Status.ERROR, None, None)
    assert await free_vcpus(desk) == [0, 0]
    assert desk.replica.held == 0


async def test_all_or_nothing() -> None:
    """If one instance of an order finds no room, none is placed."""
    desk = await open_desk(Fleet(hosts=2, vcpus=4))
    decision = await desk.placer.place(wanted(count=3, vcpus=3))
    assert decision.verdict is Verdict.REFUSED
    assert await free_vcpus(desk) == [0, 0]


async def test_a_refusal_does_not_rest_on_an_old_table() -> None:
    """A refusal is decided on the newest state of the ledger."""
    desk = await open_desk(Fleet(hosts=1, vcpus=4))
    await desk.ledger.write(make_take(9, amounts={VCPU: 4}))
    await desk.follower.catch_up()
    await desk.ledger.write(Free(make_uuid("instance", 9)))
    decision = await desk.placer.place(wanted(vcpus=4))
    assert decision.verdict is Verdict.PLACED


async def test_a_refusal_is_not_decided_again_without_need() -> None:
    """News that no rule reads do not cause a second decision."""
    desk = await open_desk()
    await desk.ledger.write(Put(make_flavor(7)))
    decision = await desk.placer.place(wanted(vcpus=100))
    assert decision.verdict is Verdict.REFUSED
    assert desk.policies.decisions == 1


async def test_a_stale_plan_is_made_anew() -> None:
    """A claim on capacity that is gone is planned again elsewhere."""
    desk = await open_desk(Fleet(hosts=2, vcpus=4))
    first = await desk.placer.place(wanted(1, vcpus=1))
    taken = first.placements[0].host
    other = "host-2" if taken == "host-1" else "host-1"
    number = int(other.removeprefix("host-"))
    await desk.ledger.write(make_take(9, on=number, amounts={VCPU: 4}))
    decision = await desk.placer.place(wanted(2, vcpus=3))
    assert (decision.verdict, decision.attempts) == (Verdict.PLACED, 2)
    assert decision.placements[0].host == taken
    await desk.follower.catch_up()
    assert desk.replica.held == 0
    assert desk.used(number)[VCPU] == 4


async def test_endless_contention_ends_in_a_refusal_that_says_so() -> None:
    """After too many lost claims the order is refused for contention."""
    desk = await open_desk(Fleet(hosts=9, vcpus=1), attempts_max=3)

    async def snatch(units: Sequence[Unit]) -> None:
        for write in units[0]:
            if isinstance(write, Take) and write.claim.allocations:
                stolen = write.claim.allocations[0]
                number = int(stolen.provider_uuid[-3:])
                await desk.ledger.write(make_take(100 + number, on=number))

    desk.ledger.before_commit = snatch
    decision = await desk.placer.place(wanted())
    assert decision.refusal is not None
    assert (decision.refusal.code, decision.attempts) == (RefusalCode.CONTENTION, 3)
    assert decision.placements == ()
    assert desk.replica.held == 0


async def test_two_schedulers_never_overcommit() -> None:
    """Two schedulers fill the same hosts without overcommitting them."""
    desk = await open_desk(Fleet(hosts=2, vcpus=4))
    second = await open_second(desk)
    orders = [wanted(n) for n in range(1, 13)]
    placed = await asyncio.gather(
        *((desk, second)[n % 2].placer.place(order) for n, order in enumerate(orders))
    )
    verdicts = [decision.verdict for decision in placed]
    assert verdicts.count(Verdict.PLACED) == 8
    assert await free_vcpus(desk) == [4, 4]
    for one in (desk, second):
        await one.follower.catch_up()
        assert one.replica.held == 0
        assert [one.used(1), one.used(2)] == [await desk.ledger.used(1), await desk.ledger.used(2)]


@pytest.mark.parametrize("policy", [GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY])
async def test_two_schedulers_keep_a_groups_policy(policy: GroupPolicy) -> None:
    """Two schedulers keep the policy of a group whose members they place simultaneously."""
    desk = await open_desk(Fleet(hosts=12, vcpus=40))
    group = ServerGroup(make_uuid("group", 1), "g", policy)
    await desk.ledger.write(Put(group))
    second = await open_second(desk)
    await desk.follower.catch_up()
    desk.ledger.before_commit = lambda _: asyncio.sleep(0)
    placed = await asyncio.gather(
        *((desk, second)[n % 2].placer.place(member(n, group)) for n in range(1, 11))
    )
    hosts = Counter(one.host for decision in placed for one in decision.placements)
    assert sum(hosts.values()) == 10
    assert len(hosts) == (1 if policy is GroupPolicy.AFFINITY else 10)
    for one in (desk, second):
        await one.follower.catch_up()
        assert one.replica.held == 0


@pytest.mark.parametrize(
    ("policy", "keeper"),
    [
        (GroupPolicy.AFFINITY, "ServerGroupAffinityFilter"),
        (GroupPolicy.ANTI_AFFINITY, "ServerGroupAntiAffinityFilter"),
    ],
)
async def test_a_member_of_a_group_that_no_filter_keeps_is_refused(
    monkeypatch: pytest.MonkeyPatch, policy: GroupPolicy, keeper: str
) -> None:
    """A member of a group is refused if the policy lacks the group's filter."""
    desk = await open_desk()
    group = ServerGroup(make_uuid("group", 1), "g", policy)
    await desk.ledger.write(Put(group))
    await desk.follower.catch_up()
    kept = tuple(rule for rule in wiring.POLICY.filters if rule.name != keeper)
    with monkeypatch.context() as patched:
        patched.setattr(wiring, "POLICY", replace(wiring.POLICY, filters=kept))
        decision = await desk.placer.place(member(1, group))
        assert (await desk.placer.place(wanted(3))).verdict is Verdict.PLACED
    assert decision.refusal is not None
    assert decision.refusal.code is RefusalCode.UNSUPPORTED_POLICY
    assert await desk.ledger.get(Decision, decision.request_id) == decision
    instance = await desk.ledger.get(Instance, member(1, group).instances[0].uuid)
    assert instance is not None
    assert (instance.status, instance.host) == (Status.ERROR, None)
    assert instance.fault is not None
    assert keeper in instance.fault.message
    assert (await desk.placer.place(member(2, group))).verdict is Verdict.PLACED
    assert sum(await free_vcpus(desk)) == 2


async def test_a_group_that_is_newer_than_the_replica_is_kept() -> None:
    """A group that the replica does not know yet is looked up before its members are placed."""
    desk = await open_desk(Fleet(hosts=2, vcpus=40))
    second = await open_second(desk)
    group = ServerGroup(make_uuid("group", 1), "g", GroupPolicy.AFFINITY)
    await desk.ledger.write(Put(group))
    assert group.uuid not in desk.replica.hosts.server_groups
    placed = await asyncio.gather(
        *((desk, second)[n % 2].placer.place(member(n, group)) for n in range(1, 7))
    )
    assert len({one.host for decision in placed for one in decision.placements}) == 1


@pytest.mark.parametrize("vcpus", [1, 100])
async def test_a_repeated_order_is_answered_with_the_first_decision(vcpus: int) -> None:
    """A repeated order gets the first decision, placed or refused."""
    desk = await open_desk()
    first = await desk.placer.place(wanted(vcpus=vcpus))
    again = await desk.placer.place(wanted(vcpus=vcpus))
    elsewhere = await (await open_second(desk)).placer.place(wanted(vcpus=vcpus))
    assert first == again == elsewhere
    assert sum(await free_vcpus(desk)) == (1 if vcpus == 1 else 0)


async def test_a_repeat_leaves_the_replica_as_it_is() -> None:
    """A repeated order does not change the replica."""
    desk = await open_desk()
    first = await desk.placer.place(wanted())
    number = int(first.placements[0].host.removeprefix("host-"))
    for _ in range(2):
        await desk.placer.place(wanted())
        assert (desk.used(number)[VCPU], desk.instances_on(number)) == (1, 1)
        await desk.follower.catch_up()
    assert (desk.used(number)[VCPU], desk.instances_on(number)) == (1, 1)


async def test_an_order_that_comes_twice_at_once_is_decided_once() -> None:
    """An order that comes several times simultaneously is decided once."""
    desk = await open_desk()
    desk.ledger.gate = asyncio.Event()
    calls = [asyncio.create_task(desk.placer.place(wanted())) for _ in range(3)]
    await asyncio.sleep(1)
    assert desk.replica.held == 1
    desk.ledger.gate.set()
    first, *others = await asyncio.gather(*calls)
    assert others == [first, first]
    assert (desk.ledger.commits, sum(await free_vcpus(desk))) == (1, 1)


async def test_when_the_first_of_two_fails_the_second_goes_on() -> None:
    """If the first of two equal orders fails, the second is still decided."""
    desk = await open_desk()
    desk.ledger.away = 1
    calls = [asyncio.create_task(desk.placer.place(wanted())) for _ in range(2)]
    first, second = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, UnavailableError)
    assert isinstance(second, Decision)


async def test_an_instance_that_changed_meanwhile_is_a_conflict() -> None:
    """An order whose instance has changed is a conflict and holds nothing."""
    desk = await open_desk()
    order = wanted()
    await desk.ledger.write(Put(order.instances[0]))
    with pytest.raises(ConflictError, match="an instance has changed"):
        await desk.placer.place(order)
    assert (await free_vcpus(desk), desk.replica.held) == ([0, 0], 0)


async def test_a_ledger_that_is_away_leaves_no_holds() -> None:
    """An unreachable ledger leaves no holds, and the order can be repeated."""
    desk = await open_desk()
    desk.ledger.away = 1
    with pytest.raises(UnavailableError):
        await desk.placer.place(wanted())
    assert (desk.replica.held, desk.used(1), desk.used(2)) == (0, {}, {})
    assert (await desk.placer.place(wanted())).verdict is Verdict.PLACED


async def test_a_lost_answer_claims_once_and_holds_nothing() -> None:
    """A commit whose answer is lost is found by the repeated order."""
    desk = await open_desk()
    desk.ledger.silent = 1
    with pytest.raises(UnavailableError):
        await desk.placer.place(wanted())
    assert desk.replica.held == 0
    decision = await desk.placer.place(wanted())
    assert decision == await desk.ledger.get(Decision, "req-1")
    await desk.follower.catch_up()
    assert (desk.replica.held, sum(await free_vcpus(desk))) == (0, 1)
    assert desk.instances_on(1) + desk.instances_on(2) == 1


async def test_a_cancelled_order_holds_nothing() -> None:
    """A cancelled order leaves no holds."""
    desk = await open_desk()
    desk.ledger.gate = asyncio.Event()
    call = asyncio.create_task(desk.placer.place(wanted()))
    await asyncio.sleep(1)
    assert desk.replica.held == 1
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert desk.replica.held == 0
    desk.ledger.gate = None
    assert (await desk.placer.place(wanted())).verdict is Verdict.PLACED


async def test_an_order_without_one_of_its_instances_holds_nothing() -> None:
    """An order without one of its instances raises KeyError and leaves no holds."""
    desk = await open_desk()
    order = wanted(count=2)
    with pytest.raises(KeyError):
        await desk.placer.place(replace(order, instances=order.instances[:1]))
    assert desk.replica.held == 0
    assert desk.placer._at_work == {}


async def test_an_accepted_order_is_pending_no_more() -> None:
    """Placing an accepted order removes its pending request."""
    desk = await open_desk()
    request = make_request()
    await desk.ledger.write(Put(PendingRequest(request, 0.0)), Put(order_of(request).instances[0]))
    await desk.placer.place(order_of(request, accepted=True, revision=1))
    assert await desk.ledger.get(PendingRequest, "req-1") is None


async def test_a_flavor_that_cannot_be_read_is_refused_before_anything_is_done() -> None:
    """An unreadable extra spec is refused, and nothing is recorded."""
    desk = await open_desk()
    flavor = replace(make_flavor(), extra_specs={"resources:VCPU": "many"})
    before = await desk.ledger.version()
    with pytest.raises(InvalidInputError, match="resources:VCPU"):
        await desk.placer.place(order_of(replace(make_request(), flavor=flavor)))
    assert await desk.ledger.version() == before


async def test_an_operation_that_only_a_newer_version_knows_is_left_to_it() -> None:
    """An order with an unknown operation is refused without a write."""
    desk = await open_desk()
    before, order = await desk.ledger.version(), wanted()
    newer = replace(order, request=replace(order.request, operation=Operation("teleport")))
    with pytest.raises(UnavailableError, match="teleport"):
        await desk.placer.place(newer)
    assert await desk.ledger.version() == before
