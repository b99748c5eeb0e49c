"""The forest: which providers make a tree, as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Mask, Rows


@dataclass(frozen=True, slots=True)
class Forest:
    """The providers of each tree, those of one tree together and in ascending order.

    Attributes:
        members: (P,) rows of all P providers.
        starts: (N,) by the row of a root, where its tree begins in `members`; 0 for other rows.
        sizes: (N,) by the row of a root, how many providers its tree has; 0 for other rows.
    """

    members: Rows
    starts: Rows
    sizes: Rows

    def tree(self, root: int) -> Rows:
        """Return the rows of a tree, by the row of its root; of any other row none."""
        start = self.starts.item(root)
        return self.members[start : start + self.sizes.item(root)]


def forest_of(alive: Mask, root: NDArray[np.int32]) -> Forest:
    """Put the providers of each tree together.

    Args:
        alive: (N,) bool, rows that hold a provider.
        root: (N,) row of the root of the tree that a row is in.
    """
    rows = np.flatnonzero(alive)
    roots = root[rows]
    order = roots.argsort(kind="stable")
    sizes = np.bincount(roots, minlength=alive.size).astype(np.intp)
    starts = np.where(sizes > 0, sizes.cumsum() - sizes, 0)
    return Forest(rows[order], starts, sizes)
