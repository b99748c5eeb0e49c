"""Every request for members of a group that fits is placed, under every policy and driver."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from berth.config.policy_file import load_policy
from berth.config.ready_policies import READY
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Destination, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.scheduling.drivers import chance, least_cost, simple
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.filters import below_host_limits, fits_numa, has_devices
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, resident, snapshot_of
from berth.testing.hardware_fleets import generators

GROUP = "group"
IO_OPS_MAX, INSTANCES_MAX = 3, 4
LIMITS = (
    below_host_limits.build_io_ops(max_io_ops_per_host=IO_OPS_MAX),
    below_host_limits.build_num_instances(max_instances_per_host=INSTANCES_MAX),
)
DRIVERS = (None, None, None, chance.build(), simple.build(max_cores=1_000), least_cost.build())
ALIASES = ({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"},)


POLICIES = [load_policy(Path(name)) for name in READY]


def random_policy(rng: Random, *, limited: bool) -> Policy:
    """Return a ready policy with a random driver, subset size and order of equal hosts."""
    policy = replace(
        rng.choice(POLICIES),
        host_subset_size=rng.choice((1, 1, 2, 5)),
        shuffle_best_same_weighed_hosts=rng.random() < 0.3,
    )
    driver = rng.choice(DRIVERS)
    if driver is not None:
        policy = replace(policy, driver=driver)
    return replace(policy, filters=(*policy.filters, *LIMITS)) if limited else policy


def random_box(rng: Random, name: str) -> Box:
    """Return a small host, now and then one that is down."""
    return Box(
        name,
        inventories={
            VCPU: Inventory(rng.randint(1, 8), allocation_ratio=rng.choice((1.0, 1.0, 2.0))),
            MEMORY_MB: Inventory(1024 * rng.randint(1, 8), reserved=rng.choice((0, 512))),
            DISK_GB: Inventory(rng.choice((10, 50, 100))),
        },
        used={VCPU: rng.choice((0, 0, 1, 3)), MEMORY_MB: 512 * rng.randint(0, 3)},
        disabled=rng.random() < 0.1,
    )


@dataclass(frozen=True, slots=True)
class World:
    """Hosts, the members of a group on each of them, and a request for more members."""

    boxes: Sequence[Box]
    members: dict[str, int]
    group: ServerGroup
    request: Request
    limited: bool

    @property
    def snapshot(self) -> Snapshot:
        """The fleet with its group and its members."""
        old = [
            resident(f"old-{box.name}-{number}", box, group_uuid=GROUP)
            for box in self.boxes
            for number in range(self.members[box.name])
        ]
        return snapshot_of(self.boxes, groups=[self.group], instances=old)

    def room(self, box: Box) -> int:
        """Return how many instances of the request fit on a host, whatever the group says."""
        forced = self.request.force_hosts
        if (forced and box.name not in forced) or (box.disabled and not forced):
            return 0
        room = len(self.request.instance_uuids)
        for name, amount in self.request.needs.amounts.items():
            inventory = box.inventories[name]
            if amount > inventory.total:
                return 0
            room = min(room, (inventory.capacity - box.used.get(name, 0)) // amount)
        # A forced request skips the filters with limits.
        if self.limited and not forced:
            room = min(room, IO_OPS_MAX, INSTANCES_MAX - self.members[box.name])
        return max(room, 0)

    def most(self) -> int:
        """Return how many members can be placed together, by trying every host."""
        rooms = {box.name: self.room(box) for box in self.boxes}
        here = [name for name, count in self.members.items() if count]
        if self.group.policy is GroupPolicy.AFFINITY:
            return max(rooms[name] for name in (here or rooms))
        if self.group.policy is GroupPolicy.ANTI_AFFINITY:
            most = self.group.max_server_per_host
            rooms = {
                name: min(room, max(most - self.members[name], 0)) for name, room in rooms.items()
            }
        return min(sum(rooms.values()), len(self.request.instance_uuids))


def random_world(rng: Random) -> World:
    """Return up to four hosts, a group with any policy, and a request for up to five members."""
    boxes = [random_box(rng, f"h{number}") for number in range(rng.randint(1, 4))]
    group = ServerGroup(
        GROUP,
        GROUP,
        rng.choice((GroupPolicy.AFFINITY, GroupPolicy.AFFINITY, *GroupPolicy)),
        max_server_per_host=rng.choice((1, 2)),
    )
    members = {box.name: 0 for box in boxes}
    if rng.random() < 0.3:
        members[rng.choice(boxes).name] = rng.choice((1, 2))
    flavor = Flavor(
        "1",
        "small",
        vcpus=rng.randint(1, 3),
        memory_mb=512 * rng.randint(1, 4),
        root_gb=rng.choice((0, 5, 20)),
    )
    forced = [box.name for box in boxes if rng.random() < 0.6] if rng.random() < 0.25 else []
    request = Request(
        "req-1",
        tuple(f"new-{number}" for number in range(rng.randint(1, 5))),
        flavor,
        group_uuid=GROUP,
        force_hosts=tuple(forced),
    )
    return World(boxes, members, group, request, limited=rng.random() < 0.5)


def plan_of(snapshot: Snapshot, request: Request, policy: Policy, seed: int = 0) -> Plan:
    """Return the plan of a request on a snapshot."""
    return plan_with_group_policy(table_of(snapshot), request, policy, now_s=NOW_S, seed=seed)


@given(generators())
def test_members_of_a_group_are_placed_exactly_if_they_fit(rng: Random) -> None:
    """A request is placed if trying every host finds room, and else says how much room there is."""
    world = random_world(rng)
    policy = random_policy(rng, limited=world.limited)
    plan = plan_of(world.snapshot, world.request, policy, seed=rng.randrange(1_000))
    asked, most = len(world.request.instance_uuids), world.most()
    event(f"{world.group.policy}: {'fits' if most == asked else 'does not fit'}")
    if most == asked:
        assert plan.refusal is None, plan.refusal.message
        assert len(plan.placements) == asked
    else:
        assert plan.refusal is not None
        if not world.request.force_hosts:
            assert plan.refusal.placed == most


CELLS = tuple(
    NumaCell(number, frozenset(range(4 * number, 4 * number + 4)), frozenset(), (), 4096)
    for number in range(2)
)


def hardware_box(rng: Random, name: str) -> Box:
    """Return a host with two NUMA cells and a few devices near them."""
    pools = [
        PciPool("10de", "1eb8", DeviceType.STANDARD, numa_node=cell, count=count)
        for cell in range(2)
        if (count := rng.randint(0, 3))
    ]
    return replace(random_box(rng, name), numa_cells=CELLS, pci_pools=tuple(pools), disabled=False)


@given(generators())
def test_affinity_asks_for_the_hardware_of_all_members(rng: Random) -> None:
    """A request that fits on one host with NUMA cells and devices is placed."""
    boxes = [hardware_box(rng, f"h{number}") for number in range(rng.randint(2, 4))]
    snapshot = snapshot_of(boxes, groups=[ServerGroup(GROUP, GROUP, GroupPolicy.AFFINITY)])
    specs = {"pci_passthrough:alias": "gpu:1"} if rng.random() < 0.7 else {}
    if rng.random() < 0.7:
        specs["hw:numa_nodes"] = "1"
    flavor = Flavor("1", "small", vcpus=rng.randint(1, 3), memory_mb=512, extra_specs=specs)
    uuids = tuple(f"new-{number}" for number in range(rng.randint(2, 4)))
    request = Request("req-1", uuids, flavor, group_uuid=GROUP)
    policy = random_policy(rng, limited=rng.random() < 0.3)
    kept = (rule for rule in policy.filters if rule.name not in (fits_numa.NAME, has_devices.NAME))
    packs = rng.random() < 0.5
    hardware = (
        fits_numa.build(pci_aliases=ALIASES, numa_packing=packs),
        has_devices.build(pci_aliases=ALIASES, numa_packing=packs),
    )
    policy = replace(policy, filters=(*kept, *hardware))
    alone = [
        plan_of(snapshot, replace(request, destination=Destination(box.name)), policy).refusal
        for box in boxes
    ]
    fits = None in alone
    event(f"fits: {fits}")
    refusal = plan_of(snapshot, request, policy).refusal
    assert (refusal is None) == fits
    if refusal is not None:
        assert refusal.placed == max(one.placed for one in alone if one is not None)


@given(generators(), st.sampled_from(POLICIES))
def test_the_first_host_is_the_best_of_those_that_take_all(rng: Random, policy: Policy) -> None:
    """Of the hosts that take all instances, the one that ranks best for a single one is chosen."""
    world = random_world(rng)
    group = replace(world.group, policy=GroupPolicy.AFFINITY)
    members = dict.fromkeys(world.members, 0)
    request = replace(world.request, force_hosts=())
    world = replace(world, group=group, members=members, request=request, limited=False)
    able = [box for box in world.boxes if world.room(box) == len(request.instance_uuids)]
    if not able:
        return
    alone = plan_of(world.snapshot, replace(request, instance_uuids=("new-0",)), policy)
    (first,) = alone.placements
    names = {box.name for box in able}
    best = next(one.host for one in (first.chosen, *first.runners_up) if one.host in names)
    plan = plan_of(world.snapshot, request, policy)
    assert {one.host for one in plan.placements} == {best}
