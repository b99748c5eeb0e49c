"""Requests to a tree: groups sorted into kinds before they are placed."""

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import needs_of
from berth.scheduling.granular.tree_request import TreeRequest, tree_request_of


def ask(**specs: str) -> TreeRequest:
    """Return the request of a flavor of one VCPU."""
    extra = {"group_policy": "none", **specs}
    return tree_request_of(needs_of(Flavor("1", "f", 1, 0, extra_specs=extra)))


def test_groups_that_are_alike_are_of_one_kind() -> None:
    """They differ in their suffix alone; groups with other traits are another kind."""
    found = ask(
        **{"resources1:M": "5", "resources2:M": "5", "resources3:M": "5", "trait3:T": "required"}
    )
    assert [kind.suffixes for kind in found.kinds] == [("3",), ("1", "2")]
    assert [kind.count for kind in found.kinds] == [1, 2]
    assert found.groups == 3
    assert found.traits == {"T"}


def test_the_most_demanding_kinds_come_first() -> None:
    """Those with traits, those of several classes, the largest."""
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
    """By their place among all classes."""
    found = ask(**{"resources1:VCPU": "2", "resources2:M": "1"})
    assert found.classes == ("M", "VCPU")
    assert found.shared == {1}
    assert found.unsuffixed == ((1, 1),)


def test_kinds_that_ask_for_one_class_make_a_part() -> None:
    """Also when a third one brings two of them together."""
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
