"""Tests for the precedence of the sources of allocation ratios."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.compute.ratios import Ratio, ratio_key, resolve_ratio
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU


def aggregate(name: str, **metadata: str) -> Aggregate:
    """Return an aggregate with metadata."""
    return Aggregate(1, name, name, metadata=metadata)


def host(**ratios: dict[str, float]) -> Host:
    """Return a host with the given ratio fields."""
    return replace(Host("u", "n", "n"), **ratios)  # type: ignore[arg-type]


ALL = {
    "forced_ratios": {VCPU: 6.0},
    "operator_ratios": {VCPU: 5.0},
    "allocation_ratios": {VCPU: 16.0},
    "initial_ratios": {VCPU: 2.0},
}


@pytest.mark.parametrize(
    ("metadata", "unset", "expected"),
    [
        (["8", "4.0"], 0, Ratio(4.0, "minimum of aggregates agg-0, agg-1")),
        (["8", ""], 0, Ratio(8.0, "aggregate agg-0")),
        (["0", "x", "-1", "inf", "nan", "1e9"], 0, Ratio(6.0, "the agent's settings")),
        ([], 1, Ratio(5.0, "set by an operator")),
        ([], 2, Ratio(16.0, "the host's own")),
        ([], 3, Ratio(2.0, "initial, at registration")),
        ([], 4, Ratio(4.0, "default of the class")),
    ],
)
def test_the_first_that_says_something_counts(
    metadata: list[str], unset: int, expected: Ratio
) -> None:
    """The first source with a usable ratio wins; of several aggregates, the lowest ratio.

    The order is aggregates, agent settings, operator, host, registration, class default.
    `unset` is the number of ratio fields of the host that are set to 0.
    """
    aggregates = [
        aggregate(f"agg-{number}", cpu_allocation_ratio=text)
        for number, text in enumerate(metadata)
    ]
    gone = {name: {VCPU: 0.0} for name in list(ALL)[:unset]}
    found = resolve_ratio(VCPU, host(**ALL | gone), aggregates=aggregates, defaults={VCPU: 4.0})
    assert found == expected


def test_a_class_that_nobody_mentions_is_not_overcommitted() -> None:
    """A class without a ratio in any source has a ratio of 1."""
    found = resolve_ratio("CUSTOM_GPU", host(), defaults={VCPU: 4.0})
    assert found == Ratio(1.0, "default of the class")


def test_some_classes_are_never_overcommitted() -> None:
    """PCPU keeps a ratio of 1 although a host and an aggregate set one."""
    found = resolve_ratio(
        "PCPU",
        host(allocation_ratios={"PCPU": 2.0}),
        aggregates=[aggregate("a", pcpu_allocation_ratio="4")],
    )
    assert found == Ratio(1.0, "never overcommitted")


def test_keys_are_novas_where_it_has_some() -> None:
    """Aggregate metadata uses Nova's three keys, and the class name for other classes."""
    assert [ratio_key(name) for name in (VCPU, MEMORY_MB, DISK_GB, "CUSTOM_GPU")] == [
        "cpu_allocation_ratio",
        "ram_allocation_ratio",
        "disk_allocation_ratio",
        "custom_gpu_allocation_ratio",
    ]


@pytest.mark.parametrize("source", ["allocation_ratios", "operator_ratios", "forced_ratios"])
def test_an_impossible_ratio_is_named_with_its_source(source: str) -> None:
    """An invalid ratio is refused with its field, its resource class and the range."""
    with pytest.raises(InvalidInputError, match=rf"{source}\.VCPU.*-1\.0 must be between 0 and"):
        host(**{source: {VCPU: -1.0}})
