"""Tests for delegated instances that no owner or request wants any more."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Put, Remove
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.measures import ZONE_INSTANCES_UNWANTED
from berth.services.placement.pending_requests import PendingRequests
from berth.services.requests.orders import PlaceOrder, Placer
from berth.services.zoning.delegation.unwanted_instances import UnwantedInstanceFinder
from tests.unit.services.wiring import order_of, running
from tests.unit.services.zoning.zone_harness import ZoneServices, open_tree, request_of

COUNT = 3
LEASE_S = 31.0


@pytest.fixture
async def root() -> AsyncIterator[ZoneServices]:
    """Yield the root of a tree whose scheduler died after the children had built all instances."""
    root = await open_tree()
    root.children[:] = [replace(one, weight_offset=100.0) for one in root.children]
    dying = asyncio.Event()

    async def stop(saga: object) -> Decision:
        dying.set()
        await asyncio.Event().wait()
        raise AssertionError(saga)

    root.tree._completion.finish = stop  # type: ignore[method-assign]
    task = asyncio.create_task(root.tree.place(order_of(request_of(COUNT))))
    await dying.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert {one.stage for one in await remote_instances(root)} == {RemoteInstanceStage.THERE}
    yield root
    await root.desk.ledger.close()


def heir_of(root: ZoneServices) -> ZoneServices:
    """Return another scheduler of the root."""
    return ZoneServices("root", root.desk, root.near, root.children, scheduler="two")


def pending_of(house: ZoneServices, *, placer: Placer | None = None) -> PendingRequests:
    """Return the pending-request loop of a scheduler."""
    desk = house.desk
    return PendingRequests(
        ledger=desk.ledger,
        replica=desk.replica,
        placer=placer or house.tree,
        clock=desk.clock,
        telemetry=desk.told,
        name=house.scheduler,
        withdrawn=house.withdrawals.note,
    )


async def delete(root: ZoneServices, count: int = COUNT) -> None:
    """Delete instances as their owner while they wait for a scheduler."""
    for uuid in request_of(count).instance_uuids:
        await root.desk.instances.delete(uuid)


async def remote_instances(root: ZoneServices) -> list[RemoteInstance]:
    """Return the remote instances in the root's ledger."""
    return await root.desk.ledger.all(RemoteInstance)


async def below(root: ZoneServices) -> list[str]:
    """Return the uuids of the instances that run in the children."""
    found: list[str] = []
    for name in ("west", "east", "deep"):
        for uuid in request_of(COUNT).instance_uuids:
            one = await root.near.houses[name].desk.ledger.get(Instance, uuid)
            if one is not None and one.host is not None and one.task is not Task.DELETING:
                found.append(uuid)
    return sorted(found)


async def test_all_are_deleted_before_another_scheduler_goes_on(root: ZoneServices) -> None:
    """If all instances are deleted, the next scheduler ends the request and withdraws them.

    It does so only after the lease has ended.
    """
    await delete(root)
    heir = heir_of(root)
    clock = root.desk.clock
    async with running(root.desk.follower.run, pending_of(heir).run, heir.withdrawals.run):
        await clock.sleep(5.0)
        assert await root.desk.ledger.all(PendingRequest) != []
        assert len(await below(root)) == COUNT
        await clock.sleep(LEASE_S + 30.0)
    assert await root.desk.ledger.all(PendingRequest) == []
    assert await remote_instances(root) == []
    assert await below(root) == []
    assert "zone_unwanted_instances_found" not in root.desk.told.events


async def test_some_are_deleted_before_another_scheduler_goes_on(root: ZoneServices) -> None:
    """If some instances are deleted, the next scheduler withdraws only those."""
    await delete(root, COUNT - 1)
    heir = heir_of(root)
    async with running(root.desk.follower.run, pending_of(heir).run, heir.withdrawals.run):
        await root.desk.clock.sleep(LEASE_S + 30.0)
    kept = [request_of(COUNT).instance_uuids[-1]]
    assert await root.desk.ledger.all(PendingRequest) == []
    assert await below(root) == kept
    assert [(one.instance_uuid, one.stage) for one in await remote_instances(root)] == [
        (kept[0], RemoteInstanceStage.THERE)
    ]


