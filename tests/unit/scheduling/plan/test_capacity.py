"""Tests for the number of further instances that would fit."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.change import Event
from berth.scheduling.filters import below_host_limits, fits_numa, has_devices
from berth.scheduling.plan import capacity
from berth.scheduling.plan.capacity import Capacity, capacity_for, capacity_in_slices
from berth.scheduling.rules.rule import UNCOUNTED, UNLIMITED, Bound, Filter, Query, Reads, bound_by
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.dumping import dump
from berth.testing.fleets import (
    GPU_MILLI,
    NOW_S,
    Box,
    all_filters,
    asking,
    gpus,
    policy_of,
    resident,
    sized,
    snapshot_of,
)

SNAPSHOT = snapshot_of(
    [
        Box("a", inventories=sized(8, 8192, 100)),
        Box("b", inventories=sized(8, 2048, 100), used={"VCPU": 7}),
        Box("down", disabled=True),
        Box("full", used={"MEMORY_MB": 9000}),
    ]
)


@pytest.mark.parametrize(
    ("flavor", "counts"),
    [
        (Flavor("1", "f", 1, 1024, 10), [8, 1]),
        (Flavor("1", "f", 1, 2000), [4, 1]),
        (Flavor("1", "f", 2, 1), [4]),
        (Flavor("1", "f", 99, 1), []),
        (Flavor("1", "f", 0, 0), [10_000, 10_000, 10_000]),
    ],
)
def test_the_scarcest_class_decides(flavor: Flavor, counts: list[int]) -> None:
    """The scarcest class limits each host; a flavor without needs is limited by nothing."""
    found = capacity_for(table_of(SNAPSHOT), asking(flavor), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == counts
    assert found.total == sum(counts)


def test_without_the_filter_for_resources_a_full_host_takes_none() -> None:
    """Without ResourcesFilter a full host counts 0, and a class that no host has gives 0."""
    request = asking(Flavor("1", "f", 1, 1024))
    found = capacity_for(table_of(SNAPSHOT), request, policy_of(filters=[]), now_s=NOW_S)
    assert found.counts.tolist() == [8, 1, 8, 0]
    specs = {"resources:CUSTOM_NOWHERE": "1"}
    odd = replace(request, flavor=replace(request.flavor, extra_specs=specs))
    found = capacity_for(table_of(SNAPSHOT), odd, policy_of(filters=[]), now_s=NOW_S)
    assert found.total == 0


def test_shares_of_devices_are_counted_on_each_host() -> None:
    """Shares of devices are counted on each host."""
    boxes = [Box("a", children=gpus(1000, 700)), Box("b", children=gpus(300)), Box("none")]
    flavor = Flavor("1", "f", 1, 512, extra_specs={f"resources1:{GPU_MILLI}": "300"})
    found = capacity_for(table_of(snapshot_of(boxes)), asking(flavor), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == [5, 1]
    plain = Flavor("1", "f", 1, 512)
    found = capacity_for(table_of(snapshot_of(boxes)), asking(plain), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == [8, 8, 8]
    nothing = Flavor("1", "f", 0, 0)
    found = capacity_for(table_of(snapshot_of(boxes)), asking(nothing), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == [10_000, 10_000, 10_000]


ALIASES = ({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"},)
GPU_POOL = PciPool("10de", "1eb8", DeviceType.STANDARD, count=1)
CELLS = tuple(
    NumaCell(
        number,
        frozenset({number}),
        frozenset(range(8 * number + 4, 8 * number + 8)),
        memory_mb=4096,
    )
    for number in range(3)
)
PINE = Box(
    "pine",
    inventories={**sized(8, 16_384, 200), "PCPU": Inventory(12)},
    numa_cells=CELLS,
    pci_pools=(GPU_POOL,),
)


def fits_on(boxes: Sequence[Box], flavor: Flavor, *more: Filter, **changes: object) -> list[int]:
    """Return the capacity of each host under the default filters and others."""
    policy = policy_of(filters=[*all_filters(), *more])
    snapshot = snapshot_of(boxes, groups=GROUPS, instances=MEMBERS)
    request = replace(asking(flavor), **changes)  # type: ignore[arg-type]
    found = capacity_for(table_of(snapshot), request, policy, now_s=NOW_S)
    counts: list[int] = found.counts.tolist()
    return counts


GROUPS = [
    ServerGroup("g-apart", "apart", GroupPolicy.ANTI_AFFINITY, max_server_per_host=3),
    ServerGroup("g-together", "together", GroupPolicy.AFFINITY),
]
MEMBERS = [replace(resident("old", Box("a")), group_uuid="g-apart")]
SMALL = Flavor("1", "f", 1, 512, 1)


def test_devices_and_numa_cells_limit_the_number() -> None:
    """A host takes as many instances as have devices, and dedicated CPUs on one NUMA cell."""
    hardware = [build(pci_aliases=ALIASES) for build in (fits_numa.build, has_devices.build)]
    gpu = replace(SMALL, extra_specs={"pci_passthrough:alias": "gpu:1"})
    assert fits_on([PINE, replace(PINE, name="fir")], gpu, *hardware) == [1, 1]
    pinned = replace(SMALL, vcpus=3, extra_specs={"hw:cpu_policy": "dedicated"})
    assert fits_on([PINE], pinned, *hardware) == [3]


def test_limits_on_instances_count_those_that_would_be_placed() -> None:
    """Counting filters and the anti-affinity of a group limit the number on each host."""
    hosts = [Box("a"), Box("b")]
    assert fits_on(
        hosts, SMALL, below_host_limits.build_num_instances(max_instances_per_host=5)
    ) == [
        4,
        5,
    ]
    assert fits_on(hosts, SMALL, below_host_limits.build_io_ops(max_io_ops_per_host=2)) == [2, 2]
    assert fits_on(hosts, SMALL, group_uuid="g-apart") == [2, 3]


def test_members_with_affinity_share_one_host() -> None:
    """The capacity for a group with affinity is that of its largest host."""
    snapshot = snapshot_of([Box("a"), Box("b", used={"VCPU": 5})], groups=GROUPS)
    request = replace(asking(SMALL), group_uuid="g-together")
    found = capacity_for(table_of(snapshot), request, policy_of(), now_s=NOW_S)
    assert (found.counts.tolist(), found.total) == ([8, 3], 8)


def test_forced_hosts_keep_the_policy_of_the_group() -> None:
    """On forced hosts, no more instances count than the group's policy permits."""
    hosts = [Box("b")]
    assert fits_on(hosts, SMALL, group_uuid="g-apart", force_hosts=("b",)) == [3]


