"""Host names map service hosts and nodes to rows."""

from berth.tables.columnar.host_names import HostNames
from berth.testing.fleets import Box

TWO = (Box("Big", "n1").host, Box("Big", "n2").host)


def test_a_service_host_may_have_many_nodes() -> None:
    """All rows of a name are found, and each node by itself."""
    names = HostNames(2)
    for row, host in enumerate(TWO):
        names.add(row, host)
    assert names.of_name("Big") == {0, 1}
    assert names.of_node("n2") == {1}
    assert names.of_name("big") == frozenset()
    assert names.of_folded_name("big") == {0, 1}


def test_names_that_differ_in_case_fold_together() -> None:
    """By its exact name each is a separate host."""
    names = HostNames(2)
    names.add(0, Box("A").host)
    names.add(1, Box("a").host)
    assert names.of_folded_name("a") == {0, 1}
    names.discard(0)
    assert names.of_folded_name("a") == {1}
    assert names.of_name("A") == frozenset()


def test_what_was_discarded_is_not_found() -> None:
    """The other node remains until it is discarded too."""
    names = HostNames(2)
    for row, host in enumerate(TWO):
        names.add(row, host)
    names.discard(0)
    assert names.of_folded_name("big") == names.of_name("Big") == {1}
    names.discard(1)
    assert names.of_folded_name("big") == names.of_node("n2") == frozenset()
