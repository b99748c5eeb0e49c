"""Tests for PCIWeigher."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from berth.domain.hardware.assignment import Assignment, DeviceShare
from berth.domain.hardware.pci import PciPool
from berth.scheduling.weighers import free_devices
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

GPUS, NICS = PciPool("10de", "1eb8", count=3), PciPool("8086", "154c", count=2)
MANY = PciPool("8086", "0443", count=500)
POOLS: Mapping[str, tuple[PciPool, ...]] = {"few": (GPUS, NICS), "many": (GPUS, MANY), "none": ()}


def test_free_devices_of_all_kinds_count(ask: Ask) -> None:
    """Hosts with fewer free devices of any kind are preferred, up to 99 devices."""
    boxes = [Box(name, pci_pools=pools) for name, pools in POOLS.items()]
    taken = Assignment(devices=(DeviceShare(GPUS.key, 2),))
    snapshot = snapshot_of(boxes, instances=[replace(resident("1", boxes[0]), assignment=taken)])
    asked = ask(snapshot, asking())
    assert asked.raw(free_devices.build()) == [100 - 3, 1.0, 100.0]
    assert asked.shares(free_devices.build()) == [0.97, 0.01, 1.0]


def test_a_fleet_without_devices(ask: Ask) -> None:
    """Hosts without devices have equal values."""
    asked = ask(snapshot_of([Box("a"), Box("b")]), asking())
    assert asked.raw(free_devices.build()) == [100.0, 100.0]


def test_defaults_are_those_of_nova() -> None:
    """The defaults are those of Nova, and a negative multiplier is refused."""
    weigher = free_devices.build()
    assert (weigher.name, weigher.multiplier) == ("PCIWeigher", 1.0)
    assert weigher.multiplier_key == "pci_weight_multiplier"
    with pytest.raises(ValueError, match=r"multiplier: -1\.0"):
        free_devices.build(multiplier=-1.0)
