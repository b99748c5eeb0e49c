"""Tests for TraitsFilter."""

import pytest

from berth.scheduling.filters import has_traits
from berth.testing.fleets import Box, Child, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

SNAPSHOT = snapshot_of(
    [
        Box("a", traits=frozenset({"A"})),
        Box("b", traits=frozenset({"B"})),
        Box("ab", traits=frozenset({"A", "B"})),
        Box("none"),
    ]
)


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({}, None),
        ({"trait:A": "required"}, ["a", "ab"]),
        ({"trait:A": "required", "trait:B": "required"}, ["ab"]),
        ({"trait:A": "forbidden"}, ["b", "none"]),
        ({"trait:A": "required", "trait:B": "forbidden"}, ["a"]),
        ({"berth:any_trait": "A|B"}, ["a", "b", "ab"]),
        ({"berth:any_trait": "A|B", "trait:B": "forbidden"}, ["a"]),
        ({"trait:UNHEARD_OF": "required"}, []),
        ({"trait:UNHEARD_OF": "forbidden"}, ["a", "b", "ab", "none"]),
    ],
)
def test_hosts_with_the_right_traits_stay(
    ask: Ask, specs: dict[str, str], kept: list[str] | None
) -> None:
    """Hosts stay if they have all required, no forbidden and one of the alternative traits."""
    assert ask(SNAPSHOT, asking(specs=specs)).kept(has_traits.build()) == kept


def test_each_demand_is_named(ask: Ask) -> None:
    """The reason names each unmet demand; a host with one unmet demand gives a relaxation."""
    specs = {"trait:A": "required", "trait:B": "forbidden", "berth:any_trait": "A|C"}
    asked, rule = ask(SNAPSHOT, asking(specs=specs)), has_traits.build()
    assert asked.why(rule, 3) == "it does not meet trait A and one of the traits A, C"
    assert asked.relaxed(rule, [1, 2, 3]) == [
        ("without the ban on trait B: 1 host", ("ab",)),
    ]
    asked = ask(SNAPSHOT, asking(specs={"trait:A": "required"}))
    assert asked.relaxed(rule, [1, 3]) == [("without trait A: 2 hosts", ("b", "none"))]


def test_it_holds_for_forced_hosts() -> None:
    """The filter applies to forced hosts."""
    assert has_traits.build().on_forced


def test_a_child_may_have_what_the_root_lacks(ask: Ask) -> None:
    """A required trait may be on a child; a forbidden one counts on the root only."""
    child = Child("c", traits=frozenset({"C"}))
    fleet = snapshot_of([Box("tree", children=(child,)), Box("plain")])
    for specs, kept in (
        ({"trait:C": "required"}, ["tree"]),
        ({"berth:any_trait": "C|D"}, ["tree"]),
        ({"trait:C": "forbidden"}, ["tree", "plain"]),
    ):
        assert ask(fleet, asking(specs=specs)).kept(has_traits.build()) == kept
