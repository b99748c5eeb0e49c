"""One tree of real zones for all tests that break it, mended before each."""

from collections.abc import Generator

import pytest

from tests.e2e.zones.faulty_tree import FaultyTree, faulty_tree, zone

WEST, DEEP, EAST, ROOT = 12, 6, 12, 6
ABOVE = 200.0
"""Puts a child's offers before all others, so that a test knows who is asked to build."""


@pytest.fixture(scope="module")
def running_tree(tmp_path_factory: pytest.TempPathFactory) -> Generator[FaultyTree]:
    """A root with west and east below it, and deep below west.

    Their places are liked in this order: west, deep, east, root.
    """
    deep = zone("deep", DEEP, offset=-ABOVE / 4)
    west = zone("west", WEST, deep, offset=ABOVE)
    east = zone("east", EAST, offset=ABOVE / 2)
    spec = zone("root", ROOT, west, east)
    with faulty_tree(spec, tmp_path_factory.mktemp("zones")) as tree:
        yield tree


@pytest.fixture
def tree(running_tree: FaultyTree) -> FaultyTree:
    """The tree, whole and without servers, whatever a test before has done to it."""
    running_tree.mend()
    running_tree.clear()
    return running_tree


@pytest.fixture
def hasty_tree(tree: FaultyTree) -> Generator[FaultyTree]:
    """The tree with a root that gives up soon when a child does not say what came of a build."""
    with tree.hasty_root():
        yield tree
        tree.mend()
