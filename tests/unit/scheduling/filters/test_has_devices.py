"""Tests for PciPassthroughFilter: kept hosts, reasons and relaxations."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment, DeviceShare
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.scheduling.filters import fits_numa, has_devices
from berth.scheduling.hardware import hardware_masks
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask, Asked

ALIASES = (
    {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"},
    {"name": "nic", "vendor_id": "8086", "product_id": "154c"},
    {"name": "either", "vendor_id": "8086", "product_id": "154c"},
    {"name": "either", "vendor_id": "10de", "product_id": "1eb8"},
)
RULE = has_devices.build(pci_aliases=ALIASES)
GPUS = PciPool("10de", "1eb8", count=4)
NICS = PciPool("8086", "154c", DeviceType.VIRTUAL, count=2)

BUSY = Box("busy", pci_pools=(GPUS, NICS))
FLEET = snapshot_of(
    [Box("bare"), Box("gpus", pci_pools=(GPUS,)), Box("both", pci_pools=(GPUS, NICS)), BUSY],
    instances=[
        replace(
            resident("old", BUSY),
            assignment=Assignment(devices=(DeviceShare(GPUS.key, 3), DeviceShare(NICS.key, 1))),
        )
    ],
)


def asked(ask: Ask, devices: str) -> Asked:
    """Evaluate the fleet for a flavor with devices."""
    specs = {"pci_passthrough:alias": devices} if devices else {}
    return ask(FLEET, asking(Flavor("1", "f", 1, 1), specs=specs))


@pytest.mark.parametrize(
    ("devices", "kept"),
    [
        ("", None),
        ("gpu:1", ["gpus", "both", "busy"]),
        ("gpu:2", ["gpus", "both"]),
        ("gpu:5", []),
        ("gpu:1,nic:1", ["both", "busy"]),
        ("gpu:2,gpu:2", ["gpus", "both"]),
        ("gpu:3,gpu:2", []),
        ("either:2", ["gpus", "both", "busy"]),
        ("gpu:1,either:4", ["both"]),
        ("either:4,gpu:1", ["both"]),
        ("gpu:4,either:2", ["both"]),
        ("nic:2,either:5", []),
    ],
)
def test_hosts_with_enough_devices_stay(ask: Ask, devices: str, kept: list[str] | None) -> None:
    """Hosts stay if their free devices serve all needs, in whatever order these are written."""
    one = asked(ask, devices)
    assert one.kept(RULE) == kept
    assert one.kept(RULE) == kept


def test_verdicts_that_were_worked_out_are_remembered_within_bounds(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verdicts are the same when nothing can be cached."""
    one = asked(ask, "gpu:4,either:2")
    assert one.kept(RULE) == ["both"]
    monkeypatch.setattr(hardware_masks, "REMEMBERED_MAX", 0)
    monkeypatch.setattr(hardware_masks, "_ASKED_MAX", 1)
    assert asked(ask, "gpu:4,either:2").kept(RULE) == ["both"]
    assert one.kept(has_devices.build(pci_aliases=ALIASES[:1] + ALIASES[2:])) == ["both"]


def test_an_alias_that_the_policy_has_not_is_refused(ask: Ask) -> None:
    """An alias that the policy does not define is refused."""
    with pytest.raises(InvalidInputError, match="no alias 'fpga'"):
        asked(ask, "fpga:1").kept(RULE)


def test_it_says_what_a_host_lacks(ask: Ask) -> None:
    """The reason names the alias with too few devices, or all aliases that fail together."""
    assert asked(ask, "gpu:5,nic:1").why(RULE, 3) == "gpu: 5 requested, 1 free"
    assert (
        asked(ask, "gpu:1,nic:1").why(RULE, 0)
        == "gpu: 1 requested, 0 free; nic: 1 requested, 0 free"
    )
    why = "its devices do not suffice for all of either, gpu together"
    assert asked(ask, "gpu:4,either:1").why(RULE, 1) == why


def test_it_says_what_would_fit(ask: Ask) -> None:
    """Relaxations name fewer devices of one alias, or none of them."""
    assert asked(ask, "gpu:2").relaxed(RULE, [0, 3]) == [
        ("1 fewer device of gpu: 1 host", ("busy",)),
        ("without the devices of gpu: 1 host", ("bare",)),
    ]
    assert asked(ask, "gpu:7,nic:1").relaxed(RULE, [1, 2, 3]) == [
        ("3 fewer devices of gpu: 1 host", ("both",))
    ]
    assert asked(ask, "gpu:1,nic:1").relaxed(RULE, [0, 1]) == [
        ("without the devices of nic: 1 host", ("gpus",))
    ]


def test_devices_are_assigned_once(ask: Ask) -> None:
    """PciPassthroughFilter and NUMATopologyFilter share one assign function for equal options."""
    one = asked(ask, "gpu:1")
    assert RULE.assign is not None
    assert RULE.assign(one.hosts, one.query, 3) == Assignment(
        devices=(DeviceShare(GPUS.key, 1, "gpu"),)
    )
    assert RULE.assign == fits_numa.build(pci_aliases=ALIASES).assign
    assert RULE.assign != fits_numa.build(pci_aliases=ALIASES, numa_packing=False).assign


def test_it_holds_for_forced_hosts() -> None:
    """The filter applies to forced hosts."""
    assert RULE.on_forced