async def test_a_request_that_is_given_up_keeps_nothing(root: ZoneServices) -> None:
    """If a request is given up, all its instances are withdrawn."""

    class Refusing:
        async def place(self, order: PlaceOrder) -> Decision:
            raise InvalidInputError("flavor", f"{order.request.request_id} cannot be read")

    heir = heir_of(root)
    pending = pending_of(heir, placer=Refusing())
    async with running(root.desk.follower.run, pending.run, heir.withdrawals.run):
        await root.desk.clock.sleep(LEASE_S + 30.0)
    for uuid in request_of(COUNT).instance_uuids:
        stored = await root.desk.ledger.get(Instance, uuid)
        assert stored is not None
        assert stored.status is Status.ERROR
    assert await remote_instances(root) == []
    assert await below(root) == []


async def test_a_request_that_its_own_scheduler_cannot_read(root: ZoneServices) -> None:
    """A request that its own scheduler cannot read ends in spite of the renewed lease."""
    heir = heir_of(root)

    async def refuse(saga: object) -> Decision:
        raise InvalidInputError("flavor", f"{saga} cannot be read")

    heir.tree._completion.finish = refuse  # type: ignore[method-assign]
    async with running(root.desk.follower.run, pending_of(heir).run, heir.withdrawals.run):
        await root.desk.clock.sleep(LEASE_S + 30.0)
    assert await root.desk.ledger.all(PendingRequest) == []
    assert await remote_instances(root) == []
    assert await below(root) == []


async def forget_request(root: ZoneServices) -> None:
    """Remove the request but not its remote instances, as older versions did."""
    await delete(root)
    (pending,) = await root.desk.ledger.all(PendingRequest)
    await root.desk.ledger.commit([(Remove(Kind.PENDING_REQUEST, pending.request.request_id),)])


async def test_what_an_older_berth_has_left_is_taken_back(root: ZoneServices) -> None:
    """A scheduler withdraws and reports remote instances that an older version left."""
    await forget_request(root)
    root.near.away.update(("west", "east"))
    heir = heir_of(root)
    async with running(heir.withdrawals.run):
        await root.desk.clock.sleep(5.0)
        assert [(one.measure, one.value) for one in heir.withdrawals.read()] == [
            (ZONE_INSTANCES_UNWANTED, COUNT)
        ]
        root.near.away.clear()
        await root.desk.clock.sleep(LEASE_S)
        assert heir.withdrawals.read()[0].value == 0
    assert "zone_unwanted_instances_found" in root.desk.told.events
    assert await remote_instances(root) == []
    assert await below(root) == []


async def test_what_is_left_later_is_taken_back_later(root: ZoneServices) -> None:
    """Remote instances left later are found by a later search."""
    heir = heir_of(root)
    async with running(heir.withdrawals.run):
        await root.desk.clock.sleep(1.0)
        await forget_request(root)
        root.desk.ledger.away = 1
        await root.desk.clock.sleep(400.0)
    assert await remote_instances(root) == []
    assert await below(root) == []


@pytest.mark.parametrize("stage", [RemoteInstanceStage.THERE, RemoteInstanceStage.SENDING])
async def test_what_is_wanted_or_under_way_is_left_alone(
    root: ZoneServices, stage: RemoteInstanceStage
) -> None:
    """Instances of pending requests, local instances and removed ones are not unwanted."""
    leftovers = UnwantedInstanceFinder(root.desk.ledger)
    await delete(root)
    assert not (await leftovers.find()).left_behind
    living = (await remote_instances(root))[0]
    for uuid in ("gone", "alive"):
        await root.desk.ledger.commit(
            [(Put(replace(living, instance_uuid=uuid, request_id="req-2", stage=stage)),)]
        )
    (instance,) = order_of(request_of(1)).instances
    await root.desk.ledger.commit([(Put(replace(instance, uuid="alive")),)])
    before = await remote_instances(root)
    for _ in range(2):
        assert not (await leftovers.find()).left_behind
    assert await remote_instances(root) == before


@pytest.mark.parametrize(("sent_ms", "is_unwanted"), [(5, True), (6, False)])
async def test_what_a_parent_has_released_since_it_was_sent(
    root: ZoneServices, sent_ms: int, *, is_unwanted: bool
) -> None:
    """An instance that its parent has withdrawn since it was sent is unwanted."""
    sample = (await remote_instances(root))[0]
    sent = replace(sample, instance_uuid="x", stage=RemoteInstanceStage.SENDING, sent_ms=sent_ms)
    (instance,) = order_of(request_of(1)).instances
    mark = replace(
        instance, uuid="x", status=Status.DELETED, task=None, extra={"berth:withdrawn_ms": 5}
    )
    await root.desk.ledger.commit([(Put(sent), Put(mark))])
    found = await UnwantedInstanceFinder(root.desk.ledger).find()
    assert found == (frozenset({"x"} if is_unwanted else ()), frozenset())
