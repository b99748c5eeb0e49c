"""Tests for repeated orders whose instances are in child zones."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Verdict
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import instance_uuid_of
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Remove
from berth.domain.zones.zone import RemoteInstance
from berth.services.requests.orders import PLACE, PlaceOrder
from berth.services.servers.instances import AcceptedCreate, CreateOrder
from tests.unit.services.zoning.zone_harness import ZoneServices, open_tree

ORDER = CreateOrder("req-1", "web", "1", "p", "u", count=3, may_repeat=True)


async def open_root(weight_offset: float = 100.0) -> ZoneServices:
    """Return a tree whose root prefers or avoids its children."""
    root = await open_tree()
    root.children[:] = [replace(one, weight_offset=weight_offset) for one in root.children]
    return root


def serve(root: ZoneServices) -> Callable[[], None]:
    """Let the root's scheduler serve the bus; return the function that stops it."""
    return root.desk.bus.serve(PLACE, root.tree.place)


async def take_up(root: ZoneServices) -> None:
    """Place all pending requests."""
    await root.desk.follower.catch_up()
    for pending in await root.desk.ledger.all(PendingRequest):
        instances = [
            await root.desk.ledger.get(Instance, uuid) for uuid in pending.request.instance_uuids
        ]
        there = tuple(one for one in instances if one is not None)
        order = PlaceOrder(pending.request, there, accepted=True)
        assert (await root.tree.place(order)).verdict is Verdict.PLACED


def uuids(accepted: AcceptedCreate) -> list[str]:
    """Return the uuids of an order's instances."""
    return [one.uuid for one in accepted.instances]


async def check_nothing_new(root: ZoneServices) -> None:
    """Check that a repeat left no pending request and no second record of an instance."""
    assert await root.desk.ledger.all(PendingRequest) == []
    here = {one.uuid for one in await root.desk.ledger.all(Instance)}
    assert here.isdisjoint(one.instance_uuid for one in await root.desk.ledger.all(RemoteInstance))


@pytest.mark.parametrize("has_scheduler", [True, False])
async def test_the_answer_is_the_same(*, has_scheduler: bool) -> None:
    """A repeated order gets the same answer, with and without a scheduler."""
    root = await open_root()
    stop = serve(root)
    first = await root.desk.instances.create(ORDER)
    if not has_scheduler:
        stop()
    again = await root.desk.instances.create(ORDER)
    assert (uuids(again), again.reservation_id) == (uuids(first), first.reservation_id)
    assert again.decision == first.decision
    assert len(await root.desk.ledger.all(RemoteInstance)) == ORDER.count
    await check_nothing_new(root)


async def test_some_are_here() -> None:
    """A repeated order lists local and remote instances in their order."""
    root = await open_root(weight_offset=0.0)
    order = replace(ORDER, count=20)
    stop = serve(root)
    first = await root.desk.instances.create(order)
    stop()
    assert 0 < len(await root.desk.ledger.all(RemoteInstance)) < order.count
    assert uuids(await root.desk.instances.create(order)) == uuids(first)
    await check_nothing_new(root)


async def test_they_are_deleted_by_now() -> None:
    """A repeated order makes no new instances for deleted ones."""
    root = await open_root()
    stop = serve(root)
    first = await root.desk.instances.create(ORDER)
    stop()
    for remote in await root.desk.ledger.all(RemoteInstance):
        await root.desk.ledger.write(Remove(Kind.REMOTE_INSTANCE, remote.instance_uuid))
    assert uuids(await root.desk.instances.create(ORDER)) == uuids(first)
    await check_nothing_new(root)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_each_by_itself(*, is_deleted: bool) -> None:
    """A repeated order with `one_by_one` gets the same instances."""
    root = await open_root()
    order = replace(ORDER, one_by_one=True)
    first = await root.desk.instances.create(order)
    await take_up(root)
    if is_deleted:
        for remote in await root.desk.ledger.all(RemoteInstance):
            await root.desk.ledger.write(Remove(Kind.REMOTE_INSTANCE, remote.instance_uuid))
    assert uuids(await root.desk.instances.create(order)) == uuids(first)
    await check_nothing_new(root)


@pytest.mark.parametrize("count", [1, 5])
async def test_another_number_is_another_order(count: int) -> None:
    """A repeat with another count gets the instances of the first order."""
    root = await open_root()
    stop = serve(root)
    first = await root.desk.instances.create(ORDER)
    stop()
    again = await root.desk.instances.create(replace(ORDER, count=count))
    assert uuids(again) == uuids(first)


async def test_what_is_new_is_made() -> None:
    """An order with another request id creates new instances."""
    root = await open_root()
    serve(root)
    await root.desk.instances.create(ORDER)
    made = await root.desk.instances.create(replace(ORDER, request_id="req-2"))
    assert uuids(made) == [instance_uuid_of("req-2", index) for index in range(ORDER.count)]
    assert len(await root.desk.ledger.all(RemoteInstance)) == 2 * ORDER.count
