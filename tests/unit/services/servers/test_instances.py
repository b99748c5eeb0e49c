"""Tests for accepting orders once and for deleting instances in any state."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from berth.domain.compute.decision import Verdict
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Destination
from berth.domain.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Put, Unit
from berth.ports.ledger import InstanceQuery
from berth.services.servers.instances import CreateOrder
from berth.testing.builders import (
    make_aggregate,
    make_flavor,
    make_fleet,
    make_instance,
    make_server_group,
    make_take,
    make_uuid,
)
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second

ORDER = CreateOrder("req-1", "vm", "1", "project-1", "user-1")


async def used(desk: Desk, hosts: int = 2) -> int:
    """Return the VCPUs in use on all hosts."""
    return sum([(await desk.ledger.used(n)).get(VCPU, 0) for n in range(1, hosts + 1)])


async def stored(desk: Desk) -> list[Instance]:
    """Return every instance of the ledger by launch index."""
    found = await desk.ledger.instances(InstanceQuery(deleted=None))
    return sorted(found, key=lambda instance: (instance.request_id, instance.launch_index))


# --- creating ---


async def test_with_a_scheduler_an_order_is_decided_at_once() -> None:
    """With a scheduler the answer has the decision, and the instances have hosts."""
    desk = await open_desk()
    desk.serve()
    accepted = await desk.instances.create(replace(ORDER, count=2))
    assert accepted.decision is not None
    assert accepted.decision.verdict is Verdict.PLACED
    kept = await stored(desk)
    assert [one.uuid for one in kept] == [one.uuid for one in accepted.instances]
    assert [one.name for one in kept] == ["vm-1", "vm-2"]
    assert {one.reservation_id for one in kept} == {accepted.reservation_id}
    assert all(one.host for one in kept)


async def test_without_a_scheduler_an_order_waits_in_the_ledger() -> None:
    """Without a scheduler the order is accepted and stays pending."""
    desk = await open_desk()
    accepted = await desk.instances.create(ORDER)
    assert accepted.decision is None
    assert await desk.ledger.get(PendingRequest, "req-1") is not None
    (instance,) = await stored(desk)
    assert (instance.name, instance.task, instance.host) == ("vm", Task.SCHEDULING, None)


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("may_repeat", [True, False])
async def test_a_repeated_order_is_accepted_once(served: bool, may_repeat: bool) -> None:
    """A repeated order with the same request id gets the same instances."""
    desk = await open_desk()
    if served:
        desk.serve()
    first = await desk.instances.create(replace(ORDER, count=2))
    again = await desk.instances.create(replace(ORDER, count=2, may_repeat=may_repeat))
    assert [one.uuid for one in again.instances] == [one.uuid for one in first.instances]
    assert again.decision == first.decision
    assert again.reservation_id == first.reservation_id
    assert len(await stored(desk)) == 2


@pytest.mark.parametrize("served", [True, False])
async def test_orders_repeated_at_once_are_accepted_once(served: bool) -> None:
    """Simultaneous repeats through several processes are accepted once."""
    desk = await open_desk()
    second = await open_second(desk)
    if served:
        desk.serve()
    desk.ledger.gate = asyncio.Event()
    calls = [
        asyncio.create_task(one.instances.create(ORDER)) for one in (desk, second, desk, second)
    ]
    await asyncio.sleep(1)
    desk.ledger.gate.set()
    answers = await asyncio.gather(*calls)
    assert {one.instances[0].uuid for one in answers} == {answers[0].instances[0].uuid}
    assert len(await stored(desk)) == 1


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("change", [{"count": 3}, {"count": 1}])
async def test_a_request_id_answers_with_what_it_first_meant(
    served: bool, change: dict[str, Any]
) -> None:
    """A repeat with other contents gets the instances of the first order."""
    desk = await open_desk()
    if served:
        desk.serve()
    first = await desk.instances.create(replace(ORDER, count=2))
    again = await desk.instances.create(replace(ORDER, **change))
    assert [one.uuid for one in again.instances] == [one.uuid for one in first.instances]


@pytest.mark.parametrize("served", [True, False])
async def test_a_request_id_of_another_project_is_refused(served: bool) -> None:
    """A request id of another project is refused."""
    desk = await open_desk()
    if served:
        desk.serve()
    await desk.instances.create(ORDER)
    with pytest.raises(ConflictError, match="a different request"):
        await desk.instances.create(replace(ORDER, project_id="project-2"))


async def test_a_lost_answer_of_the_scheduler_is_found_in_the_ledger() -> None:
    """A commit whose answer the scheduler lost is found in the ledger."""
    desk = await open_desk()
    desk.serve()
    desk.ledger.silent = 1
    accepted = await desk.instances.create(ORDER)
    assert accepted.decision is not None
    assert accepted.decision.verdict is Verdict.PLACED
    assert (await used(desk), len(await stored(desk))) == (1, 1)


async def test_an_order_that_no_scheduler_answers_waits_in_the_ledger() -> None:
    """An order that the scheduler does not answer becomes pending and is not placed twice."""
    desk = await open_desk()
    desk.serve()
    gate = desk.ledger.gate = asyncio.Event()
    call = asyncio.create_task(desk.instances.create(ORDER))
    await asyncio.sleep(59)
    desk.ledger.gate = None
    accepted = await call
    assert accepted.decision is None
    assert await desk.ledger.get(PendingRequest, "req-1") is not None
    gate.set()
    await asyncio.sleep(1)
    assert (await used(desk), len(await stored(desk)), desk.replica.held) == (0, 1, 0)


async def test_a_ledger_that_is_away_is_said_to_be() -> None:
    """An unreachable ledger is reported, and the order can be repeated."""
    desk = await open_desk()
    desk.serve()
    desk.ledger.away = 2
    with pytest.raises(UnavailableError):
        await desk.instances.create(ORDER)
    assert (await desk.instances.create(ORDER)).decision is not None


async def test_a_refused_order_is_answered_with_its_refusal() -> None:
    """A refused order gets its refusal, also when it is repeated."""
    desk = await open_desk(Fleet(hosts=1, vcpus=1))
    desk.serve()
    await desk.ledger.write(make_take(9))
    first = await desk.instances.create(ORDER)
    assert first.decision is not None
    assert first.decision.refusal is not None
    again = await desk.instances.create(ORDER)
    assert again.decision == first.decision
    assert [one.status for one in await stored(desk)] == [Status.ERROR]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"count": 0}, "count"),
        ({"count": 10_001}, "count"),
        ({"flavor_id": "none"}, "flavorRef"),
        ({"image": Image("i", min_memory_mb=10**6)}, "flavorRef"),
        ({"image": Image("i", min_disk_gb=10**6)}, "flavorRef"),
        ({"image": Image("i", properties={"trait:X": "maybe"})}, "trait:X"),
        ({"zone": "nowhere"}, "availability_zone"),
        ({"zone": "nova:nobody"}, "availability_zone"),
        ({"zone": "a:b:c:d"}, "availability_zone"),
        ({"destination": Destination("nobody")}, "host"),
        ({"hints": {"group": ("none",)}}, "hints.group"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_kept(
    change: dict[str, Any], field: str
) -> None:
    """An invalid field is named, and nothing is written."""
    desk = await open_desk()
    with pytest.raises(InvalidInputError) as caught:
        await desk.instances.create(replace(ORDER, **change))
    assert caught.value.field == field
    assert await stored(desk) == []


async def test_what_was_made_a_moment_ago_can_be_ordered() -> None:
    """A new flavor, zone, host or group is found before the replica knows it."""
    desk = await open_desk()
    await desk.ledger.write(Put(make_flavor(7)), Put(make_aggregate(1)), Put(make_server_group(1)))
    order = replace(
        ORDER, flavor_id="7", zone="az-1:HOST-1", hints={"group": (make_server_group(1).uuid,)}
    )
    request = await desk.instances.request_of(order)
    assert (request.availability_zone, request.force_hosts) == ("az-1", ("host-1",))
    assert request.group_uuid == make_server_group(1).uuid


async def test_a_group_that_comes_with_a_new_snapshot_is_found() -> None:
    """A group is found if catching up replaces the table."""
    desk = await open_desk()
    desk.follower._needs_reload = True
    group = make_server_group(1)
    await desk.ledger.write(Put(group))
    request = await desk.instances.request_of(replace(ORDER, hints={"group": (group.uuid,)}))
    assert request.group_uuid == group.uuid


async def test_what_an_order_says_is_kept() -> None:
    """An order's zone, metadata and attributes are kept, and a named host is forced."""
    desk = await open_desk()
    order = replace(
        ORDER, zone="nova:host-2:host-2", metadata={"a": "b"}, extra={"key_name": "mine"}
    )
    await desk.instances.create(order)
    (instance,) = await stored(desk)
    assert (instance.forced, instance.requested_zone) == (True, "nova")
    assert (instance.metadata, instance.extra) == ({"a": "b"}, {"key_name": "mine"})
    pending = await desk.ledger.get(PendingRequest, "req-1")
    assert pending is not None
    assert pending.request.force_nodes == ("host-2",)


