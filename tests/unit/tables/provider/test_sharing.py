"""Tests for sharing providers and the trees that they share with."""

import numpy as np

from berth.tables.host.aggregate_sets import AggregateSets
from berth.tables.provider.sharing import Sharing, sharing_of


def found(sharing: list[int], root: list[int], *aggregates: set[int]) -> Sharing:
    """Return the sharing of providers with these roots and aggregates."""
    sets = AggregateSets()
    sets.resize(len(root))
    for row, numbers in enumerate(aggregates):
        sets.put(row, frozenset(numbers))
    rows = np.array(sharing, dtype=np.intp)
    return sharing_of(rows, np.arange(len(root)), np.array(root, dtype=np.int32), sets)


def test_a_provider_shares_with_trees_that_are_in_an_aggregate_of_its() -> None:
    """A provider shares with every tree that has a member in one of its aggregates."""
    sharing = found([4], [0, 0, 2, 3, 4], set(), {7}, {8}, {9}, {7, 8})
    assert sharing.rows.tolist() == [4]
    assert sharing.anchors[4].tolist() == [0, 2, 4]
    assert sharing.anchored == {0: (4,), 2: (4,)}


def test_its_own_tree_is_always_an_anchor() -> None:
    """A sharing provider's own tree is always one of its anchors, but is not listed as anchored."""
    sharing = found([0, 2], [0, 1, 1], set(), set(), set())
    assert {row: rows.tolist() for row, rows in sharing.anchors.items()} == {0: [0], 2: [1]}
    assert sharing.anchored == {}


def test_several_share_with_one_tree() -> None:
    """Several providers share with one tree and with each other's trees."""
    sharing = found([1, 2], [0, 1, 2], {5}, {5}, {5, 6})
    assert sharing.anchored == {0: (1, 2), 1: (2,), 2: (1,)}


def test_trees_with_the_same_sharing_providers_have_one_tuple() -> None:
    """Trees with the same sharing providers share one tuple."""
    sharing = found([0, 1], [0, 1, 2, 3, 4], {5}, {6}, {5, 6}, {6, 5}, {6})
    assert sharing.anchored == {2: (0, 1), 3: (0, 1), 4: (1,)}
    assert sharing.anchored[2] is sharing.anchored[3]


def test_children_that_share_are_others_elsewhere_alone() -> None:
    """Sharing children of one tree are listed for other trees only."""
    sharing = found([1, 2, 4], [0, 0, 0, 3, 4], set(), {5}, {5}, {5}, {5})
    assert sharing.anchored == {0: (4,), 3: (1, 2, 4), 4: (1, 2)}


def test_no_provider_shares() -> None:
    """Without sharing providers the result is empty."""
    sharing = found([], [0, 1], {5}, {5})
    assert (sharing.rows.size, sharing.anchors, sharing.anchored) == (0, {}, {})
