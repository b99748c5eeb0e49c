"""Tests for CoreFilter, RamFilter, DiskFilter and their variants for aggregates."""

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import Inventory
from berth.scheduling.filters import within_ratios
from berth.scheduling.rules.rule import Filter
from berth.testing.fleets import Box, asking, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

CORE, RAM, DISK = (
    within_ratios.build_core(),
    within_ratios.build_ram(),
    within_ratios.build_disk(),
)
AGGREGATE_CORE, AGGREGATE_RAM, AGGREGATE_DISK = (
    within_ratios.build_aggregate_core(),
    within_ratios.build_aggregate_ram(),
    within_ratios.build_aggregate_disk(),
)


def flavor(vcpus: int = 0, memory_mb: int = 0, root_gb: int = 0, swap_mb: int = 0) -> Flavor:
    """Return a flavor of this size."""
    return Flavor("1", "f", vcpus, memory_mb, root_gb, swap_mb=swap_mb)


@pytest.mark.parametrize(
    ("inventory", "used", "most"),
    [
        (Inventory(8), 0, 8),
        (Inventory(8), 3, 5),
        (Inventory(8, allocation_ratio=4.0), 0, 8),
        (Inventory(8, allocation_ratio=4.0), 30, 2),
        (Inventory(8, allocation_ratio=0.7), 0, 5),
        (Inventory(8, reserved=2), 0, 6),
        (Inventory(8, reserved=2, allocation_ratio=1.5), 4, 6),
        (Inventory(8), 8, 0),
    ],
)
def test_a_ratio_limits_all_and_the_total_each(
    ask: Ask, inventory: Inventory, used: int, most: int
) -> None:
    """The ratio limits the sum of all instances, the total limits each; reserved counts as used."""
    box = Box("a", inventories={"VCPU": inventory}, used={"VCPU": used})
    for amount in range(10):
        kept = ask(snapshot_of([box]), asking(flavor(amount))).kept(CORE)
        assert kept == (["a"] if amount <= most else [])


SIZES = snapshot_of(
    [
        Box("small", inventories=sized(2, 2048, 20)),
        Box("big", inventories=sized(8, 8192, 100)),
        Box("over", inventories=sized(8, 8192, 100), used={"VCPU": 9, "DISK_GB": 150}),
        Box("bare", inventories={}),
    ]
)


@pytest.mark.parametrize(
    ("rule", "wanted", "kept"),
    [
        (CORE, flavor(3), ["big", "bare"]),
        (CORE, flavor(0), ["small", "big", "bare"]),
        (RAM, flavor(0, 2049), ["big", "over"]),
        (RAM, flavor(0, 2048), ["small", "big", "over"]),
        (RAM, flavor(), ["small", "big", "over", "bare"]),
        (DISK, flavor(0, 0, 20), ["small", "big"]),
        (DISK, flavor(0, 0, 20, 1), ["big"]),
        (DISK, flavor(), ["small", "big", "bare"]),
    ],
)
def test_hosts_under_the_limit_stay(
    ask: Ask, rule: Filter, wanted: Flavor, kept: list[str]
) -> None:
    """Hosts below their limit stay; hosts without a known number of CPUs pass CoreFilter."""
    assert ask(SIZES, asking(wanted)).kept(rule) == kept


def test_what_resource_specs_say_plays_no_part(ask: Ask) -> None:
    """The sizes of the flavor count, and `resources:` specs are ignored, as in Nova."""
    specs = {"resources:VCPU": "1", "resources:MEMORY_MB": "1", "resources:DISK_GB": "0"}
    wanted = Flavor("1", "f", 3, 2049, 21, extra_specs=specs)
    asked = ask(SIZES, asking(wanted))
    assert [asked.kept(rule) for rule in (CORE, RAM, DISK)] == [
        ["big", "bare"],
        ["big", "over"],
        ["big"],
    ]


def test_a_class_that_no_host_has(ask: Ask) -> None:
    """If no host has the class, memory and disk fail unless 0 is requested; CPUs pass."""
    snapshot = snapshot_of([Box("a", inventories={})])
    wanted = ask(snapshot, asking(flavor(1, 1, 1)))
    assert [wanted.kept(rule) for rule in (CORE, RAM, DISK)] == [["a"], [], []]
    nothing = ask(snapshot, asking(flavor()))
    assert [nothing.kept(rule) for rule in (CORE, RAM, DISK)] == [["a"], ["a"], ["a"]]


RATIOS = {"cpu_allocation_ratio": "0.5", "ram_allocation_ratio": "2", "disk_allocation_ratio": "1"}


