"""The law of capacity: it is the number of instances that the scheduler places until it refuses."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, event, given, reject
from hypothesis import strategies as st

from berth.config.plugins import FILTERS, plugin_names
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Destination, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import PCPU, Inventory
from berth.scheduling.drivers import chance, filter_scheduler, simple
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.plan import capacity
from berth.scheduling.plan.capacity import Capacity, Slices, capacity_for, capacity_in_slices
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.plan.planning import seed_of
from berth.scheduling.rules.rule import Query
from berth.tables.host.feed import apply_event, table_of
from berth.testing.fleets import NOW_S, ZONES, Box, resident, snapshot_of
from berth.testing.hardware_fleets import random_use
from tests.property.engine_parts import random_box, random_request
from tests.property.engine_world import KEYS, filters_of

TRIALS_MAX = 100
COUNT_MAX = 12
"""Larger capacities are only checked up to this number of instances, to save time."""

BASE = ("ResourcesFilter", "GranularGroupsFilter")
HARDWARE = ("NUMATopologyFilter", "PciPassthroughFilter")
GROUPS = ("ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter")
NUMBERS = ("1", "2", "3.5", "8", "0", "x", "1e300")


class World:
    """A random fleet, a random policy with any of the installed filters, and a random request."""

    def __init__(self, seed: int) -> None:
        draw = self.random = Random(seed)
        self.hardware = draw.random() < 0.6
        self.groups = [
            ServerGroup(f"g-{one}", one, one, max_server_per_host=draw.randint(1, 3))
            for one in GroupPolicy
        ]
        self.boxes = [self._box(f"h{number}") for number in range(draw.randint(1, 4))]
        self.snapshot = snapshot_of(
            self.boxes,
            aggregates=[self._aggregate(number) for number in range(draw.randint(0, 2))],
            groups=self.groups,
            instances=self._instances(),
        )
        self.hosts = table_of(self.snapshot)
        self.policy = self._policy()
        uuids = [one.uuid for one in self.groups]
        self.request = random_request(draw, 1, uuids, hardware=self.hardware)
        if draw.random() < 0.6:
            self.request = replace(self.request, availability_zone=None)
        if draw.random() < 0.1:
            self.request = replace(self.request, force_hosts=(draw.choice(self.boxes).name, "h0"))

    def _box(self, name: str) -> Box:
        box = random_box(self.random, name, "", hardware=self.hardware)
        inventories = {**box.inventories, PCPU: Inventory(64)}
        # Most hosts are up, since others tell nothing about capacity.
        if self.random.random() < 0.8:
            box = replace(box, disabled=False, forced_down=False, silent_s=0.0)
        return replace(box, inventories=inventories)

    def _aggregate(self, number: int) -> Aggregate:
        draw = self.random
        metadata = {key: draw.choice(NUMBERS) for key in KEYS if draw.random() < 0.3}
        if draw.random() < 0.3:
            metadata["availability_zone"] = draw.choice(ZONES)
        members = frozenset(box.name for box in self.boxes if draw.random() < 0.5)
        return Aggregate(number, f"a{number}", f"a{number}", members, metadata)

    def _instances(self) -> list[Instance]:
        found: list[Instance] = []
        for box in self.boxes:
            for assignment in random_use(self.random, box.numa_cells, box.pci_pools):
                one = resident(f"old-{len(found)}", box)
                group = self.random.choice((None, None, None, *(g.uuid for g in self.groups)))
                number = len(found)
                one = replace(one, project_id=f"p{number % 2 + 1}", user_id=f"u{number % 3}")
                one = replace(one, metadata={"tier": str(number % 2)} if number % 4 else {})
                found.append(replace(one, assignment=assignment, group_uuid=group))
        return found

    def _policy(self) -> Policy:
        draw = self.random
        others = sorted(set(plugin_names(FILTERS)) - {*BASE, *HARDWARE, *GROUPS})
        names = [*BASE, *draw.sample(others, draw.choice((0, 1, 2, 4)))]
        names += [one for one in (*HARDWARE, *GROUPS) if draw.random() < 0.8]
        drivers = (filter_scheduler.build(), filter_scheduler.build(incremental=False))
        return Policy(
            name="world",
            hash="0",
            driver=draw.choice((*drivers, *drivers, chance.build(), simple.build(max_cores=9))),
            filters=filters_of(names, draw),
            weighers=(),
            runners_up=0,
            alternates=0,
        )

    def plan(self, count: int, host: str | None = None) -> Plan:
        """Return the plan for a number of instances, on one host if it is given."""
        uuids = tuple(f"new-{number}" for number in range(count))
        request: Request = replace(self.request, instance_uuids=uuids)
        if host is not None:
            request = replace(request, destination=Destination(host))
        seed = seed_of(request.request_id)
        return plan_with_group_policy(self.hosts, request, self.policy, now_s=NOW_S, seed=seed)


@given(seed=st.integers(0, 2**63 - 1))
def test_capacity_is_what_the_scheduler_places_until_it_refuses(seed: int) -> None:
    """The scheduler places as many instances as capacity says, on each host and in total."""
    world = World(seed)
    version = world.hosts.version
    try:
        found = capacity_for(world.hosts, world.request, world.policy, now_s=NOW_S)
    except InvalidInputError:
        assume(False)
        raise
    assert world.hosts.version == version
    per_row = dict(zip(found.rows.tolist(), found.counts.tolist(), strict=True))
    for row in world.hosts.alive_rows().tolist():
        check_count(world, per_row.get(row, 0), world.hosts.name(row))
    check_count(world, found.total)
    check_bounds(world, per_row)
    event(f"counts: {kinds_of(found)}")


@given(seed=st.integers(0, 2**63 - 1), slice_work=st.sampled_from((1, 10, 40)))
def test_capacity_in_slices_is_that_of_the_table_at_the_end(seed: int, slice_work: int) -> None:
    """Hosts may change after each slice; the result is what one go at the end would give."""
    world = World(seed)
    # Few rules need trial placements, which are what takes slices.
    filters = [
        replace(rule, repeats=None)
        if rule.name not in BASE and world.random.random() < 0.7
        else rule
        for rule in world.policy.filters
    ]
    world.policy = replace(world.policy, filters=tuple(filters))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity, "_SLICE_WORK", slice_work)
        hosts = world.hosts
        slices = capacity_in_slices(
            hosts, world.request, world.policy, now_s=NOW_S, trials_max=TRIALS_MAX
        )
        found, number = run_slices(world, slices)
    whole = capacity_for(
        hosts, world.request, world.policy, now_s=NOW_S, trials_max=10 * TRIALS_MAX
    )
    # Large capacities take too long.
    assume(not found.is_partial and not whole.is_partial)
    assert found.rows.tolist() == whole.rows.tolist()
    assert found.counts.tolist() == whole.counts.tolist()
    assert found.total == whole.total
    event(f"slices: {min(number, 3)}")


def run_slices(world: World, slices: Slices[Capacity]) -> tuple[Capacity, int]:
    """Return the result of slices, and their number; the table changes after some of them."""
    number = 0
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value, number
        except InvalidInputError:
            reject()
        number += 1
        if world.random.random() < 0.5:
            change(world, number)


def change(world: World, number: int) -> None:
    """Change one host of a world: an instance comes or goes, or the service is disabled."""
    draw, hosts = world.random, world.hosts
    box = draw.choice(world.boxes)
    kind = draw.choice(("come", "come", "go", "service", "hold"))
    if kind == "come":
        one = replace(resident(f"new-{number}", box), group_uuid=world.request.group_uuid)
        apply_event(hosts, one)
    elif kind == "go" and hosts.occupants.by_uuid:
        hosts.remove_instance(draw.choice(sorted(hosts.occupants.by_uuid)))
    elif kind == "service":
        service = next(one for one in world.snapshot.services if one.host == box.name)
        apply_event(hosts, replace(service, disabled=draw.random() < 0.3))
    elif kind == "hold":
        hosts.hold(draw.randrange(len(hosts)), {"VCPU": 1, "MEMORY_MB": 128})


def check_bounds(world: World, per_row: Mapping[int, int]) -> None:
    """Check that no rule's bound is below the number of instances that fit."""
    request, hosts = world.request, world.hosts
    group = hosts.server_groups.get(request.group_uuid or "")
    query = Query(request, request.needs, NOW_S, group, request.instance_uuids[0])
    for rule in world.policy.effective(request.operation).filters:
        bound = None if rule.bound is None else rule.bound(hosts, query)
        if bound is not None and not request.force_hosts:
            for row, count in per_row.items():
                assert bound[row] >= count, (rule.name, row, count)


def check_count(world: World, count: int, host: str | None = None) -> None:
    """Check that a number of instances fits, and that one more does not."""
    if count:
        few = world.plan(min(count, COUNT_MAX), host)
        assert few.refusal is None, (count, host, few.refusal)
    if count < COUNT_MAX:
        more = world.plan(count + 1, host)
        assert more.refusal is not None, (count, host)


def kinds_of(found: Capacity) -> str:
    """Return a description of the counts, for statistics."""
    if not found.total:
        return "none"
    most = int(np.max(found.counts))
    return "one" if most == 1 else "some" if most < COUNT_MAX else "many"
