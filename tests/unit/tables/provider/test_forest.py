"""The forest: providers of a tree together."""

import numpy as np

from berth.tables.provider.lineage import forest_of


def test_members_of_a_tree_stand_together() -> None:
    """In ascending order, whatever rows they have; unused rows are in no tree."""
    root = np.array([3, 1, -1, 3, 1, 3, 6], dtype=np.int32)
    forest = forest_of(root >= 0, root)
    assert forest.tree(3).tolist() == [0, 3, 5]
    assert forest.tree(1).tolist() == [1, 4]
    assert forest.tree(6).tolist() == [6]
    assert forest.sizes.tolist() == [0, 2, 0, 3, 0, 0, 1]
    assert sorted(forest.members.tolist()) == [0, 1, 3, 4, 5, 6]


def test_a_row_that_is_no_root_has_no_tree() -> None:
    """Nor has an unused one."""
    root = np.array([1, 1, -1], dtype=np.int32)
    forest = forest_of(root >= 0, root)
    assert forest.tree(0).size == 0
    assert forest.tree(2).size == 0


def test_no_providers_make_no_trees() -> None:
    """As in a new table."""
    forest = forest_of(np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int32))
    assert forest.members.size == forest.starts.size == forest.sizes.size == 0