def test_a_group_whose_policy_has_no_filter_has_no_capacity() -> None:
    """Requests of a group are refused without the filter of its policy, so nothing fits."""
    snapshot = snapshot_of([Box("a")], groups=GROUPS)
    request = replace(asking(SMALL), group_uuid="g-apart")
    found = capacity_for(table_of(snapshot), request, policy_of(filters=[]), now_s=NOW_S)
    assert found.total == 0


def test_a_rule_that_depends_on_other_hosts_is_counted_by_planning() -> None:
    """For a rule that is not row-local, capacity is the size of the largest plan."""

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask:
        del query
        return np.full(count_of(rows), int(hosts.num_instances.sum()) < 5)

    rule = Filter(
        "AtMostFive", keep, lambda *_: "", lambda *_: (), Reads((), ("instances",), False)
    )
    assert sum(fits_on([Box("a"), Box("b")], SMALL, rule)) == 4


def spare_filter(bound: Bound | None = None) -> Filter:
    """Return a filter that keeps one CPU of each host free, with or without a bound."""

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask:
        columns = hosts.resource("VCPU")
        assert columns is not None
        mask: Mask = columns.free[rows] > 1
        return mask

    return Filter(
        name="SpareFilter",
        keep=keep,
        why=lambda *_: "",
        relax=lambda *_: (),
        reads=Reads(request=(), columns=("used",)),
        bound=bound,
    )


SPARED = (Box("a", inventories=sized(4)), Box("b", inventories=sized(8)))


@pytest.mark.parametrize("trials_max", [0, 1, 5, 11, 12, 100])
def test_counting_stops_at_the_limit_of_trials(trials_max: int) -> None:
    """The counts are then lower bounds, and the answer says so."""
    hosts = table_of(snapshot_of(SPARED))
    policy = policy_of(filters=(*all_filters(), spare_filter()))
    asked = asking(Flavor("1", "f", 1, 1))
    whole = capacity_for(hosts, asked, policy, now_s=NOW_S)
    assert (whole.counts.tolist(), whole.is_partial) == ([3, 7], False)
    found = capacity_for(hosts, asked, policy, now_s=NOW_S, trials_max=trials_max)
    assert found.is_partial == (trials_max < 10)
    assert (found.counts >= 1).all()
    assert (found.counts <= whole.counts).all()
    assert (found.total == whole.total) == (trials_max >= 10)


