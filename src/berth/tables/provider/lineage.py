"""The trees of providers: parents, roots and descendants of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.columnar.column_set import grown

NO_ROW: Final = -1
"""The value of `parent` for a root, and of `parent` and `root` for a row in no tree."""


class Lineage:
    """Trees of rows, in which a row moves together with its descendants.

    Attributes:
        parent: row of the parent, or `NO_ROW`.
        root: row of the root of the tree (a root's own row), or `NO_ROW` for rows in no tree.
    """

    def __init__(self) -> None:
        self.parent: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self.root: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._children: dict[int, set[int]] = {}

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows are in no tree."""
        before = self.parent.size
        self.parent, self.root = grown(self.parent, rows), grown(self.root, rows)
        self.parent[before:] = self.root[before:] = NO_ROW

    def children_of(self, row: int) -> tuple[int, ...]:
        """Return the children of a row, ascending."""
        return tuple(sorted(self._children.get(row, ())))

    def subtree(self, top: int) -> Iterator[int]:
        """Yield a row and its descendants, parents first; the trees must not change meanwhile."""
        waiting = [top]
        while waiting:
            row = waiting.pop()
            yield row
            waiting.extend(self._children.get(row, ()))

    def is_within(self, row: int, top: int) -> bool:
        """Return whether a row is `top` or a descendant of it; False for `NO_ROW`."""
        while row not in (NO_ROW, top):
            row = self.parent.item(row)
        return row == top

    def attach(self, row: int, parent: int) -> None:
        """Move a row under a parent that is not its descendant, or make it a root (`NO_ROW`)."""
        self._remove_from_parent(row)
        self.parent[row] = parent
        root = row
        if parent != NO_ROW:
            self._children.setdefault(parent, set()).add(row)
            root = self.root.item(parent)
        for one in self.subtree(row):
            self.root[one] = root

    def detach(self, top: int) -> list[int]:
        """Remove a row and its descendants from their tree, and return them, parents first."""
        rows = list(self.subtree(top))
        self._remove_from_parent(top)
        self.parent[rows] = self.root[rows] = NO_ROW
        for row in rows:
            self._children.pop(row, None)
        return rows

    def _remove_from_parent(self, row: int) -> None:
        parent = self.parent.item(row)
        if parent != NO_ROW:
            siblings = self._children[parent]
            siblings.discard(row)
            if not siblings:
                del self._children[parent]


@dataclass(frozen=True, slots=True)
class Forest:
    """The providers of each tree, contiguous and in ascending order.

    Attributes:
        members: (P,) rows of all P providers.
        starts: (N,) by the row of a root, the index in `members` where its tree begins; 0 for other
            rows.
        sizes: (N,) by the row of a root, the number of providers in its tree; 0 for other rows.
    """

    members: Rows
    starts: Rows
    sizes: Rows

    def tree(self, root: int) -> Rows:
        """Return the rows of the tree with the given root; empty for a row that is not a root."""
        start = self.starts.item(root)
        return self.members[start : start + self.sizes.item(root)]


def forest_of(alive: Mask, root: NDArray[np.int32]) -> Forest:
    """Return the providers grouped by tree.

    Args:
        alive: (N,) bool, rows that hold a provider.
        root: (N,) row of the root of each row's tree.
    """
    rows = np.flatnonzero(alive)
    roots = root[rows]
    order = roots.argsort(kind="stable")
    sizes = np.bincount(roots, minlength=alive.size).astype(np.intp)
    starts = np.where(sizes > 0, sizes.cumsum() - sizes, 0)
    return Forest(rows[order], starts, sizes)
