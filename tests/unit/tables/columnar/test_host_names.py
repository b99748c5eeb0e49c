"""Tests for the maps from service hosts and nodes to rows."""

from berth.tables.columnar.host_names import HostNames
from berth.testing.fleets import Box

TWO = (Box("Big", "n1").host, Box("Big", "n2").host)


def test_a_service_host_may_have_many_nodes() -> None:
    """A host name finds all rows of its nodes, and a node name finds its own row."""
    names = HostNames(2)
    for row, host in enumerate(TWO):
        names.add(row, host)
    assert names.of_name("Big") == {0, 1}
    assert names.of_node("n2") == {1}
    assert names.of_name("big") == frozenset()
    assert names.of_folded_name("big") == {0, 1}


def test_names_that_differ_in_case_fold_together() -> None:
    """Names that differ only in case share a folded name and keep separate exact names."""
    names = HostNames(2)
    names.add(0, Box("A").host)
    names.add(1, Box("a").host)
    assert names.of_folded_name("a") == {0, 1}
    names.discard(0)
    assert names.of_folded_name("a") == {1}
    assert names.of_name("A") == frozenset()


def test_what_was_discarded_is_not_found() -> None:
    """A discarded row is no longer found, and the other node of its host remains."""
    names = HostNames(2)
    for row, host in enumerate(TWO):
        names.add(row, host)
    names.discard(0)
    assert names.of_folded_name("big") == names.of_name("Big") == {1}
    names.discard(1)
    assert names.of_folded_name("big") == names.of_node("n2") == frozenset()
