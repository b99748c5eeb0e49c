"""Tests for withdrawing instances of failed requests from children."""

from dataclasses import replace

from berth.domain.compute.decision import Verdict
from berth.domain.compute.instance import Instance, Task
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from tests.unit.services.wiring import order_of, running
from tests.unit.services.zoning.zone_harness import ZoneServices, open_tree, request_of

COUNT = 12
LONG_S = 200.0
UUID = "99999999-0000-4000-8000-000000000000"


async def failed() -> ZoneServices:
    """Return a tree whose children have built their parts of a request that failed."""
    root = await open_tree()
    right = root.near.build

    async def lose(zone: object, order: object, *, timeout_s: float) -> object:
        await right(zone, order, timeout_s=timeout_s)  # type: ignore[arg-type]
        root.near.silent.update(("west", "east"))
        raise UnavailableError("the answer is lost")

    root.near.build = lose  # type: ignore[method-assign, assignment]
    decision = await root.tree.place(order_of(request_of(COUNT)))
    assert decision.verdict is Verdict.REFUSED
    root.near.build = right  # type: ignore[method-assign]
    return root


async def remote_instances(root: ZoneServices) -> list[RemoteInstance]:
    """Return the remote instances in the root's ledger."""
    return await root.desk.ledger.all(RemoteInstance)


async def running_below(root: ZoneServices) -> int:
    """Return the number of the request's instances that run in the children."""
    count = 0
    for name in ("west", "east", "deep"):
        for uuid in request_of(COUNT).instance_uuids:
            one = await root.near.houses[name].desk.ledger.get(Instance, uuid)
            if one is not None and one.host is not None and one.task is not Task.DELETING:
                count += 1
    return count


async def test_they_are_taken_back_once_their_zone_answers() -> None:
    """Instances are withdrawn once their zone answers, which is asked repeatedly."""
    root = await failed()
    left = await remote_instances(root)
    assert {one.stage for one in left} == {RemoteInstanceStage.WITHDRAWING}
    assert len(left) > 0
    async with running(root.withdrawals.run):
        asked = len(root.near.asked)
        await root.desk.clock.sleep(LONG_S)
        assert await remote_instances(root) == left
        assert 2 <= len(root.near.asked) - asked <= 20
        root.near.silent.clear()
        await root.desk.clock.sleep(LONG_S)
    assert await remote_instances(root) == []
    assert await running_below(root) == 0
    assert "zone_instances_withdrawn" in root.desk.told.events


async def test_a_scheduler_finds_what_one_before_it_has_left() -> None:
    """A scheduler withdraws the instances that a previous one has left."""
    root = await failed()
    second = ZoneServices("root", root.desk, root.near, root.children, scheduler="two")
    root.near.silent.clear()
    async with running(second.withdrawals.run):
        await root.desk.clock.sleep(1.0)
    assert await remote_instances(root) == []
    assert await running_below(root) == 0


async def test_what_is_wanted_is_left_alone() -> None:
    """Instances that are wanted are not withdrawn."""
    root = await open_tree()
    root.children[:] = [replace(root.children[0], weight_offset=100.0)]
    await root.tree.place(order_of(request_of(2)))
    there = await remote_instances(root)
    assert {one.stage for one in there} == {RemoteInstanceStage.THERE}
    async with running(root.withdrawals.run):
        root.withdrawals.note(one.instance_uuid for one in there)
        await root.desk.clock.sleep(LONG_S)
    assert await remote_instances(root) == there
    assert await running_below(root) == 2


async def test_a_child_that_was_removed_is_asked_when_it_is_added_again() -> None:
    """Instances in a removed child are withdrawn once the child is added again."""
    root = await failed()
    root.near.silent.clear()
    left, children = await remote_instances(root), list(root.children)
    async with running(root.withdrawals.run):
        root.children.clear()
        await root.desk.clock.sleep(LONG_S)
        assert await remote_instances(root) == left
        root.children[:] = children
        await root.desk.clock.sleep(LONG_S)
    assert await remote_instances(root) == []
    assert await running_below(root) == 0


async def test_what_comes_meanwhile_does_not_wait() -> None:
    """A new withdrawal does not wait for a child that does not answer."""
    root = await failed()
    root.children[:] = [*root.children, replace(root.children[0], zone_id=9, name="gone")]
    root.near.silent.clear()
    async with running(root.withdrawals.run):
        await root.desk.clock.sleep(1.0)
        assert await remote_instances(root) == []
        sample = RemoteInstance(
            "lost", 9, RemoteInstanceStage.WITHDRAWING, "p", "u", "r-1", "req-2"
        )
        root.near.away.add("gone")
        await root.desk.ledger.commit([(Put(sample),)])
        root.withdrawals.note(["lost"])
        await root.desk.clock.sleep(LONG_S)
        asked = len(root.near.asked)
        await root.desk.ledger.commit([(Put(replace(sample, instance_uuid=UUID, zone_id=1)),)])
        root.withdrawals.note([UUID])
        await root.desk.clock.sleep(6.0)
        assert ("west", "release") in root.near.asked[asked:]
        assert [one.instance_uuid for one in await remote_instances(root)] == ["lost"]


async def test_a_ledger_that_is_away_is_asked_again() -> None:
    """A withdrawal is repeated if the ledger is away."""
    root = await failed()
    root.near.silent.clear()
    root.desk.ledger.away = 1
    async with running(root.withdrawals.run):
        await root.desk.clock.sleep(LONG_S)
    assert await remote_instances(root) == []
    assert "zone_withdrawal_failed" in root.desk.told.failed
