"""A tree of real zones, which the tests share and which is repaired before each."""

from collections.abc import Generator

import pytest

from tests.e2e.zones.faulty_tree import FaultyTree, faulty_tree, zone

WEST, DEEP, EAST, ROOT = 12, 6, 12, 6
ABOVE = 200.0
"""A weight offset that ranks a zone's offers above others, so tests know the build's target."""


@pytest.fixture(scope="module")
def running_tree(tmp_path_factory: pytest.TempPathFactory) -> Generator[FaultyTree]:
    """Yield a root with west and east below it, and deep below west.

    Requests are placed in this order of preference: west, deep, east, root.
    """
    deep = zone("deep", DEEP, offset=-ABOVE / 4)
    west = zone("west", WEST, deep, offset=ABOVE)
    east = zone("east", EAST, offset=ABOVE / 2)
    spec = zone("root", ROOT, west, east)
    with faulty_tree(spec, tmp_path_factory.mktemp("zones")) as tree:
        yield tree


@pytest.fixture
def tree(running_tree: FaultyTree) -> FaultyTree:
    """Return the tree, repaired and without servers."""
    running_tree.mend()
    running_tree.clear()
    return running_tree


@pytest.fixture
def hasty_tree(tree: FaultyTree) -> Generator[FaultyTree]:
    """Yield the tree with a root that gives up early when a child does not settle a build."""
    with tree.hasty_root():
        yield tree
        tree.mend()
