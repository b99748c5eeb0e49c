"""Decisions on the moves of several instances together."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Operation, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.write import Put
from berth.services.decisions import joint_decisions
from berth.services.decisions.joint_decisions import JointDecisions
from berth.services.servers.moves import MoveTarget, request_to_move
from berth.testing.builders import make_flavor, make_request
from tests.unit.services.wiring import Desk, Fleet, open_desk, order_of, running


async def placed(
    desk: Desk, number: int, host: str, vcpus: int = 1, group: str | None = None
) -> Instance:
    """Return an instance that has been placed on a host."""
    request = replace(
        make_request(number),
        flavor=make_flavor(vcpus=vcpus),
        force_hosts=(host,),
        group_uuid=group,
    )
    order = order_of(request)
    members = tuple(replace(one, group_uuid=group) for one in order.instances)
    decision = await desk.placer.place(replace(order, instances=members))
    assert decision.verdict is Verdict.PLACED
    await desk.follower.catch_up()
    found = await desk.ledger.get(Instance, request.instance_uuids[0])
    assert found is not None
    return found


def moving(instance: Instance) -> Request:
    """Return the request to move an instance to any host."""
    return request_to_move(
        instance, Operation.LIVE_MIGRATE, MoveTarget(), f"move-{instance.uuid[-4:]}"
    )


def hosts_of(instances: list[Instance], found: dict[str, Decision]) -> list[str | None]:
    """Return the chosen hosts of instances, None where there is none."""
    decisions = [found[moving(one).request_id] for one in instances]
    return [one.placements[0].host if one.placements else None for one in decisions]


async def test_each_decision_sees_the_earlier_ones_and_the_table_does_not_change() -> None:
    """Together, instances take no more than a host has; afterwards nothing is held."""
    desk = await open_desk(Fleet(hosts=3, vcpus=4))
    going = [await placed(desk, number, "host-1", vcpus=2) for number in (1, 2)]
    await placed(desk, 3, "host-2", vcpus=2)
    await placed(desk, 4, "host-3", vcpus=2)
    table = desk.replica.hosts
    before = (table.version, [desk.used(number) for number in (1, 2, 3)])
    joint = JointDecisions(desk.decision_service, desk.replica)
    found = dict(await joint.decide([moving(one) for one in going]))
    assert sorted(hosts_of(going, found), key=str) == ["host-2", "host-3"]
    assert (table.version, [desk.used(number) for number in (1, 2, 3)]) == before
    assert int(np.sum(table.num_instances)) == 4
    again = dict(await joint.decide([moving(one) for one in going]))
    assert hosts_of(going, again) == hosts_of(going, found)


async def test_a_refused_instance_is_tried_first() -> None:
    """A large one with a choice leaves the room that a smaller one needs."""
    desk = await open_desk(Fleet(hosts=3, vcpus=8))
    # The large one prefers host-2, which has more room; only there the small one is not beside
    # another member of its group.
    await desk.ledger.write(Put(ServerGroup("apart", "apart", GroupPolicy.ANTI_AFFINITY)))
    await desk.follower.catch_up()
    large = await placed(desk, 1, "host-1", vcpus=5)
    small = await placed(desk, 2, "host-1", vcpus=3, group="apart")
    await placed(desk, 3, "host-2")
    await placed(desk, 4, "host-3", vcpus=3, group="apart")
    joint = JointDecisions(desk.decision_service, desk.replica)
    found = dict(await joint.decide([moving(large), moving(small)]))
    assert hosts_of([large, small], found) == ["host-3", "host-2"]


async def test_members_of_a_group_stay_apart_in_one_plan() -> None:
    """Two that may share their present host, but no other one, find different hosts."""
    desk = await open_desk(Fleet(hosts=3))
    group = ServerGroup("pairs", "pairs", GroupPolicy.ANTI_AFFINITY, max_server_per_host=2)
    await desk.ledger.write(Put(group))
    await desk.follower.catch_up()
    going = [await placed(desk, number, "host-1", group="pairs") for number in (1, 2)]
    for number, host in ((3, "host-2"), (4, "host-3")):
        await placed(desk, number, host, group="pairs")
    joint = JointDecisions(desk.decision_service, desk.replica)
    found = dict(await joint.decide([moving(one) for one in going]))
    assert sorted(hosts_of(going, found), key=str) == ["host-2", "host-3"]


@pytest.mark.parametrize("limit", ["_SLICE", "_SLICE_US"])
async def test_other_work_goes_on_between_decisions_and_sees_no_trials(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A task that runs meanwhile finds the table as it is without the plan."""
    monkeypatch.setattr(joint_decisions, limit, 1 if limit == "_SLICE" else 0)
    desk = await open_desk(Fleet(hosts=3))
    going = [await placed(desk, number, "host-1") for number in range(1, 6)]
    before = [desk.used(number) for number in (1, 2, 3)]
    seen: list[list[dict[str, int]]] = []

    async def watch() -> None:
        while True:
            seen.append([desk.used(number) for number in (1, 2, 3)])
            await asyncio.sleep(0)

    async with running(watch):
        joint = JointDecisions(desk.decision_service, desk.replica)
        await joint.decide([moving(one) for one in going])
    assert len(seen) >= len(going)
    assert all(one == before for one in seen)
