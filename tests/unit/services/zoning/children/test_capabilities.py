"""Tests for the capabilities that a zone reports."""

from dataclasses import replace

import pytest

from berth.domain.errors import InvalidInputError
from berth.services.replica.replica import Replica
from berth.services.zoning.children.capabilities import CapabilityReport
from berth.testing.fleets import NOW_S, Box, sized, snapshot_of
from berth.testing.virtual_time import VirtualClock

BOXES = (
    Box("a", inventories=sized(8), stats={"load": "0.5"}, metrics={"heat": 20.0}),
    Box(
        "b", inventories=sized(4), used={"VCPU": 4}, stats={"load": "much"}, metrics={"heat": 40.0}
    ),
    Box("down", inventories=sized(100), silent_s=1000.0, metrics={"heat": 99.0}),
    Box("off", inventories=sized(200), disabled=True),
)


class FixedClock(VirtualClock):
    """A clock that stands still at the time of the fleet."""

    def now_s(self) -> float:
        """Return the time of the fleet."""
        return NOW_S


def telling(*told: str) -> CapabilityReport:
    """Return the capability report of the fleet with these values."""
    replica = Replica()
    replica.load(snapshot_of(BOXES))
    return CapabilityReport(
        name="west",
        capabilities={"hypervisor": ("kvm",)},
        told=told,
        replica=replica,
        clock=FixedClock(),
    )


def test_nothing_is_told_by_itself() -> None:
    """Without settings a zone reports only its name and its configured capabilities."""
    info = telling().info()
    assert (info.name, info.capabilities, info.ranges) == ("west", {"hypervisor": ("kvm",)}, {})


def test_least_and_greatest_values_of_hosts_in_use() -> None:
    """The ranges cover hosts in service and ignore values that are not numbers."""
    info = telling(
        "total.VCPU", "free.VCPU", "metric.heat", "stat.load", "stat.none", "free.X"
    ).info()
    assert info.ranges == {
        "total.VCPU": (4.0, 8.0),
        "free.VCPU": (0.0, 8.0),
        "metric.heat": (20.0, 40.0),
        "stat.load": (0.5, 0.5),
    }


@pytest.mark.parametrize("name", ["", "VCPU", "free.", "hosts.count"])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    """A malformed value name is refused."""
    with pytest.raises(InvalidInputError):
        telling(name)


def test_an_empty_zone() -> None:
    """A zone without hosts in service reports no ranges."""
    mine = telling("total.VCPU")
    one = replace(BOXES[2])
    replica = Replica()
    replica.load(snapshot_of([one]))
    empty = CapabilityReport(
        name="west", capabilities={}, told=["total.VCPU"], replica=replica, clock=FixedClock()
    )
    assert mine.info().ranges
    assert empty.info().ranges == {}
