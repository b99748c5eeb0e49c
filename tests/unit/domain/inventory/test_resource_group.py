"""Tests for the resource groups in the extra specs of flavors."""

from collections.abc import Mapping

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import Needs, needs_of
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resource_group import GROUPS_MAX, ResourceGroup


def needs(specs: Mapping[str, str], image_traits: Mapping[str, str] | None = None) -> Needs:
    """Return the needs of a flavor of one VCPU with these extra specs."""
    return needs_of(Flavor("1", "f", 1, 0, extra_specs=specs), image_traits)


def test_a_suffix_makes_a_group() -> None:
    """Amounts and traits with the same suffix form a group; groups are sorted by suffix."""
    found = needs(
        {
            "resources_GPU:CUSTOM_GPU_MILLI": "500",
            "trait_GPU:CUSTOM_A100": "required",
            "trait_GPU:CUSTOM_OLD": "forbidden",
            "resources1:VCPU": "2",
            "resources1:MEMORY_MB": "0",
            "group_policy": "isolate",
        }
    )
    assert found.groups == (
        ResourceGroup("1", {"VCPU": 2}),
        ResourceGroup(
            "_GPU", {"CUSTOM_GPU_MILLI": 500}, frozenset({"CUSTOM_A100"}), frozenset({"CUSTOM_OLD"})
        ),
    )
    assert found.isolate
    assert found.amounts == {"VCPU": 1}
    assert not found.traits_required


def test_what_has_no_suffix_stays_apart() -> None:
    """Amounts and traits without a suffix, and the traits of the image, belong to no group."""
    found = needs(
        {"resources:CUSTOM_X": "2", "trait:CUSTOM_A": "required", "resources-a:CUSTOM_X": "1"},
        {"trait:CUSTOM_B": "required"},
    )
    assert found.amounts == {"VCPU": 1, "CUSTOM_X": 2}
    assert found.traits_required == {"CUSTOM_A", "CUSTOM_B"}
    assert found.groups == (ResourceGroup("-a", {"CUSTOM_X": 1}),)
    assert not found.isolate


@pytest.mark.parametrize(
    "key", ["resources.a:VCPU", "resource1:VCPU", "resources" + "x" * 65 + ":VCPU", "atrait1:X"]
)
def test_other_keys_are_left_alone(key: str) -> None:
    """Keys that only resemble group keys are ignored."""
    assert needs({key: "no number"}).groups == ()


def test_a_group_of_nothing_is_no_group() -> None:
    """A group whose amounts are all zero is left out."""
    assert needs({"resources1:VCPU": "0"}).groups == ()
    assert needs({"group_policy": "none"}).groups == ()


@pytest.mark.parametrize(
    ("specs", "field", "reason"),
    [
        ({"resources1:VCPU": "-1"}, "resources1:VCPU", "whole number"),
        ({"resources1:vcpu": "1"}, "resources1:vcpu", "A-Z"),
        ({"resources1:VCPU": "1", "trait1:X": "maybe"}, "trait1:X", "'required' or 'forbidden'"),
        ({"trait1:CUSTOM_X": "required"}, "trait1:CUSTOM_X", "add resources1:CLASS=n"),
        (
            {"resources1:VCPU": "1", "resources2:VCPU": "1"},
            "group_policy",
            "is required for several groups",
        ),
        ({"group_policy": "Isolate"}, "group_policy", "'none' or 'isolate'"),
        (
            {f"resources{n}:VCPU": "1" for n in range(GROUPS_MAX + 1)} | {"group_policy": "none"},
            "extra_specs",
            f"more than {GROUPS_MAX}",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_key(
    specs: Mapping[str, str], field: str, reason: str
) -> None:
    """An invalid group is refused with the extra spec and the expected value."""
    with pytest.raises(InvalidInputError, match=reason) as caught:
        needs(specs)
    assert caught.value.field == field


def test_a_trait_cannot_be_required_and_forbidden() -> None:
    """One group cannot both require and forbid a trait, but two groups may differ."""
    both = {"resources1:VCPU": "1", "trait1:X": "required", "trait2:X": "forbidden"}
    both |= {"resources2:VCPU": "1", "group_policy": "none"}
    assert [group.suffix for group in needs(both).groups] == ["1", "2"]
    with pytest.raises(InvalidInputError, match="both required and forbidden"):
        needs({"trait:X": "forbidden"}, {"trait:X": "required"})
