"""Tests for the gauges of capacity."""

import asyncio
from collections.abc import Sequence

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Request
from berth.domain.inventory.resources import MEMORY_MB, VCPU, Inventory
from berth.ports.measures import (
    FLAVOR_SLOTS,
    RESOURCE_ALLOCATABLE,
    RESOURCE_CAPACITY,
    RESOURCE_HELD,
    RESOURCE_INVENTORY,
    RESOURCE_LARGEST,
    RESOURCE_RESERVED,
    RESOURCE_STRANDED,
    RESOURCE_USED,
)
from berth.ports.telemetry import Measure
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.capacity import Capacity
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.replica import Replica
from berth.services.telemetry.capacity_gauges import CapacityGauges, CapacityRules
from berth.testing.fleets import (
    GPU_MILLI,
    NOW_S,
    Box,
    gpus,
    policy_of,
    sized,
    snapshot_of,
    uuid_of,
    zone,
)
from berth.testing.virtual_time import VirtualClock, run_virtually

SMALL = Flavor("1", "small", vcpus=1, memory_mb=1024, root_gb=10)
LARGE = Flavor("2", "large", vcpus=4, memory_mb=2048)
Found = dict[tuple[str, ...], float]


class Clock(VirtualClock):
    """A clock whose time of day is that of the fleet's heartbeats."""

    def now_s(self) -> float:
        """Return the time of the heartbeats."""
        return NOW_S


class Policies:
    """Provides one policy that never changes."""

    policy: Policy = policy_of()


class Counter:
    """A decision service that remembers the flavors that it was asked about."""

    def __init__(self, replica: Replica) -> None:
        self.asked: list[str] = []
        self._decisions = DecisionService(replica, Policies(), Clock())

    async def capacity(self, request: Request, *, trials_max: int) -> Capacity:
        """See `DecisionService.capacity`."""
        self.asked.append(request.flavor.name)
        return await self._decisions.capacity(request, trials_max=trials_max)


def opened(
    boxes: Sequence[Box],
    *,
    flavors: Sequence[Flavor] = (SMALL, LARGE),
    aggregates: Sequence[Aggregate] = (),
    watched: tuple[str, ...] = (),
) -> tuple[Replica, Counter, CapacityGauges]:
    """Return the gauges of a fleet, its replica, and the counter of slots."""
    replica = Replica()
    replica.load(snapshot_of(boxes, aggregates=aggregates))
    replica.flavors = {flavor.flavor_id: flavor for flavor in flavors}
    counter = Counter(replica)
    rules = CapacityRules(lambda: 60.0, lambda: "nova", watched)
    return replica, counter, CapacityGauges(replica, counter, Clock(), rules)


def read(gauges: CapacityGauges) -> dict[Measure, Found]:
    """Return the readings by measure and labels."""
    found: dict[Measure, Found] = {}

    async def main() -> None:
        for measure, value, labels in await gauges.read():
            found.setdefault(measure, {})[labels] = value

    run_virtually(main)
    return found


def test_amounts_are_summed_by_class_and_availability_zone() -> None:
    """Hosts that are disabled, down or silent count, but their free amounts are not allocatable."""
    four = Inventory(4, reserved=1, allocation_ratio=2.0)
    boxes = [
        Box("a", inventories={VCPU: four}, used={VCPU: 2}),
        Box("b", inventories={VCPU: four}, used={VCPU: 6}),
        Box("off", inventories={VCPU: four}, used={VCPU: 1}, disabled=True),
        Box("lost", inventories={VCPU: four}, silent_s=61),
        Box("forced", inventories={VCPU: four}, forced_down=True),
        Box("c", inventories={VCPU: Inventory(10)}, used={VCPU: 12}),
    ]
    _, _, gauges = opened(boxes, aggregates=[zone("west", "c")])
    found = read(gauges)
    here, west = (VCPU, "nova"), (VCPU, "west")
    assert found[RESOURCE_INVENTORY] == {here: 20, west: 10}
    assert found[RESOURCE_RESERVED] == {here: 5, west: 0}
    assert found[RESOURCE_CAPACITY] == {here: 30, west: 10}
    assert found[RESOURCE_USED] == {here: 9, west: 12}
    assert found[RESOURCE_ALLOCATABLE] == {here: 4, west: 0}
    # One server may have at most as many CPUs as the host.
    assert found[RESOURCE_LARGEST] == {here: 4, west: 0}


def test_holds_are_told_apart_from_usage() -> None:
    """An amount on hold is held and not used, and is no longer allocatable."""
    replica, _, gauges = opened([Box("a", inventories=sized(8), used={VCPU: 2})])
    row = replica.hosts.row_of(uuid_of("a"))
    assert row is not None
    replica.hosts.hold(row, {VCPU: 3})
    found = read(gauges)
    assert found[RESOURCE_USED][VCPU, "nova"] == 2
    assert found[RESOURCE_HELD][VCPU, "nova"] == 3
    assert found[RESOURCE_ALLOCATABLE][VCPU, "nova"] == 3
    assert found[RESOURCE_HELD][MEMORY_MB, "nova"] == 0


def test_child_providers_count_with_their_host() -> None:
    """The amounts of child providers belong to the zone of their host; slots are per provider."""
    boxes = [Box("a", children=gpus(300, 1000)), Box("b", children=gpus(200)), Box("c")]
    _, _, gauges = opened(boxes, aggregates=[zone("west", "b")])
    found = read(gauges)
    here, west = (GPU_MILLI, "nova"), (GPU_MILLI, "west")
    assert found[RESOURCE_INVENTORY] | {here: 2000, west: 1000} == found[RESOURCE_INVENTORY]
    assert (found[RESOURCE_USED][here], found[RESOURCE_USED][west]) == (700, 800)
    assert (found[RESOURCE_ALLOCATABLE][here], found[RESOURCE_LARGEST][here]) == (1300, 1000)


