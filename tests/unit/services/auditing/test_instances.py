"""Tests for instances whose allocation, host, task, disks or group is wrong."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import AZ_KEY
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Action
from berth.domain.ledger.discrepancy import DiscrepancyCode
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Free, Put, Remove
from berth.testing.builders import (
    make_aggregate,
    make_flavor,
    make_server_group,
    make_service,
    make_take,
)
from tests.unit.lifecycle.town import caller, open_town
from tests.unit.services.auditing.office import DOWN_S, FULL, LONG_S, Office, open_office

MISSING = DiscrepancyCode.MISSING_ALLOCATION


async def bare(office: Office) -> Instance:
    """Return an instance that is on a host and holds nothing."""
    vm = await office.place()
    await office.ledger.write(Free(vm.uuid))
    return vm


async def test_a_missing_allocation_is_claimed_again() -> None:
    """A missing allocation is claimed again on the instance's host."""
    office = await open_office()
    vm = await bare(office)
    found = await office.only(MISSING)
    assert (found.host, list(found.needed.values()), found.lost) == (vm.host, [FULL], {})
    assert (await office.only(MISSING, mends=True)).is_repaired
    assert (await office.audit()).discrepancies == ()
    (allocation,) = await office.ledger.allocations()
    assert (allocation.consumer_uuid, allocation.amounts) == (vm.uuid, FULL)


async def test_nothing_is_claimed_where_there_is_no_room() -> None:
    """A missing allocation is not claimed without room, and the outcome says how much is short."""
    office = await open_office(hosts=1, vcpus=2)
    await bare(office)
    await office.ledger.write(make_take(8, amounts={"VCPU": 2}))
    report = await office.audit(mends=True)
    found = next(one for one in report.discrepancies if one.code is MISSING)
    assert found.outcome is not None
    assert found.outcome.version is None
    assert "VCPU: 1 needed, 0 left" in found.outcome.text


async def test_what_is_freed_is_room_for_what_is_claimed() -> None:
    """Orphaned allocations are freed before missing ones are claimed."""
    office = await open_office(hosts=1, vcpus=1)
    vm = await bare(office)
    await office.ledger.write(make_take(8, amounts={"VCPU": 1}))
    await office.audit()
    await office.desk.clock.sleep(DOWN_S + 1)
    report = await office.audit(mends=True)
    assert [one.is_repaired for one in report.discrepancies] == [True, True]
    assert [one.consumer_uuid for one in await office.ledger.allocations()] == [vm.uuid]


async def test_an_instance_that_changes_is_not_claimed_for() -> None:
    """A missing allocation is not claimed if the instance changes meanwhile."""
    office = await open_office()
    vm = await bare(office)

    async def be_faster(_: object) -> None:
        office.ledger.before_commit = None
        await office.write_instance(await office.get(vm.uuid), name="other")

    office.ledger.before_commit = be_faster
    assert not (await office.only(MISSING, mends=True)).is_repaired
    assert await office.ledger.allocations() == []


@pytest.mark.parametrize(
    ("amounts", "on_other", "code", "lost"),
    [
        (FULL | {"VCPU": 3}, False, DiscrepancyCode.ALLOCATION_DIFFERS, {"VCPU": 2}),
        (FULL | {"MEMORY_MB": 1}, False, DiscrepancyCode.ALLOCATION_DIFFERS, {}),
        (FULL, True, DiscrepancyCode.ALLOCATION_ELSEWHERE, FULL),
    ],
)
async def test_a_wrong_allocation_is_told(
    amounts: dict[str, int], on_other: bool, code: DiscrepancyCode, lost: dict[str, int]
) -> None:
    """A wrong allocation is reported and not repaired."""
    office = await open_office()
    vm = await bare(office)
    here = int((vm.host or "").removeprefix("host-"))
    await office.ledger.write(make_take(1, on=3 - here if on_other else here, amounts=amounts))
    found = await office.only(code, mends=True)
    assert (found.mend, found.lost, found.outcome) == (None, lost, None)


async def test_an_instance_on_a_host_that_is_not_there_is_told() -> None:
    """An instance on an unknown host is reported with the host's name."""
    office = await open_office()
    vm = await office.place()
    await office.ledger.write(Free(vm.uuid))
    await office.write_instance(vm, host="gone", node="gone")
    assert (await office.only(DiscrepancyCode.HOST_MISSING)).host == "gone"


