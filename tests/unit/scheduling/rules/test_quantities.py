"""Tests for the sizes of a flavor and the relaxations about them."""

import numpy as np
import pytest

from berth.domain.compute.flavor import Flavor
from berth.scheduling.rules.quantities import CPUS, DISK, MEMORY, Shortfall, say
from berth.tables.host.feed import table_of
from berth.testing.fleets import Box, snapshot_of

HOSTS = table_of(snapshot_of([Box("a"), Box("b"), Box("c")]))
ROWS = np.arange(3)


def test_sizes_are_those_of_the_flavor() -> None:
    """The requested sizes are those of the flavor; disk includes ephemeral and swap."""
    specs = {"resources:VCPU": "7", "resources:DISK_GB": "0"}
    flavor = Flavor("1", "f", 2, 512, root_gb=10, ephemeral_gb=5, swap_mb=512, extra_specs=specs)
    assert [one.asked(flavor) for one in (CPUS, MEMORY, DISK)] == [2, 512, 15.5]


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "0"),
        (1234567.0, "1,234,567"),
        (-3, "-3"),
        (0.7, "0.70"),
        (7.999, "7.99"),
        (-0.5, "-0.50"),
    ],
)
def test_amounts_are_rounded_down(amount: float, said: str) -> None:
    """Amounts are shown rounded towards zero to two decimals."""
    assert say(amount) == said


@pytest.mark.parametrize(
    ("most", "said"),
    [
        ([1.0, 3.0, 3.5], [("1 VCPU less: 2 hosts", -1, ("b", "c"))]),
        ([1.9, -1.0, 0.0], [("3 VCPU less: 1 host", -3, ("a",))]),
        ([0.9, -1.0, 0.0], []),
        ([-1.0, -2.0, -3.0], []),
    ],
)
def test_the_least_less_is_said_in_whole_units(
    most: list[float], said: list[tuple[str, int, tuple[str, ...]]]
) -> None:
    """The smallest reduction in whole units is named, with the hosts for which it is enough."""
    found = Shortfall("F", CPUS, 4, ROWS).asking_for_less(HOSTS, np.array(most))
    assert [(one.text, one.change, one.examples) for one in found] == said
    assert all((one.filter, one.subject) == ("F", "VCPU") for one in found)


@pytest.mark.parametrize(
    ("free", "said"),
    [
        ([3.0, 5.0, 9.0], [("1 VCPU less: 1 host", -1, ("a",))]),
        ([6.0, 9.0, 6.0], [("2 VCPU more: 2 hosts", 2, ("a", "c"))]),
        ([0.0, 9.0, -4.0], [("5 VCPU more: 1 host", 5, ("b",))]),
        ([-4.0, -4.0, -4.0], []),
    ],
)
def test_the_nearest_change_is_said(
    free: list[float], said: list[tuple[str, int, tuple[str, ...]]]
) -> None:
    """The nearest change is named, and a reduction is preferred."""
    found = Shortfall("F", CPUS, 4, ROWS).asking_for_exactly(HOSTS, np.array(free))
    assert [(one.text, one.change, one.examples) for one in found] == said


def test_a_change_by_parts_of_a_unit_is_no_number_of_units() -> None:
    """A change of less than a unit has no numeric change."""
    found = Shortfall("F", DISK, 1.5, ROWS).asking_for_exactly(HOSTS, np.array([1.0, 9.0, 9.0]))
    assert [(one.text, one.change) for one in found] == [("0.50 GB less disk: 1 host", None)]
