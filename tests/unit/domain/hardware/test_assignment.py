"""Tests for merging the assignments of several filters."""

import pytest

from berth.domain.hardware.assignment import (
    Assignment,
    CellShare,
    DeviceShare,
    allocations_by_provider,
    amounts_on_root,
)


def test_nothing_merges_to_none() -> None:
    """Merging no assignments, or only empty ones, gives None."""
    assert Assignment.merged([]) is None
    assert Assignment.merged([Assignment(), Assignment()]) is None


def test_one_part_is_taken_as_it_is() -> None:
    """Merging one assignment with empty ones returns it unchanged."""
    part = Assignment({"child": {"X": 1}})
    assert Assignment.merged([Assignment(), part]) is part


def test_amounts_of_one_provider_add_up() -> None:
    """Merging adds up the amounts of a provider and unites the groups."""
    merged = Assignment.merged(
        [
            Assignment({"a": {"X": 1}, "b": {"Y": 2}}, {"1": ("a", "b")}),
            Assignment({"a": {"X": 2, "Z": 1}}, {"2": ("a",)}, root={"VCPU": 1}),
        ]
    )
    assert merged == Assignment(
        {"a": {"X": 3, "Z": 1}, "b": {"Y": 2}}, {"1": ("a", "b"), "2": ("a",)}, root={"VCPU": 1}
    )


def test_hardware_goes_with_amounts() -> None:
    """The merged assignment has the cells of one part and the devices of all parts."""
    cell, device, other = CellShare(0, 1), DeviceShare("a", 1), DeviceShare("b", 2)
    hardware = Assignment(numa=(cell,), devices=(device,))
    spread = Assignment({"child": {"X": 1}}, devices=(other,))
    assert Assignment.merged([hardware, spread]) == Assignment(
        {"child": {"X": 1}}, numa=(cell,), devices=(device, other)
    )


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (Assignment(root={}), Assignment(root={"X": 1}), "root"),
        (Assignment(numa=(CellShare(0, 1),)), Assignment(numa=(CellShare(1, 1),)), "NUMA cells"),
        (Assignment(mappings={"1": ("a",)}), Assignment(mappings={"1": ("b",)}), "group"),
    ],
)
def test_rules_may_not_contradict_each_other(
    one: Assignment, other: Assignment, reason: str
) -> None:
    """Assignments that set the root, the cells or a group differently cannot be merged."""
    with pytest.raises(ValueError, match=reason):
        Assignment.merged([one, other])


def test_what_is_taken_is_by_provider() -> None:
    """The root provider gives the requested amounts unless the assignment sets the root's."""
    amounts = {"VCPU": 2, "X": 1}
    assert allocations_by_provider("root", amounts, None) == {"root": amounts}
    assert allocations_by_provider("root", {}, None) == {}
    spread = Assignment({"child": {"X": 1}, "none": {}}, root={"VCPU": 2})
    assert allocations_by_provider("root", amounts, spread) == {
        "root": {"VCPU": 2},
        "child": {"X": 1},
    }
    assert amounts_on_root(amounts, Assignment({"child": {"Y": 1}})) == amounts
    assert allocations_by_provider(
        "root", amounts, Assignment({"child": {"VCPU": 2}}, root={})
    ) == {"child": {"VCPU": 2}}