@pytest.mark.parametrize(
    ("task", "action", "is_up", "said"),
    [
        (Task.REBOOTING, "reboot", True, "it waits for host-1, whose service is up"),
        (Task.REBOOTING, "reboot", False, "it waits for host-1, whose service is down"),
        (Task.RESIZE_PREP, "resize", True, "no host is responsible for it"),
        (Task.REBUILDING, "evacuate", True, "no host is responsible for it"),
        (Task.REBUILDING, "rebuild", True, "it waits for host-1"),
    ],
)
async def test_a_task_that_stands_for_long_is_told(
    task: Task, action: str, is_up: bool, said: str
) -> None:
    """A task that lasts too long is reported with the host that must act, if any."""
    office = await open_office(hosts=1)
    vm = await office.place()
    asked = Action(vm.uuid, "req-2", action, "project-1", "user-1", vm.updated_at_s)
    await office.write_instance(vm, task=task, action=asked)
    assert (await office.audit()).discrepancies == ()
    await office.desk.clock.sleep(LONG_S)
    if is_up:
        service = make_service(last_seen_s=office.desk.clock.now_s())
        await office.ledger.write(Put(service))
    found = await office.only(DiscrepancyCode.TASK_STUCK, down_s=DOWN_S)
    assert said in found.text
    assert found.since_s == vm.updated_at_s


async def test_shelved_instances_have_disks() -> None:
    """A shelved instance without stored disks is reported."""
    office = await open_office()
    vm = await office.place()
    shelved = {"status": Status.SHELVED_OFFLOADED, "host": None, "node": None}
    await office.ledger.write(Free(vm.uuid))
    await office.write_instance(vm, disks="somewhere", **shelved)
    assert (await office.audit()).discrepancies == ()
    await office.write_instance(await office.get(vm.uuid), disks=None)
    await office.only(DiscrepancyCode.DISKS_UNKNOWN)


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
async def test_members_that_break_a_hard_policy_are_told(policy: str) -> None:
    """Members that break a hard group policy are reported."""
    office = await open_office()
    group = make_server_group()
    one, two = await office.place(1), await office.place(2)
    assert one.host != two.host
    await office.ledger.write(Put(replace(group, policy=type(group.policy)(policy))))
    for vm in (one, two):
        await office.ledger.write(Free(vm.uuid))
        await office.write_instance(vm, group_uuid=group.uuid)
    report = await office.audit(mends=True)
    broken = [one for one in report.discrepancies if one.kind is Kind.SERVER_GROUP]
    assert len(broken) == (policy == "affinity")
    for vm in (one, two):
        await office.ledger.write(Free(vm.uuid))
        await office.write_instance(await office.get(vm.uuid), host="host-1", node="host-1")
    report = await office.audit()
    broken = [one for one in report.discrepancies if one.kind is Kind.SERVER_GROUP]
    assert [one.code for one in broken] == (
        [DiscrepancyCode.GROUP_BROKEN] if policy == "anti-affinity" else []
    )
    await office.ledger.write(Put(replace(group, max_server_per_host=2)))
    assert not [o for o in (await office.audit()).discrepancies if o.kind is Kind.SERVER_GROUP]
    await office.ledger.write(Remove(Kind.SERVER_GROUP, group.uuid))


async def test_flavors_are_those_of_the_instances() -> None:
    """The needs of an instance follow from its own flavor, not from the current record."""
    office = await open_office()
    await office.place()
    await office.ledger.write(Put(make_flavor(vcpus=5)))
    assert (await office.audit()).discrepancies == ()


async def test_a_rebuild_of_an_image_that_wants_other_cpus_is_told() -> None:
    """A rebuild with an image that needs other resources is reported as a wrong allocation."""
    town = await open_town()
    vm = await town.create()
    pinned = Image("pinned", properties={"hw_cpu_policy": "dedicated"})
    await town.operations.rebuild(vm.uuid, pinned, caller())
    await town.work()
    now = await town.get(vm.uuid)
    assert (now.status, now.image) == (Status.ACTIVE, pinned)
    office = Office(town.desk)
    found = await office.only(DiscrepancyCode.ALLOCATION_DIFFERS, mends=True)
    assert (found.key, found.lost, found.mend) == (vm.uuid, {"VCPU": 1}, None)
    assert "PCPU 1" in found.text


async def test_what_a_task_is_about_to_change_is_not_claimed() -> None:
    """A missing allocation is not claimed while a task of the instance is in progress."""
    office = await open_office()
    vm = await bare(office)
    await office.write_instance(vm, task=Task.DELETING)
    await office.desk.clock.sleep(DOWN_S + 1)
    found = await office.only(MISSING, mends=True)
    assert (found.mend, found.outcome) == (None, None)
    assert await office.ledger.allocations() == []


async def test_an_instance_outside_its_zone_is_reported() -> None:
    """It is reported while its host is in other zones than the one it is bound to."""
    office = await open_office()
    vm = await office.place()
    await office.write_instance(await office.get(vm.uuid), requested_zone="east")
    assert "is in nova" in (await office.only(DiscrepancyCode.OUTSIDE_ZONE)).text
    for zones, is_found in (("west", True), ("west,east", False), ("", True), ("east", False)):
        aggregate = replace(
            make_aggregate(1), hosts=frozenset({vm.host or ""}), metadata={AZ_KEY: zones}
        )
        await office.ledger.write(Put(aggregate))
        found = [one.code for one in (await office.audit()).discrepancies]
        assert found == [DiscrepancyCode.OUTSIDE_ZONE] * is_found
