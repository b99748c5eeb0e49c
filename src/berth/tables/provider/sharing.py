"""Sharing providers, and the trees that they share with.

A provider with the trait `SHARES` shares its inventory with every tree that has a provider in one
of the same aggregates. As in Placement, the root of such a tree is called an anchor.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Rows
from berth.tables.host.aggregate_sets import AggregateSets

SHARES: Final = "MISC_SHARES_VIA_AGGREGATE"
"""The trait of sharing providers."""

_NO_ROWS: Final[Rows] = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The sharing providers and their anchors.

    Attributes:
        rows: (S,) sharing providers, ascending.
        anchors: by sharing provider, the roots of the trees with which it shares, ascending. The
            root of its own tree is always included.
        anchored: by root, the sharing providers *of other trees*, ascending; roots without any are
            left out.
    """

    rows: Rows
    anchors: Mapping[int, Rows]
    anchored: Mapping[int, tuple[int, ...]]


def sharing_of(rows: Rows, alive: Rows, root: NDArray[np.int32], sets: AggregateSets) -> Sharing:
    """Return the sharing providers and the trees with which they share.

    Args:
        rows: (S,) sharing providers, ascending.
        alive: (P,) all providers, ascending.
        root: (N,) row of the root of each row's tree.
        sets: the aggregates of each row.
    """
    if not rows.size:
        return Sharing(rows, {}, {})
    mine = {row: sets.get(row) for row in rows.tolist()}
    roots = _roots_by_aggregate(frozenset[int]().union(*mine.values()), alive, root, sets)
    # The union is made once per distinct set of aggregates, since thousands of providers may have
    # few distinct sets.
    reached = {one: _union(roots[number] for number in one) for one in set(mine.values())}
    anchors: dict[int, Rows] = {}
    for row, numbers in mine.items():
        anchors[row] = _with(reached[numbers], root.item(row))
    return Sharing(rows, anchors, _anchored(anchors, root))


def _anchored(anchors: Mapping[int, Rows], root: NDArray[np.int32]) -> dict[int, tuple[int, ...]]:
    """Return the sharing providers of other trees by root, given the roots by provider.

    There may be thousands of both. Providers with equal roots share one array and are handled
    together; roots with equal providers get one shared tuple.
    """
    alike: dict[int, list[int]] = {}
    for row, mine in anchors.items():
        alike.setdefault(id(mine), []).append(row)
    groups = list(alike.values())
    sharing = {root.item(row) for row in anchors}
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    anchored: dict[int, tuple[int, ...]] = {}
    for one, numbers in _by_root([anchors[rows[0]] for rows in groups]):
        givers = known.get(numbers)
        if givers is None:
            givers = tuple(sorted(row for number in numbers for row in groups[number]))
            known[numbers] = givers
        if one in sharing:
            givers = tuple(row for row in givers if root.item(row) != one)
        if givers:
            anchored[one] = givers
    return anchored


def _by_root(parts: Sequence[Rows]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each root with the indices of the parts that contain it, both ascending."""
    roots = np.concatenate(parts)
    order = roots.argsort(kind="stable")
    numbers = np.repeat(np.arange(len(parts)), [part.size for part in parts])[order].tolist()
    found, starts = np.unique(roots[order], return_index=True)
    ends = [*starts.tolist()[1:], len(numbers)]
    for one, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield one, tuple(numbers[start:end])


def _roots_by_aggregate(
    wanted: frozenset[int], alive: Rows, root: NDArray[np.int32], sets: AggregateSets
) -> dict[int, Rows]:
    """Return, for each of the aggregates, the roots of the trees that have a provider in it."""
    found: dict[int, list[Rows]] = {number: [] for number in wanted}
    for numbers, rows in sets.grouped(alive):
        for number in numbers & wanted:
            found[number].append(root[rows].astype(np.intp))
    return {number: _union(parts) for number, parts in found.items()}


def _with(rows: Rows, row: int) -> Rows:
    """Return ascending rows plus one row; the same array if it already contains the row."""
    place = int(rows.searchsorted(row))
    return rows if row in rows[place : place + 1] else np.insert(rows, place, row)


def _union(parts: Iterable[Rows]) -> Rows:
    union: Rows = np.unique(np.concatenate([_NO_ROWS, *parts]))
    return union
