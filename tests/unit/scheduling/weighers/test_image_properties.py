"""Tests for ImagePropertiesWeigher."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.scheduling.weighers import image_properties
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

A, B, C = Box("a"), Box("b"), Box("c")
WINDOWS = {"os_distro": "windows", "hw_machine_type": "q35"}
LINUX = {"os_distro": "linux", "hw_machine_type": "q35"}


def running(uuid: str, box: Box, properties: Mapping[str, str] | None) -> Instance:
    """Return an instance with these image properties, or without an image for None."""
    image = None if properties is None else Image("i", properties=properties)
    return replace(resident(uuid, box), image=image)


SNAPSHOT = snapshot_of(
    [A, B, C],
    instances=[
        running("1", A, WINDOWS),
        running("2", A, WINDOWS),
        running("3", A, LINUX),
        running("4", B, LINUX),
        running("5", B, {"os_distro": "linux"}),
        running("6", B, None),
    ],
)


def of(properties: Mapping[str, str]) -> Request:
    """Return a request with these image properties."""
    return replace(asking(), image=Image("i", properties=properties))


def test_equal_values_count_alike(ask: Ask) -> None:
    """Each instance counts once for each property value that it shares with the request."""
    asked = ask(SNAPSHOT, of(WINDOWS))
    assert asked.raw(image_properties.build()) == [2 + 3, 1.0, 0.0]
    assert asked.shares(image_properties.build()) == pytest.approx([11 / 12, 3 / 4, 1 / 2])


def test_ratios_say_what_counts(ask: Ask) -> None:
    """With ratios only the listed properties count, each by its ratio."""
    asked = ask(SNAPSHOT, of(WINDOWS))
    settings = {"os_distro": 2.0, "hw_machine_type": -1.0, "other": 5.0}
    weigher = image_properties.build(image_props_weight_setting=settings)
    assert asked.raw(weigher) == [4 - 3, -1.0, 0.0]
    assert asked.shares(weigher) == pytest.approx([3 / 4, 1 / 4, 1 / 2])
    weigher = image_properties.build(
        image_props_weight_setting={"os_distro": 1.0, "hw_machine_type": 0.0}
    )
    assert asked.raw(weigher) == [2.0, 0.0, 0.0]


def test_values_that_no_instance_has(ask: Ask) -> None:
    """Property values that no instance has count 0."""
    asked = ask(SNAPSHOT, of({"os_distro": "bsd", "os_version": "7"}))
    named = image_properties.build(image_props_weight_setting={"os_distro": 1.0})
    assert asked.raw(named) == [0.0, 0.0, 0.0]
    assert asked.raw(image_properties.build()) == [0.0, 0.0, 0.0]


def test_it_stands_aside_when_nothing_is_asked(ask: Ask) -> None:
    """The weigher does not apply without a property that counts."""
    weigher = image_properties.build(image_props_weight_setting={"os_distro": 1.0})
    for request in (asking(), of({}), of({"hw_machine_type": "q35"})):
        assert ask(SNAPSHOT, request).raw(weigher) is None
        assert ask(SNAPSHOT, request).shares(weigher) is None


def test_defaults_are_those_of_nova() -> None:
    """The defaults are those of Nova, with a multiplier of 0."""
    weigher = image_properties.build()
    assert (weigher.name, weigher.multiplier) == ("ImagePropertiesWeigher", 0.0)
    assert weigher.multiplier_key == "image_props_weight_multiplier"
