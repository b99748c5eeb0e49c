"""Ratios: who says how far a host's capacity is stretched."""

import pytest

from berth.domain.aggregate import Aggregate
from berth.domain.ratios import Ratio, key_of, resolve
from berth.domain.resources import DISK_GB, MEMORY_MB, VCPU


def aggregate(name: str, **metadata: str) -> Aggregate:
    """Return an aggregate with metadata."""
    return Aggregate(1, name, name, metadata=metadata)


@pytest.mark.parametrize(
    ("metadata", "own", "initial", "expected"),
    [
        (["8", "4.0"], 16.0, 2.0, Ratio(4.0, "minimum of aggregates agg-0, agg-1")),
        (["8", ""], 16.0, 2.0, Ratio(8.0, "aggregate agg-0")),
        (["0", "x", "-1", "inf", "nan", "1e9"], 16.0, 2.0, Ratio(16.0, "the host's own")),
        ([], 0.0, 2.0, Ratio(2.0, "initial, at registration")),
        ([], 0.0, 0.0, Ratio(4.0, "default of the class")),
    ],
)
def test_the_first_that_says_something_counts(
    metadata: list[str], own: float, initial: float, expected: Ratio
) -> None:
    """Aggregates, the lowest of them; the host; its registration; the class."""
    aggregates = [
        aggregate(f"agg-{number}", cpu_allocation_ratio=text)
        for number, text in enumerate(metadata)
    ]
    ratios = {VCPU: own}, {VCPU: initial}
    found = resolve(
        VCPU, aggregates=aggregates, own=ratios[0], initial=ratios[1], defaults={VCPU: 4.0}
    )
    assert found == expected


def test_a_class_that_nobody_mentions_is_not_overcommitted() -> None:
    """Not even by a default of another class."""
    found = resolve("CUSTOM_GPU", own={}, initial={}, defaults={VCPU: 4.0})
    assert found == Ratio(1.0, "default of the class")


def test_some_classes_are_never_overcommitted() -> None:
    """Whatever anybody says."""
    found = resolve(
        "PCPU",
        aggregates=[aggregate("a", pcpu_allocation_ratio="4")],
        own={"PCPU": 2.0},
        initial={},
        defaults={},
    )
    assert found == Ratio(1.0, "never overcommitted")


def test_keys_are_novas_where_it_has_some() -> None:
    """And the name of the class for all others."""
    assert [key_of(name) for name in (VCPU, MEMORY_MB, DISK_GB, "CUSTOM_GPU")] == [
        "cpu_allocation_ratio",
        "ram_allocation_ratio",
        "disk_allocation_ratio",
        "custom_gpu_allocation_ratio",
    ]
