"""Tests for inventories, amounts and resource class names."""

import math
import re

import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import (
    AMOUNT_MAX,
    RATIO_BOUND,
    Inventory,
    add_amounts,
    check_name,
    check_reported,
)


@pytest.mark.parametrize(
    ("inventory", "capacity"),
    [
        (Inventory(10), 10),
        (Inventory(10, reserved=3), 7),
        (Inventory(10, reserved=2, allocation_ratio=1.5), 12),
        (Inventory(3, allocation_ratio=1.5), 4),
        (Inventory(3, allocation_ratio=0.5), 1),
        (Inventory(0), 0),
        (Inventory(10, allocation_ratio=0.0), 0),
        (Inventory(10, allocation_ratio=-1.5), -15),
        (Inventory(3, allocation_ratio=-0.1), 0),
        (Inventory(1, reserved=3), -2),
        (Inventory(1, reserved=3, allocation_ratio=-2.0), 4),
        (Inventory(10, allocation_ratio=RATIO_BOUND), AMOUNT_MAX),
        (Inventory(0, reserved=10, allocation_ratio=RATIO_BOUND), -AMOUNT_MAX),
        (Inventory(AMOUNT_MAX, allocation_ratio=-RATIO_BOUND), -AMOUNT_MAX),
    ],
)
def test_capacity_is_what_is_not_reserved_times_the_ratio(
    inventory: Inventory, capacity: int
) -> None:
    """The capacity is the unreserved total times the ratio, truncated and clipped."""
    assert inventory.capacity == capacity


def test_one_allocation_gets_no_more_than_the_total() -> None:
    """One allocation gets at most `max_unit`, which defaults to the total."""
    assert Inventory(8, allocation_ratio=16.0).unit_max == 8
    assert Inventory(8, max_unit=2).unit_max == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"total": -1},
        {"total": AMOUNT_MAX + 1},
        {"reserved": -1},
        {"min_unit": 0},
        {"step_size": 0},
        {"max_unit": -1},
        {"allocation_ratio": math.nan},
        {"allocation_ratio": math.inf},
        {"allocation_ratio": -math.inf},
        {"allocation_ratio": 3.5e38},
        {"allocation_ratio": -3.5e38},
    ],
)
def test_what_could_not_be_an_inventory_is_refused(changes: dict[str, int]) -> None:
    """Negative amounts, zero units, and ratios that are out of range or not finite are refused."""
    with pytest.raises(InvalidInputError) as caught:
        Inventory(**{"total": 10, **changes})
    assert next(iter(changes)) in caught.value.field


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reserved": 11}, "reserved: 11 must be at most the total 10"),
        ({"allocation_ratio": 0.0}, "allocation_ratio: 0.0 must be above 0 and at most 10000.0"),
        ({"allocation_ratio": -1.0}, "allocation_ratio: -1.0 must be above 0"),
        ({"allocation_ratio": 10_001.0}, "allocation_ratio: 10001.0 must be above 0"),
    ],
)
def test_agents_may_not_report_all_that_there_can_be(changes: dict[str, int], says: str) -> None:
    """`check_reported` refuses inventories of agents that the Placement API would accept."""
    check_reported(Inventory(10, reserved=10, allocation_ratio=10_000.0))
    with pytest.raises(InvalidInputError, match=re.escape(says)):
        check_reported(Inventory(**{"total": 10, **changes}))


def test_amounts_are_summed_class_by_class() -> None:
    """The sum has the classes of both sides, and the operands do not change."""
    left = {"A": 1, "B": 2}
    assert add_amounts(left, {"B": 3, "C": 4}) == {"A": 1, "B": 5, "C": 4}
    assert left == {"A": 1, "B": 2}


@pytest.mark.parametrize("name", ["", "a", "A-B", "Ä", "A\n", "A" * 256])
def test_a_bad_name_is_refused(name: str) -> None:
    """A name that Placement would refuse is refused."""
    with pytest.raises(InvalidInputError, match="field"):
        check_name(name, "field")


def test_a_good_name_is_returned() -> None:
    """A valid name of 255 characters is returned unchanged."""
    assert check_name("A_9" * 85, "field") == "A_9" * 85