# --- deleting ---


async def test_a_waiting_instance_is_deleted_at_once() -> None:
    """An instance without a host is deleted immediately."""
    desk = await open_desk()
    accepted = await desk.instances.create(ORDER)
    await desk.instances.delete(accepted.instances[0].uuid)
    (instance,) = await stored(desk)
    assert (instance.status, instance.task) == (Status.DELETED, None)
    assert instance.terminated_at_s is not None


async def test_a_failed_instance_is_deleted_at_once() -> None:
    """A failed instance without a host is deleted immediately."""
    desk = await open_desk()
    failed = replace(make_instance(1), status=Status.ERROR, task=None)
    await desk.ledger.write(Put(failed))
    await desk.instances.delete(failed.uuid)
    assert (await desk.instances.get(failed.uuid)).status is Status.DELETED


@pytest.mark.parametrize(("status", "task"), [(Status.BUILD, Task.SPAWNING), (Status.ACTIVE, None)])
async def test_an_instance_on_a_host_is_left_to_its_agent(
    status: Status, task: Task | None
) -> None:
    """An instance on a host keeps its allocation until the agent destroys it."""
    desk = await open_desk()
    instance = replace(make_instance(1, host="host-1"), status=status, task=task)
    await desk.ledger.write(make_take(1), Put(instance))
    await desk.instances.delete(instance.uuid)
    found = await desk.instances.get(instance.uuid)
    assert (found.status, found.task) == (status, Task.DELETING)
    assert await used(desk) == 1
    version = await desk.ledger.version()
    await desk.instances.delete(instance.uuid)
    assert await desk.ledger.version() == version