def test_the_holds_of_child_providers_are_held() -> None:
    """A hold on a child provider counts as held in its class."""
    replica, _, gauges = opened([Box("a", children=gpus(1000, 1000))])
    row = replica.hosts.row_of(uuid_of("a"))
    assert row is not None
    replica.hosts.trees.hold(replica.hosts.trees.uuids_on(row)[1], {GPU_MILLI: 7})
    found = read(gauges)
    assert found[RESOURCE_HELD][GPU_MILLI, "nova"] == 7
    assert found[RESOURCE_USED][GPU_MILLI, "nova"] == 0


def test_slots_are_what_the_scheduler_would_place() -> None:
    """Slots of each flavor are counted by zone, on hosts that pass the filters of the policy."""
    boxes = [
        Box("a", inventories=sized(8, 4096)),
        Box("b", inventories=sized(8, 8192)),
        Box("off", inventories=sized(8, 8192), disabled=True),
    ]
    _, _, gauges = opened(boxes, aggregates=[zone("west", "b")])
    assert read(gauges)[FLAVOR_SLOTS] == {
        ("small", "nova"): 4,
        ("small", "west"): 8,
        ("large", "nova"): 2,
        ("large", "west"): 2,
    }


def test_the_stranded_amount_is_what_no_flavor_can_use() -> None:
    """Host `a` lacks memory for any flavor; `b` has CPUs for eight, but memory for two."""
    boxes = [
        Box("a", inventories=sized(8, 1000, 100)),
        Box("b", inventories=sized(8, 2500, 100)),
    ]
    _, _, gauges = opened(boxes)
    found = read(gauges)
    # The large flavor uses 4 CPUs of `b` once, or the small one 1,024 MiB and 10 GiB twice.
    assert found[RESOURCE_STRANDED] == {
        (VCPU, "nova"): 8 + 4,
        (MEMORY_MB, "nova"): 1000 + 2500 - 2048,
        ("DISK_GB", "nova"): 100 + 80,
    }


def test_public_flavors_are_watched_unless_the_settings_name_some() -> None:
    """Without names the first 20 public flavors by id are watched, else those that are named."""
    flavors = [Flavor(f"{n:02}", f"f{n}", 1, 1, is_public=n != 3) for n in range(30)]
    _, _, gauges = opened([Box("a")], flavors=flavors)
    assert {labels[0] for labels in read(gauges)[FLAVOR_SLOTS]} == {
        f"f{n}" for n in range(21) if n != 3
    }
    _, _, gauges = opened([Box("a")], flavors=flavors, watched=("f3", "f29", "absent"))
    assert {labels[0] for labels in read(gauges)[FLAVOR_SLOTS]} == {"f3", "f29"}


def test_a_flavor_that_no_server_can_have_is_left_out() -> None:
    """A flavor with a malformed extra spec has no slots, and does not disturb the others."""
    broken = Flavor("0", "broken", 1, 1, extra_specs={"resources:VCPU": "many"})
    _, _, gauges = opened([Box("a")], flavors=[broken, SMALL])
    assert {labels[0] for labels in read(gauges)[FLAVOR_SLOTS]} == {"small"}


def test_without_flavors_nothing_is_stranded() -> None:
    """Without a watched flavor there are neither slots nor stranded amounts."""
    _, _, gauges = opened([Box("a")], flavors=[])
    found = read(gauges)
    assert FLAVOR_SLOTS not in found
    assert RESOURCE_STRANDED not in found
    assert RESOURCE_INVENTORY in found


def test_slots_are_counted_again_after_five_seconds() -> None:
    """Scrapes within five seconds share one count; amounts are read anew by each."""

    async def main() -> None:
        replica, counter, gauges = opened([Box("a", inventories=sized())], flavors=[SMALL])
        await asyncio.gather(gauges.read(), gauges.read())
        assert counter.asked == ["small"]
        row = replica.hosts.row_of(uuid_of("a"))
        assert row is not None
        replica.hosts.hold(row, {VCPU: 3})
        found = {(one.measure, *one.labels): one.value for one in await gauges.read()}
        assert found[RESOURCE_HELD, VCPU, "nova"] == 3
        assert found[FLAVOR_SLOTS, "small", "nova"] == 8
        await Clock().sleep(5)
        found = {(one.measure, *one.labels): one.value for one in await gauges.read()}
        assert found[FLAVOR_SLOTS, "small", "nova"] == 5
        assert counter.asked == ["small", "small"]

    run_virtually(main)


def test_the_number_of_series_is_limited() -> None:
    """Zones beyond 50 count together, and at most 40 classes are shown, standard ones first."""
    odd = {f"CUSTOM_{n:02}": Inventory(1) for n in range(60)}
    boxes = [Box(f"h{n:02}", inventories={VCPU: Inventory(2)}) for n in range(60)]
    boxes.append(Box("odd", inventories={VCPU: Inventory(2), **odd}))
    zones = [zone(f"z{n:02}", f"h{n:02}", number=n + 1) for n in range(60)]
    _, _, gauges = opened(boxes, aggregates=zones)
    total = read(gauges)[RESOURCE_INVENTORY]
    assert len({name for _, name in total}) == 52
    assert total[VCPU, "other"] == 20
    assert total[VCPU, "nova"] == 2
    classes = {name for name, _ in total}
    assert len(classes) == 40
    assert VCPU in classes


def test_an_empty_fleet_has_no_series() -> None:
    """Without hosts there are no amounts, and every watched flavor has no slots."""
    _, _, gauges = opened([], flavors=[SMALL])
    found = read(gauges)
    assert found == {FLAVOR_SLOTS: {("small", "nova"): 0}}
