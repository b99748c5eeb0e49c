"""Tests for orders that wait in the ledger as a whole or one by one."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import PendingRequest
from berth.ports.ledger import InstanceQuery
from berth.services.requests.orders import PlaceOrder, check_order
from berth.services.servers.instances import CreateOrder
from berth.testing.builders import make_instance, make_request, make_uuid
from tests.unit.services.wiring import Desk, Fleet, open_desk

ORDER = CreateOrder("req-1", "vm", "1", "project-1", "user-1", one_by_one=True)


async def stored(desk: Desk) -> list[Instance]:
    """Return every instance of the ledger by launch index."""
    found = await desk.ledger.instances(InstanceQuery(deleted=None))
    return sorted(found, key=lambda instance: instance.launch_index)


async def take_up(desk: Desk) -> None:
    """Run the scheduler until nothing is pending."""
    running = asyncio.create_task(desk.pending.run())
    while await desk.ledger.all(PendingRequest):  # noqa: ASYNC110 - the ledger sets no event
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_each_instance_is_a_request_of_its_own() -> None:
    """With `one_by_one` each instance has its own pending request and the common reservation."""
    desk = await open_desk()
    desk.serve()
    answer = await desk.instances.create(replace(ORDER, count=3))
    assert answer.decision is None
    pending = await desk.ledger.all(PendingRequest)
    names = {one.request.request_id: one.request.instance_uuids for one in pending}
    assert names == {
        f"req-1.{number}": (one.uuid,) for number, one in enumerate(answer.instances, start=1)
    }
    kept = await stored(desk)
    assert {one.reservation_id for one in kept} == {answer.reservation_id}
    assert {one.request_id for one in kept} == {"req-1"}


async def test_one_that_finds_no_host_does_not_keep_back_the_others() -> None:
    """An instance that finds no host does not prevent the others from being placed."""
    desk = await open_desk(Fleet(hosts=2, vcpus=1))
    whole = await desk.instances.create(replace(ORDER, request_id="req-0", count=3))
    await desk.follower.catch_up()
    await take_up(desk)
    kept = [await desk.ledger.get(Instance, one.uuid) for one in whole.instances]
    found = Counter(one.status for one in kept if one is not None)
    assert found[Status.ERROR] == 1
    assert len({one.host for one in kept if one is not None and one.host}) == 2
    (failed,) = (one for one in kept if one is not None and one.status is Status.ERROR)
    assert failed.decision_id is not None
    decision = await desk.ledger.get(Decision, failed.decision_id)
    assert decision is not None
    assert decision.refusal is not None


async def test_a_repeated_order_is_accepted_once() -> None:
    """A repeated order is accepted once, before and after it is placed."""
    desk = await open_desk()
    first = await desk.instances.create(replace(ORDER, count=2))
    again = await desk.instances.create(replace(ORDER, count=2))
    assert [one.uuid for one in again.instances] == [one.uuid for one in first.instances]
    await desk.follower.catch_up()
    await take_up(desk)
    later = await desk.instances.create(replace(ORDER, count=2))
    assert [one.uuid for one in later.instances] == [one.uuid for one in first.instances]
    assert len(await stored(desk)) == 2


@pytest.mark.parametrize("uuid", ["..", "../../etc", "", "vm-1", f"{make_uuid('instance', 1)}\n"])
def test_only_uuids_identify_the_instances_of_an_order(uuid: str) -> None:
    """A path that a forged order has in place of a uuid never reaches a driver."""
    instance = replace(make_instance(1), uuid=uuid)
    order = PlaceOrder(replace(make_request(1), instance_uuids=(uuid,)), (instance,))
    with pytest.raises(InvalidInputError, match=r"instances\.uuid.*must be a UUID"):
        check_order(order)


def test_an_order_has_the_instances_of_its_request() -> None:
    """An instance that the request does not name would be stored without a place."""
    uuids = make_uuid("instance", 1), make_uuid("instance", 2)
    request = replace(make_request(1), instance_uuids=uuids)
    instances = make_instance(1), make_instance(2)
    check_order(PlaceOrder(request, instances))
    with pytest.raises(InvalidInputError, match="the instances that the request names"):
        check_order(PlaceOrder(request, instances[:1]))