@pytest.mark.parametrize("task", [None, Task.DELETING])
async def test_an_instance_whose_host_is_down_is_deleted_at_once(task: Task | None) -> None:
    """An instance whose host is down is deleted immediately."""
    desk = await open_desk()
    instance = replace(make_instance(1, host="host-1"), status=Status.ACTIVE, task=task)
    await desk.ledger.write(make_take(1), Put(instance))
    await desk.hosts.set_service("host-1", forced_down=True)
    await desk.follower.catch_up()
    await desk.instances.delete(instance.uuid, service_down_time_s=60)
    found = await desk.instances.get(instance.uuid)
    assert (found.status, found.task) == (Status.DELETED, None)
    assert await used(desk) == 0


async def test_an_instance_on_a_host_yet_unheard_of_is_left_to_its_agent() -> None:
    """An instance on a host that the replica does not know is left to its agent."""
    desk = await open_desk()
    *_, unheard_of = make_fleet(3)
    instance = replace(make_instance(1, host="host-3"), task=Task.SPAWNING)
    await desk.ledger.write(*unheard_of)
    await desk.ledger.write(make_take(1, on=3), Put(instance))
    await desk.instances.delete(instance.uuid)
    assert (await desk.instances.get(instance.uuid)).task is Task.DELETING


async def test_deleting_what_is_not_there_is_an_error() -> None:
    """Deleting an unknown or deleted instance raises NotFoundError."""
    desk = await open_desk()
    accepted = await desk.instances.create(ORDER)
    uuid = accepted.instances[0].uuid
    await desk.instances.delete(uuid)
    for gone in (uuid, "never"):
        with pytest.raises(NotFoundError):
            await desk.instances.delete(gone)


async def test_deleting_wins_over_a_change_that_comes_between() -> None:
    """A delete is repeated after another change of the instance."""
    desk = await open_desk()
    accepted = await desk.instances.create(ORDER)
    uuid = accepted.instances[0].uuid

    async def rename(units: Sequence[Unit]) -> None:
        desk.ledger.before_commit = None
        await desk.instances.save(replace(await desk.instances.get(uuid), name="other"))

    desk.ledger.before_commit = rename
    await desk.instances.delete(uuid)
    found = await desk.instances.get(uuid)
    assert (found.status, found.name) == (Status.DELETED, "other")


async def test_deleting_what_always_changes_gives_up() -> None:
    """A delete gives up if the instance keeps changing."""
    desk = await open_desk()
    accepted = await desk.instances.create(ORDER)
    uuid = accepted.instances[0].uuid

    async def rename(units: Sequence[Unit]) -> None:
        current = await desk.instances.get(uuid)
        await desk.ledger.write(Put(replace(current, name="other")))

    desk.ledger.before_commit = rename
    with pytest.raises(ConflictError, match="keeps changing"):
        await desk.instances.delete(uuid)


# --- reading and saving ---


async def test_saving_what_has_changed_is_a_conflict() -> None:
    """Saving an outdated instance is a conflict."""
    desk = await open_desk()
    accepted = await desk.instances.create(ORDER)
    read = await desk.instances.get(accepted.instances[0].uuid)
    await desk.instances.save(replace(read, name="one"))
    with pytest.raises(ConflictError):
        await desk.instances.save(replace(read, name="two"))
    assert (await desk.instances.get(read.uuid)).name == "one"


async def test_instances_are_found_by_query() -> None:
    """Instances are found by project."""
    desk = await open_desk()
    await desk.instances.create(ORDER)
    await desk.instances.create(replace(ORDER, request_id="req-2", project_id="project-2"))
    found = await desk.ledger.instances(InstanceQuery(project_id="project-2"))
    assert [one.project_id for one in found] == ["project-2"]
    with pytest.raises(NotFoundError):
        await desk.instances.get(make_uuid("none", 1))
