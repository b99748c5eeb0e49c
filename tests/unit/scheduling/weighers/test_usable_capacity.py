"""Tests for UsableCapacityWeigher."""

import numpy as np
import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Request
from berth.domain.inventory.resources import Inventory
from berth.scheduling.weighers import usable_capacity
from berth.testing.fleets import GPU_MILLI, Box, asking, gpus, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

SMALL = asking(Flavor("1", "small", vcpus=2, memory_mb=1024, root_gb=10))
SHARE = asking(Flavor("2", "share", 2, 1024), specs={f"resources1:{GPU_MILLI}": "500"})
NOTHING = asking(Flavor("3", "nothing", 0, 0))


def values(ask: Ask, boxes: list[Box], request: Request = SMALL, steps: int = 20) -> list[float]:
    """Return the value of each box for a request."""
    found = ask(snapshot_of(boxes), request).shares(usable_capacity.build(steps=steps))
    assert found is not None
    return found


def test_an_idle_host_loses_what_is_taken(ask: Ask) -> None:
    """Idle hosts of different sizes have equal values."""
    assert values(ask, [Box("a"), Box("b", inventories=sized(64, 65_536, 800))]) == [0.5, 0.5]


def test_nothing_is_lost_where_something_else_is_scarce(ask: Ask) -> None:
    """A host whose unrequested class is full loses nothing."""
    diskless = asking(Flavor("1", "diskless", vcpus=2, memory_mb=1024))
    full = Box("full", used={"DISK_GB": 90})
    assert values(ask, [full, Box("idle")], diskless) == [1.0, 0.5]


def test_the_ratio_of_what_is_left_counts(ask: Ask) -> None:
    """The instance goes where it takes the smaller part of the scarcest class."""
    scarce_cpu = Box("scarce-cpu", used={"VCPU": 4})
    scarce_memory = Box("scarce-memory", used={"MEMORY_MB": 4096})
    # 2 of 8 CPUs and 1 of 8 GB: a quarter is taken, and lost where CPUs are scarce; where memory
    # is scarce an eighth is lost.
    assert values(ask, [scarce_cpu, scarce_memory]) == [0.5, pytest.approx(2 / 3, abs=0.02)]


def test_devices_are_what_is_taken(ask: Ask) -> None:
    """A share of a GPU is worth less on a host with few CPUs for each GPU."""
    many, few = sized(vcpus=32, memory_mb=65_536), sized(vcpus=2, memory_mb=65_536)
    boxes = [
        Box("many", inventories=many, children=gpus(1000, 1000)),
        Box("few", inventories=few, children=gpus(1000, 1000)),
    ]
    assert values(ask, boxes, SHARE) == [0.5, 0.2]


def test_any_class_may_be_common(ask: Ask) -> None:
    """If all classes are common, the most requested class is what is taken."""
    boxes = [Box("few", inventories=sized(vcpus=2, memory_mb=65_536), children=gpus(1000, 1000))]
    asked = ask(snapshot_of(boxes), SHARE)
    common = ("VCPU", "MEMORY_MB", "DISK_GB", GPU_MILLI)
    assert asked.shares(usable_capacity.build(common_classes=common)) == [0.5]


def test_values_come_in_steps(ask: Ask) -> None:
    """Values are rounded to steps, so hosts of nearly equal value are equal."""
    boxes = [Box("a", used={"MEMORY_MB": 4096}), Box("b", used={"MEMORY_MB": 4100})]
    fine, coarse = values(ask, boxes, steps=1000), values(ask, boxes, steps=20)
    assert fine[0] == 0.667
    assert coarse == [0.65, 0.65]


def test_a_host_without_what_is_asked_is_worth_nothing(ask: Ask) -> None:
    """A host without the requested class has a value of 0."""
    assert values(ask, [Box("bare", inventories={})]) == [0.0]
    over = Box("over", used={"VCPU": 20, "MEMORY_MB": 20_000})
    assert values(ask, [over, Box("empty", inventories={"VCPU": Inventory(4, reserved=4)})]) == [
        0.5,
        0.0,
    ]


@pytest.mark.parametrize("request_", [SMALL, SHARE], ids=["small", "share of a GPU"])
def test_many_hosts_are_weighed_as_each_of_them(ask: Ask, request_: Request) -> None:
    """Values for many hosts equal those for each host alone."""
    boxes = [
        Box(
            f"host-{number:02d}",
            inventories=sized(4 + number % 5, 1024 * (1 + number % 7)) if number % 11 else {},
            used={"VCPU": number % 6, "MEMORY_MB": 100 * number} if number % 11 else {},
            children=gpus(1000, 37 * number) if number % 3 else (),
        )
        for number in range(32)
    ]
    asked = ask(snapshot_of(boxes), request_)
    share = usable_capacity.build().share
    assert share is not None
    each = [share(asked.hosts, asked.query, np.array([row])) for row in range(len(boxes))]
    assert [one.tolist()[0] for one in each if one is not None] == values(ask, boxes, request_)


def test_who_asks_for_nothing_is_not_weighed(ask: Ask) -> None:
    """The weigher does not apply to a request without amounts."""
    assert ask(snapshot_of([Box("a")]), NOTHING).shares(usable_capacity.build()) is None


def test_its_scale_is_fixed() -> None:
    """The ends of the scale are 0 and 1, and the raw value is the share."""
    weigher = usable_capacity.build(multiplier=2.0)
    assert (weigher.name, weigher.multiplier) == ("UsableCapacityWeigher", 2.0)
    assert (weigher.floor, weigher.ceiling) == (0.0, 1.0)
    assert weigher.multiplier_key == "usable_capacity_weight_multiplier"
    assert weigher.raw is weigher.share
