"""Tests for the trees of rows."""

import numpy as np

from berth.tables.provider.lineage import NO_ROW, Lineage, forest_of


def lineage_of(*parents: int) -> Lineage:
    """Return a lineage of rows with the given parents, `NO_ROW` for roots; parents come first."""
    lineage = Lineage()
    lineage.resize(len(parents))
    for row, parent in enumerate(parents):
        lineage.attach(row, parent)
    return lineage


def test_a_deep_subtree_moves_as_one() -> None:
    """When a subtree moves or becomes a tree, the root of every row in it changes."""
    deep = 300
    lineage = lineage_of(NO_ROW, NO_ROW, 0, *range(2, deep - 1))
    assert lineage.root[2:].tolist() == [0] * (deep - 2)
    lineage.attach(100, 1)
    assert lineage.root[2:100].tolist() == [0] * 98
    assert lineage.root[100:].tolist() == [1] * (deep - 100)
    lineage.attach(200, NO_ROW)
    assert lineage.root[100:200].tolist() == [1] * 100
    assert lineage.root[200:].tolist() == [200] * (deep - 200)
    lineage.attach(0, deep - 1)
    assert lineage.root[:100].tolist() == [200, 1, *([200] * 98)]


def test_children_are_those_right_below() -> None:
    """The children of a row are those directly below it, in ascending order."""
    lineage = lineage_of(NO_ROW, 0, 1, 0)
    assert [lineage.children_of(row) for row in range(4)] == [(1, 3), (2,), (), ()]
    lineage.attach(1, 3)
    assert [lineage.children_of(row) for row in range(4)] == [(3,), (2,), (), (1,)]


def test_who_is_within_whose_tree() -> None:
    """A row is within its own tree and within those of its ancestors only."""
    lineage = lineage_of(NO_ROW, 0, 1, 0)
    assert [lineage.is_within(row, 1) for row in range(4)] == [False, True, True, False]
    assert not lineage.is_within(NO_ROW, 0)


def test_a_tree_is_detached_as_a_whole() -> None:
    """Detaching a subtree returns its rows parents first and keeps the ancestors."""
    lineage = lineage_of(NO_ROW, 0, 1, 2, 0)
    assert lineage.detach(1) == [1, 2, 3]
    assert lineage.root.tolist() == [0, NO_ROW, NO_ROW, NO_ROW, 0]
    assert lineage.parent.tolist() == [NO_ROW, NO_ROW, NO_ROW, NO_ROW, 0]
    assert lineage.children_of(0) == (4,)
    lineage.attach(2, NO_ROW)
    assert lineage.children_of(2) == ()


def test_members_of_a_tree_stand_together() -> None:
    """The members of a tree are adjacent and ascending; unused rows are in no tree."""
    root = np.array([3, 1, -1, 3, 1, 3, 6], dtype=np.int32)
    forest = forest_of(root >= 0, root)
    assert forest.tree(3).tolist() == [0, 3, 5]
    assert forest.tree(1).tolist() == [1, 4]
    assert forest.tree(6).tolist() == [6]
    assert forest.sizes.tolist() == [0, 2, 0, 3, 0, 0, 1]
    assert sorted(forest.members.tolist()) == [0, 1, 3, 4, 5, 6]


def test_a_row_that_is_no_root_has_no_tree() -> None:
    """A row that is not a root, or is unused, has no tree."""
    root = np.array([1, 1, -1], dtype=np.int32)
    forest = forest_of(root >= 0, root)
    assert forest.tree(0).size == 0
    assert forest.tree(2).size == 0


def test_no_providers_make_no_trees() -> None:
    """A forest without providers is empty."""
    forest = forest_of(np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int32))
    assert forest.members.size == forest.starts.size == forest.sizes.size == 0
