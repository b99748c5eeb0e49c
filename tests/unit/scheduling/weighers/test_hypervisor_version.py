"""Tests for HypervisorVersionWeigher."""

import pytest

from berth.domain.inventory.resources import AMOUNT_MAX
from berth.scheduling.weighers import hypervisor_version
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask


def test_versions_are_numbers(ask: Ask) -> None:
    """The value is the version number; the share is 1/2 at version 10."""
    versions = (6_002_000, 10_000_000, 0)
    boxes = [Box(str(version), hypervisor_version=version) for version in versions]
    asked = ask(snapshot_of(boxes), asking())
    assert asked.raw(hypervisor_version.build()) == [6_002_000.0, 10_000_000.0, 0.0]
    shares = [6_002_000 / 16_002_000, 0.5, 0.0]
    assert asked.shares(hypervisor_version.build()) == pytest.approx(shares)


def test_a_version_beyond_all_numbers_is_cut(ask: Ask) -> None:
    """A version beyond the range of the column is clipped."""
    asked = ask(snapshot_of([Box("a", hypervisor_version=10**400)]), asking())
    assert asked.raw(hypervisor_version.build()) == [float(AMOUNT_MAX)]


def test_defaults_are_those_of_nova() -> None:
    """The defaults are those of Nova, without fixed ends."""
    weigher = hypervisor_version.build()
    assert (weigher.name, weigher.multiplier) == ("HypervisorVersionWeigher", 1.0)
    assert weigher.multiplier_key == "hypervisor_version_weight_multiplier"
    assert (weigher.floor, weigher.ceiling) == (None, None)
    with pytest.raises(ValueError, match="scale"):
        hypervisor_version.build(scale=-1.0)
