"""What a zone tells of itself."""

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
    """The clock of the fleet."""

    def now_s(self) -> float:
        """Tell the time of the fleet."""
        return NOW_S


def telling(*told: str) -> CapabilityReport:
    """Return what tells some values of the fleet."""
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
    """But the name, and what the settings say."""
    info = telling().info()
    assert (info.name, info.capabilities, info.ranges) == ("west", {"hypervisor": ("kvm",)}, {})


def test_least_and_greatest_values_of_hosts_in_use() -> None:
    """Those that are down, disabled or say no number are left out."""
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
    """At the start: it is an operator's mistake."""
    with pytest.raises(InvalidInputError):
        telling(name)


def test_an_empty_zone() -> None:
    """Tells no ranges."""
    mine = telling("total.VCPU")
    one = replace(BOXES[2])
    replica = Replica()
    replica.load(snapshot_of([one]))
    empty = CapabilityReport(
        name="west", capabilities={}, told=["total.VCPU"], replica=replica, clock=FixedClock()
    )
    assert mine.info().ranges
    assert empty.info().ranges == {}
