"""Tests for ResourcesFilter."""

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import Inventory
from berth.scheduling.filters import fits_resources
from berth.testing.fleets import Box, Child, asking, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = fits_resources.build()


def flavor(vcpus: int = 0, memory_mb: int = 0, disk_gb: int = 0, **more: str) -> Flavor:
    """Return a flavor with further resource classes by name."""
    specs = {f"resources:{name}": text for name, text in more.items()}
    return Flavor("1", "f", vcpus, memory_mb, disk_gb, extra_specs=specs)


SIZES = snapshot_of(
    [
        Box("small", inventories=sized(2, 2048, 20)),
        Box("big", inventories=sized(8, 8192, 100)),
        Box("full", inventories=sized(8, 8192, 100), used={"VCPU": 8}),
        Box("over", inventories=sized(8, 8192, 100), used={"DISK_GB": 150}),
        Box("bare", inventories={}),
    ]
)


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (flavor(), None),
        (flavor(1, 1024, 10), ["small", "big"]),
        (flavor(3, 1024, 10), ["big"]),
        (flavor(1, 1024), ["small", "big", "over"]),
        (flavor(0, 1024, 10), ["small", "big", "full"]),
        (flavor(9), []),
        (flavor(1, CUSTOM_GPU="1"), []),
    ],
)
def test_hosts_with_room_stay(ask: Ask, wanted: Flavor, kept: list[str] | None) -> None:
    """Hosts stay if they have room in every requested class."""
    assert ask(SIZES, asking(wanted)).kept(RULE) == kept


@pytest.mark.parametrize(
    ("inventory", "used", "most"),
    [
        (Inventory(8), 0, 8),
        (Inventory(8), 3, 5),
        (Inventory(8, allocation_ratio=4.0), 0, 8),
        (Inventory(8, allocation_ratio=4.0), 30, 2),
        (Inventory(8, allocation_ratio=0.5), 0, 4),
        (Inventory(8, reserved=2), 0, 6),
        (Inventory(8, max_unit=3), 0, 3),
        (Inventory(8), 9, 0),
    ],
)
def test_room_counts_ratio_reserve_and_the_largest_single_request(
    ask: Ask, inventory: Inventory, used: int, most: int
) -> None:
    """Room includes the ratio, the reserve and the limit for a single allocation."""
    snapshot = snapshot_of([Box("a", inventories={"VCPU": inventory}, used={"VCPU": used})])
    for amount in range(1, 10):
        kept = ask(snapshot, asking(flavor(amount))).kept(RULE)
        assert kept == (["a"] if amount <= most else [])


@pytest.mark.parametrize(
    ("vcpus", "why"),
    [
        (9, "VCPU: 9 requested, at most 8 per instance"),
        (8, "VCPU: 8 requested, 6 free"),
        (1, "VCPU: 1 requested, but it must be at least 2 and a multiple of 2"),
    ],
)
def test_the_reason_says_how_much_was_missing(ask: Ask, vcpus: int, why: str) -> None:
    """The reason names the requested amount and the limit or unit that it violates."""
    inventory = Inventory(8, min_unit=2, step_size=2)
    snapshot = snapshot_of([Box("a", inventories={"VCPU": inventory}, used={"VCPU": 2})])
    assert ask(snapshot, asking(flavor(vcpus))).why(RULE, 0) == why


def test_the_reason_names_every_class_that_is_short(ask: Ask) -> None:
    """The reason names every class that is short or missing."""
    asked = ask(SIZES, asking(flavor(1, 9000, CUSTOM_GPU="1")))
    assert asked.why(RULE, 1) == (
        "MEMORY_MB: 9,000 requested, at most 8,192 per instance; it has no CUSTOM_GPU"
    )


@pytest.mark.parametrize(
    ("wanted", "rows", "text", "examples"),
    [
        (flavor(1, 8192, 10), [0, 2], "6,144 MB less memory: 1 host", ("small",)),
        (flavor(1, 1, 101), [1, 0], "1 GB less disk: 1 host", ("big",)),
        (flavor(9), [1, 0], "1 VCPU less: 1 host", ("big",)),
        (flavor(0, 0, 1), [3], "without disk: 1 host", ("over",)),
        (flavor(1, CUSTOM_GPU="2"), [0, 1], "without CUSTOM_GPU: 2 hosts", ("big", "small")),
    ],
)
def test_less_of_one_class_may_help(
    ask: Ask, wanted: Flavor, rows: list[int], text: str, examples: tuple[str, ...]
) -> None:
    """The relaxation names the smallest reduction of one class and the hosts that it wins."""
    assert (text, examples) in ask(SIZES, asking(wanted)).relaxed(RULE, rows)


def test_less_is_counted_in_steps(ask: Ask) -> None:
    """A reduced amount respects the minimum unit and the step size."""
    inventory = Inventory(8, min_unit=4, step_size=4)
    snapshot = snapshot_of([Box("a", inventories={"VCPU": inventory})])
    assert ask(snapshot, asking(flavor(7))).relaxed(RULE, [0]) == [("3 VCPU less: 1 host", ("a",))]
    # Flavors have at least one VCPU, so the class cannot be dropped.
    assert ask(snapshot, asking(flavor(3))).relaxed(RULE, [0]) == []


def test_several_classes_at_once_are_told_for_the_nearest_host(ask: Ask) -> None:
    """If every host lacks several classes, the nearest host is named."""
    asked = ask(SIZES, asking(flavor(16, 16384, CUSTOM_GPU="1")))
    assert asked.relaxed(RULE, [0, 1]) == [
        ("8 VCPU less and 8,192 MB less memory and without CUSTOM_GPU: 1 host", ("big",))
    ]


def test_it_holds_for_forced_hosts() -> None:
    """The filter applies to forced hosts and runs for each instance."""
    assert RULE.on_forced
    assert not RULE.once_per_request


TREES = snapshot_of(
    [
        Box("root", inventories={"X": Inventory(4)}),
        Box("child", inventories={}, children=(Child("c", {"X": Inventory(4)}, {"X": 1}),)),
        Box(
            "both",
            inventories={"X": Inventory(2)},
            children=(Child("c", {"X": Inventory(4, step_size=2)}), Child("d", {})),
        ),
        Box("none"),
    ]
)


@pytest.mark.parametrize(
    ("amount", "kept"),
    [
        (1, ["root", "child", "both"]),
        (3, ["root", "child"]),
        (4, ["root", "both"]),
        (5, []),
    ],
)
def test_one_provider_of_the_tree_has_to_have_the_room(
    ask: Ask, amount: int, kept: list[str]
) -> None:
    """One provider of the tree must have the whole amount."""
    assert ask(TREES, asking(flavor(X=str(amount)))).kept(RULE) == kept


def test_the_best_provider_says_why_and_what_would_fit(ask: Ask) -> None:
    """The reason and the relaxation refer to the provider with the most room."""
    asked = ask(TREES, asking(flavor(X="5")))
    assert [asked.why(RULE, row) for row in range(4)] == [
        "X: 5 requested, at most 4 per instance",
        "X: 5 requested, 3 at most on one provider",
        "X: 5 requested, 4 at most on one provider",
        "it has no X",
    ]
    assert asked.relaxed(RULE, [0, 1, 2]) == [("1 X less: 2 hosts", ("both", "root"))]
