"""Tests for tree requests, which sort groups into kinds."""

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import needs_of
from berth.scheduling.granular.tree_request import TreeRequest, tree_request_of


def ask(**specs: str) -> TreeRequest:
    """Return the request of a flavor with one VCPU."""
    extra = {"group_policy": "none", **specs}
    return tree_request_of(needs_of(Flavor("1", "f", 1, 0, extra_specs=extra)))


def test_groups_that_are_alike_are_of_one_kind() -> None:
    """Groups that differ only in their suffix are one kind."""
    found = ask(
        **{"resources1:M": "5", "resources2:M": "5", "resources3:M": "5", "trait3:T": "required"}
    )
    assert [kind.suffixes for kind in found.kinds] == [("3",), ("1", "2")]
    assert [kind.count for kind in found.kinds] == [1, 2]
    assert found.groups == 3
    assert found.traits == {"T"}


def test_the_most_demanding_kinds_come_first() -> None:
    """Kinds with traits come first, then those with several classes, then the largest."""
    found = ask(
        **{
            "resources1:M": "1",
            "resources2:M": "9",
            "resources3:M": "1",
            "resources3:N": "1",
            "resources4:M": "1",
            "trait4:T": "forbidden",
        }
    )
    assert [kind.suffixes for kind in found.kinds] == [("4",), ("3",), ("2",), ("1",)]


def test_classes_that_compete_with_the_unsuffixed_group_are_known() -> None:
    """Classes that groups share with the unsuffixed amounts are listed by index."""
    found = ask(**{"resources1:VCPU": "2", "resources2:M": "1"})
    assert found.classes == ("M", "VCPU")
    assert found.shared == {1}
    assert found.unsuffixed == ((1, 1),)


def test_kinds_that_ask_for_one_class_make_a_part() -> None:
    """Kinds connected by a common class form one part."""
    found = ask(
        **{
            "resources1:M": "1",
            "resources2:N": "1",
            "resources3:M": "1",
            "resources3:N": "1",
            "resources4:O": "1",
        }
    )
    parts = [sorted(kind.suffixes[0] for kind in part) for part in found.parts()]
    assert sorted(parts) == [["1", "2", "3"], ["4"]]