@pytest.mark.parametrize(("bound", "trials"), [(None, 10), ([3.0, 9.0], 9), ([3.0, 7.0], 8)])
def test_a_bound_spares_trial_placements(bound: list[float] | None, trials: int) -> None:
    """No instance is placed on trial beyond what a rule's bound permits, and counts are equal."""
    rule = spare_filter(None if bound is None else lambda *_: np.array(bound))
    policy, asked = policy_of(filters=(*all_filters(), rule)), asking(Flavor("1", "f", 1, 1))
    hosts = table_of(snapshot_of(SPARED))
    few, found = (
        capacity_for(hosts, asked, policy, now_s=NOW_S, trials_max=trials_max)
        for trials_max in (trials - 1, trials)
    )
    assert (few.is_partial, found.is_partial) == (True, False)
    assert found.counts.tolist() == [3, 7]


def test_a_bound_by_counts_ignores_what_is_unlimited_or_unknown() -> None:
    """A bound is infinite where the exact number is unlimited or only trials show it."""
    hosts = table_of(snapshot_of([Box("a"), Box("b"), Box("c")]))
    request = asking(Flavor("1", "f", 1, 1))
    query = Query(request, request.needs, NOW_S, None, request.instance_uuids[0])
    bound = bound_by(lambda *_: np.array([4, UNLIMITED, UNCOUNTED]))(hosts, query)
    assert bound is not None
    assert bound.tolist() == [4.0, np.inf, np.inf]


# ---- slices -------------------------------------------------------------------------------------


def sliced(
    monkeypatch: pytest.MonkeyPatch,
    boxes: Sequence[Box],
    change: Callable[[HostTable, int], None],
    *others: Filter,
) -> tuple[Capacity, Capacity, int]:
    """Count in the smallest slices, with a change of the table after each of them.

    Return the capacity, that of the table afterwards, and the number of slices.
    """
    monkeypatch.setattr(capacity, "_SLICE_WORK", 1)
    hosts, policy = table_of(snapshot_of(boxes)), policy_of(filters=(*all_filters(), *others))
    asked = asking(Flavor("1", "f", 1, 1))
    slices, number = capacity_in_slices(hosts, asked, policy, now_s=NOW_S), 0
    while True:
        before = dump(hosts)
        try:
            next(slices)
        except StopIteration as end:
            return end.value, capacity_for(hosts, asked, policy, now_s=NOW_S), number
        assert dump(hosts) == before
        number += 1
        change(hosts, number)


def leave(_hosts: HostTable, _number: int) -> None:
    """Change nothing."""


def take_one(hosts: HostTable, number: int) -> None:
    """Take a CPU of one of the hosts."""
    if number <= 3:
        hosts.hold(number % len(hosts), {"VCPU": 1})


def take_all(hosts: HostTable, number: int) -> None:
    """Take a CPU of each host."""
    if number == 1:
        for row in range(len(hosts)):
            hosts.hold(row, {"VCPU": 1})


def grow(hosts: HostTable, number: int) -> None:
    """Add a host, and disable another."""
    if number == 2:
        late = snapshot_of([Box("late", inventories=sized(6))])
        records: list[Event] = [*late.services, *late.hosts, *late.providers]
        for record in records:
            apply_event(hosts, record)
        apply_event(hosts, snapshot_of([Box("b", disabled=True)]).services[0])


def never_rest(hosts: HostTable, number: int) -> None:
    """Take and give back a CPU of every host after each slice."""
    for row in range(len(hosts)):
        change = hosts.hold if number % 2 else hosts.release_hold
        change(row, {"VCPU": 1})


def take_last(hosts: HostTable, number: int) -> None:
    """Take all CPUs but one of the host that is counted last, before it is counted."""
    if number == 1:
        hosts.hold(0, {"VCPU": 3})


MANY = tuple(Box(name, inventories=sized(4 + n)) for n, name in enumerate("abcde"))


@pytest.mark.parametrize("change", [leave, take_one, take_all, take_last, grow, never_rest])
@pytest.mark.parametrize("is_local", [True, False])
def test_slices_give_the_capacity_of_one_view(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[HostTable, int], None], *, is_local: bool
) -> None:
    """Whatever changes between slices, the result is that of the table at the end."""
    rule = spare_filter()
    if not is_local:
        rule = replace(rule, reads=Reads((), ("used",), row_local=False))
    found, whole, slices = sliced(monkeypatch, MANY, change, rule)
    assert slices >= 3
    assert found.rows.tolist() == whole.rows.tolist()
    assert found.counts.tolist() == whole.counts.tolist()
    assert not found.is_partial
    assert slices < 200


def test_what_takes_no_trials_takes_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that rules compute are not sliced, and so nothing changes meanwhile."""
    found, whole, slices = sliced(monkeypatch, MANY, take_all)
    assert slices == 0
    assert found.counts.tolist() == whole.counts.tolist() == [4, 5, 6, 7, 8]
