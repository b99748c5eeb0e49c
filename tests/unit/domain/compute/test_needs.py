"""Tests for flavor sizes and for the needs of one instance."""

from collections.abc import Mapping
from typing import Any

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import Needs, needs_of
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX


def needs(specs: Mapping[str, str]) -> Needs:
    """Return the needs of a flavor with these extra specs."""
    return needs_of(Flavor("1", "f", vcpus=2, memory_mb=512, root_gb=10, extra_specs=specs))


@pytest.mark.parametrize("field", ["vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"])
@pytest.mark.parametrize("value", [-1, AMOUNT_MAX + 1])
def test_a_size_out_of_range_is_refused(field: str, value: int) -> None:
    """A negative or too large size is refused under the name of its field."""
    sizes: dict[str, Any] = {"vcpus": 1, "memory_mb": 1, field: value}
    with pytest.raises(InvalidInputError) as caught:
        Flavor("1", "f", **sizes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("root_gb", "ephemeral_gb", "swap_mb", "disk_gb"),
    [(10, 5, 0, 15), (10, 0, 1, 11), (10, 0, 1024, 11), (0, 0, 1, 1), (1, 1, 1025, 4)],
)
def test_disk_is_rounded_up_to_gb(
    root_gb: int, ephemeral_gb: int, swap_mb: int, disk_gb: int
) -> None:
    """The DISK_GB amount is the sum of root, ephemeral and swap, rounded up once."""
    flavor = Flavor("1", "f", 1, 1, root_gb, ephemeral_gb, swap_mb)
    assert needs_of(flavor).amounts["DISK_GB"] == disk_gb


def test_zero_amounts_are_left_out() -> None:
    """Resource classes with a zero amount are left out of the needs."""
    assert needs_of(Flavor("1", "f", vcpus=0, memory_mb=64)).amounts == {"MEMORY_MB": 64}


def test_extra_specs_override_add_and_remove_resources() -> None:
    """`resources:CLASS=n` sets an amount; 0 removes the class."""
    found = needs({"resources:VCPU": "7", "resources:CUSTOM_GPU": "1", "resources:DISK_GB": "0"})
    assert found.amounts == {"VCPU": 7, "MEMORY_MB": 512, "CUSTOM_GPU": 1}


@pytest.mark.parametrize("text", ["-1", "1.5", "", "one", "٣", "1e3", " 1", "9" * 17, "9" * 5000])
def test_an_amount_that_is_no_whole_number_is_refused(text: str) -> None:
    """An amount that is not a whole number in range is refused under its extra spec."""
    with pytest.raises(InvalidInputError, match="resources:VCPU"):
        needs({"resources:VCPU": text})


@pytest.mark.parametrize("name", ["vcpu", "A B", "A:B", "X" * 256, "A\n"])
def test_a_class_name_that_placement_would_refuse_is_refused(name: str) -> None:
    """A resource class name may contain only A-Z, 0-9 and _, and at most 255 characters."""
    with pytest.raises(InvalidInputError, match="resources:"):
        needs({f"resources:{name}": "1"})


def test_traits_come_from_flavor_and_image() -> None:
    """The traits of the image are added to those of the flavor."""
    flavor = Flavor("1", "f", 1, 1, extra_specs={"trait:A": "required", "trait:B": "forbidden"})
    found = needs_of(flavor, {"trait:C": "required"})
    assert found.traits_required == {"A", "C"}
    assert found.traits_forbidden == {"B"}


def test_one_of_several_traits_may_be_asked_for() -> None:
    """`berth:any_trait` lists alternative traits, with or without blanks around the bars."""
    assert needs({"berth:any_trait": "A | B|C"}).traits_any == (frozenset("ABC"),)


@pytest.mark.parametrize(
    "specs",
    [
        {"trait:A": "maybe"},
        {"trait:a": "required"},
        {"berth:any_trait": "A||B"},
        {"berth:any_trait": ""},
    ],
)
def test_a_trait_that_cannot_be_read_is_refused(specs: dict[str, str]) -> None:
    """A malformed trait spec is refused under its extra spec."""
    with pytest.raises(InvalidInputError) as caught:
        needs(specs)
    assert caught.value.field in specs


def test_a_trait_required_and_forbidden_is_refused() -> None:
    """A trait that the flavor requires and the image forbids is refused."""
    flavor = Flavor("1", "f", 1, 1, extra_specs={"trait:A": "required"})
    with pytest.raises(InvalidInputError, match="trait:A"):
        needs_of(flavor, {"trait:A": "forbidden"})


def test_other_extra_specs_ask_for_nothing() -> None:
    """Extra specs in other scopes and without a scope do not change the amounts."""
    found = needs({"hw:cpu_policy": "dedicated", "plain": "x"})
    assert found.amounts == {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 10}
