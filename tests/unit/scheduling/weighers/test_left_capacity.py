"""Tests for LeftCapacityWeigher, which measures the mean share that is left."""

import numpy as np

from berth.domain.compute.flavor import Flavor
from berth.scheduling.weighers import left_capacity
from berth.testing.fleets import GPU_MILLI, Box, asking, gpus, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

HALF = asking(Flavor("1", "half", vcpus=4, memory_mb=2048))


def test_it_is_what_is_left_afterwards(ask: Ask) -> None:
    """The value is the mean of the shares that are left of the requested classes."""
    boxes = [Box("a"), Box("b", inventories=sized(16, 16_384))]
    assert ask(snapshot_of(boxes), HALF).shares(left_capacity.build()) == [
        (0.5 + 0.75) / 2,
        (0.75 + 0.875) / 2,
    ]


def test_what_is_not_asked_for_does_not_count(ask: Ask) -> None:
    """Classes that are not requested do not count."""
    boxes = [Box("a", used={"DISK_GB": 100})]
    assert ask(snapshot_of(boxes), HALF).shares(left_capacity.build()) == [0.625]


def test_devices_count_wherever_they_hang(ask: Ask) -> None:
    """Devices of child providers count for the whole host."""
    request = asking(Flavor("1", "gpu", 0, 0), specs={f"resources1:{GPU_MILLI}": "500"})
    boxes = [Box("a", children=gpus(1000, 1000)), Box("without")]
    assert ask(snapshot_of(boxes), request).shares(left_capacity.build()) == [0.75, 0.0]


def test_less_than_nothing_is_nothing(ask: Ask) -> None:
    """An overcommitted host has a value of 0."""
    boxes = [Box("a", used={"VCPU": 20, "MEMORY_MB": 9000})]
    assert ask(snapshot_of(boxes), HALF).shares(left_capacity.build()) == [0.0]


def test_many_hosts_are_weighed_as_each_of_them(ask: Ask) -> None:
    """Values for many hosts equal those for each host alone."""
    request = asking(Flavor("1", "gpu", 1, 512), specs={f"resources1:{GPU_MILLI}": "500"})
    boxes = [
        Box(
            f"host-{number:02d}",
            used={"VCPU": number % 10, "MEMORY_MB": 300 * number},
            children=gpus(1000, 1000 - 17 * number) if number % 3 else (),
        )
        for number in range(32)
    ]
    asked = ask(snapshot_of(boxes), request)
    share = left_capacity.build().share
    assert share is not None
    each = [share(asked.hosts, asked.query, np.array([row])) for row in range(len(boxes))]
    assert [one.tolist()[0] for one in each if one is not None] == asked.shares(
        left_capacity.build()
    )
    assert asked.shares(left_capacity.build()) != [0.0] * len(boxes)


def test_who_asks_for_nothing_is_not_weighed(ask: Ask) -> None:
    """The weigher does not apply to a request without amounts."""
    nothing = asking(Flavor("1", "nothing", 0, 0))
    assert ask(snapshot_of([Box("a")]), nothing).shares(left_capacity.build()) is None


def test_its_name_and_scale() -> None:
    """The ends of the scale are 0 and 1, and a negative multiplier is allowed."""
    weigher = left_capacity.build(multiplier=-1.0)
    assert (weigher.name, weigher.multiplier) == ("LeftCapacityWeigher", -1.0)
    assert (weigher.floor, weigher.ceiling) == (0.0, 1.0)