@pytest.mark.parametrize(
    ("texts", "most"),
    [
        ([], 32),
        (["16"], 128),
        (["16", "2.0"], 16),
        (["1e1"], 80),
        (["many"], 32),
        (["many", "2"], 16),
        (["0", "2"], 16),
        (["0", "-1", "nan", "inf", ""], 32),
    ],
)
def test_the_least_ratio_of_the_aggregates_holds(ask: Ask, texts: list[str], most: int) -> None:
    """The least valid ratio of a host's aggregates applies, or else the host's own."""
    aggregates = [
        Aggregate(n, f"u{n}", f"n{n}", frozenset({"a"}), {"cpu_allocation_ratio": text})
        for n, text in enumerate(texts)
    ]
    box = Box(
        "a", inventories={"VCPU": Inventory(8, allocation_ratio=4.0)}, used={"VCPU": most - 1}
    )
    snapshot = snapshot_of([box], aggregates=aggregates)
    assert ask(snapshot, asking(flavor(1))).kept(AGGREGATE_CORE) == ["a"]
    assert ask(snapshot, asking(flavor(2))).kept(AGGREGATE_CORE) == []


def test_of_a_ratio_near_the_end_of_all_numbers_everything_is_free(ask: Ask) -> None:
    """A ratio near the largest float does not overflow."""
    aggregate = Aggregate(1, "u", "n", frozenset({"a"}), {"cpu_allocation_ratio": "1e308"})
    box = Box("a", inventories={"VCPU": Inventory(800)}, used={"VCPU": 500})
    asked = ask(snapshot_of([box], aggregates=[aggregate]), asking(flavor(8)))
    assert asked.kept(AGGREGATE_CORE) == ["a"]
    assert ask(snapshot_of([box]), asking(flavor(801))).kept(AGGREGATE_CORE) == []


def test_each_quantity_has_its_own_key(ask: Ask) -> None:
    """Each quantity has its own metadata key, which only the aggregate filters read."""
    box = Box("a", used={"VCPU": 2, "MEMORY_MB": 9000, "DISK_GB": 60})
    fast = Aggregate(1, "u", "fast", frozenset({"a"}), RATIOS)
    asked = ask(snapshot_of([box], aggregates=[fast]), asking(flavor(3, 7384, 41)))
    assert [asked.kept(one) for one in (AGGREGATE_CORE, AGGREGATE_RAM, AGGREGATE_DISK)] == [
        [],
        ["a"],
        [],
    ]
    assert [asked.kept(one) for one in (CORE, RAM, DISK)] == [["a"], [], []]
    assert asked.why(AGGREGATE_CORE, 0) == (
        "VCPU: 3 requested, 2 free of 8 x 0.50 (cpu_allocation_ratio of aggregate fast)"
    )
    assert asked.why(AGGREGATE_DISK, 0) == (
        "DISK_GB: 41 requested, 40 free of 100 x 1 (disk_allocation_ratio of aggregate fast)"
    )
    assert asked.why(RAM, 0) == (
        "MEMORY_MB: 7,384 requested, 0 free (over by 808) of 8,192 x 1"
        " (ram_allocation_ratio of the host)"
    )


@pytest.mark.parametrize(
    ("rule", "wanted", "row", "why"),
    [
        (CORE, flavor(9), 1, "VCPU: 9 requested, at most 8 per instance"),
        (RAM, flavor(0, 1), 3, "MEMORY_MB: 1 requested, at most 0 per instance"),
        (DISK, flavor(0, 0, 20, 512), 0, "DISK_GB: 20.50 requested, at most 20 per instance"),
        (
            AGGREGATE_CORE,
            flavor(),
            2,
            "VCPU: 0 requested, 0 free (over by 1) of 8 x 1 (cpu_allocation_ratio of the host)",
        ),
    ],
)
def test_the_reason_names_the_numbers(
    ask: Ask, rule: Filter, wanted: Flavor, row: int, why: str
) -> None:
    """The reason names the requested and available amounts and the source of the ratio."""
    assert ask(SIZES, asking(wanted)).why(rule, row) == why


@pytest.mark.parametrize(
    ("rule", "wanted", "rows", "relaxed"),
    [
        (CORE, flavor(9), [0, 1], [("1 VCPU less: 1 host", ("big",))]),
        (CORE, flavor(9), [0, 2], [("7 VCPU less: 1 host", ("small",))]),
        (CORE, flavor(9), [2], []),
        (RAM, flavor(0, 9000), [0, 1, 2], [("808 MB less memory: 2 hosts", ("big", "over"))]),
        (RAM, flavor(0, 1), [3], []),
        (DISK, flavor(0, 0, 20, 1), [0, 2], [("1 GB less disk: 1 host", ("small",))]),
        (DISK, flavor(), [2], []),
    ],
)
def test_asking_for_less_may_help(
    ask: Ask,
    rule: Filter,
    wanted: Flavor,
    rows: list[int],
    relaxed: list[tuple[str, tuple[str, ...]]],
) -> None:
    """The relaxation names a reduction in whole units, if one is enough."""
    assert ask(SIZES, asking(wanted)).relaxed(rule, rows) == relaxed


def test_consumption_changes_the_verdict() -> None:
    """The filters run for each instance and not for forced hosts."""
    for rule in (CORE, RAM, DISK, AGGREGATE_CORE, AGGREGATE_RAM, AGGREGATE_DISK):
        assert not rule.once_per_request
        assert not rule.on_forced
        assert ("aggregates" in rule.reads.columns) == rule.name.startswith("Aggregate")
