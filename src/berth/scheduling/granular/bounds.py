"""Bounds: which hosts surely give all groups, and which perhaps do, for all rows at once.

Most requests are settled here, with a few operations on arrays: the two answers are the same
unless groups of different kinds compete for a class, or the unsuffixed group for one of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from berth.scheduling.granular.provider_arrays import ProviderArrays, asked_of
from berth.scheduling.granular.tree_request import GroupKind, TreeRequest
from berth.tables.columnar.bitsets import Mask
from berth.tables.columnar.class_columns import Ints

KINDS_MAX: Final = 4
"""Kinds of which every combination is counted; of more, the search settles."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """(K,) bool each. A host that is surely one is perhaps one too."""

    surely: Mask
    perhaps: Mask


def bounds_of(ask: TreeRequest, providers: ProviderArrays) -> Bounds:
    """Tell which rows surely, and which perhaps, have a provider for every group.

    A verdict on a row rests on that row alone.
    """
    surely = ~providers.unsettled
    perhaps = np.ones(providers.count, dtype=np.bool_)
    for one in _parts(ask, providers):
        surely &= one.surely
        perhaps &= one.perhaps
    return Bounds(surely, perhaps)


def _parts(ask: TreeRequest, providers: ProviderArrays) -> Iterator[Bounds]:
    if ask.needs.isolate and ask.groups > 1:
        yield _apart(ask.kinds, providers)
        return
    for part in ask.parts():
        if len(part) > 1:
            yield _together(part, providers)
        elif part[0].count > 1:
            yield _alike(part[0], providers)
        else:
            yield _alone(part[0], providers)


def _alone(kind: GroupKind, providers: ProviderArrays) -> Bounds:
    """Bound a group that no other competes with."""
    below = providers.any_child(providers.children_fit(kind))
    surely = providers.roots_fit(kind, providers.most)
    perhaps = providers.roots_fit(kind, providers.least) if providers.most else surely
    return Bounds(surely | below, perhaps | below)


def _alike(kind: GroupKind, providers: ProviderArrays) -> Bounds:
    """Bound groups of one kind that may share providers: each gives as often as it can."""
    below = providers.sum_children(_times(kind, providers.children_fit(kind), providers))
    surely = perhaps = below + _root_times(kind, [kind], providers, providers.most)
    if providers.most:
        perhaps = below + _root_times(kind, [kind], providers, providers.least)
    return Bounds(surely >= kind.count, perhaps >= kind.count)


def _apart(kinds: Sequence[GroupKind], providers: ProviderArrays) -> Bounds:
    """Bound groups of which each has a provider of its own.

    By Hall's theorem they all find one exactly when, for every set of kinds, as many providers
    fit one of them as there are groups of these kinds.
    """
    surely = np.full(providers.count, len(kinds) <= KINDS_MAX)
    perhaps = np.ones(providers.count, dtype=np.bool_)
    children = [providers.children_fit(kind) for kind in kinds]
    roots = [providers.roots_fit(kind, providers.most) for kind in kinds]
    freer = [providers.roots_fit(kind, providers.least) for kind in kinds]
    for chosen in _subsets(len(kinds)):
        asked = sum(kinds[one].count for one in chosen)
        below = providers.count_children(_any_of([children[one] for one in chosen]))
        surely &= below + _any_of([roots[one] for one in chosen]) >= asked
        perhaps &= below + _any_of([freer[one] for one in chosen]) >= asked
    return Bounds(surely, perhaps)


def _together(kinds: Sequence[GroupKind], providers: ProviderArrays) -> Bounds:
    """Bound kinds that compete for a class and may share providers.

    Groups at least as large as some kind find no more room than that kind would, and all
    together they find no more than there is. Whether that is enough is left open.
    """
    perhaps = np.ones(providers.count, dtype=np.bool_)
    for kind in kinds:
        larger = [one for one in kinds if _is_as_large(one, kind)]
        fits = _any_of([providers.children_fit(one) for one in larger])
        below = providers.sum_children(_times(kind, fits, providers))
        roots = _root_times(kind, larger, providers, providers.least)
        perhaps &= below + roots >= sum(one.count for one in larger)
    for name in {name for kind in kinds for name in kind.group.amounts}:
        asking = [kind for kind in kinds if name in kind.group.amounts]
        fits = _any_of([providers.children_fit(kind) for kind in asking])
        below = providers.sum_children(np.where(fits, providers.child_room(name), 0))
        on_root = _any_of([providers.roots_fit(kind, providers.least) for kind in asking])
        room = below + np.where(on_root, providers.root_room(name, providers.least), 0)
        perhaps &= room >= asked_of(name, kinds)
    return Bounds(np.zeros(providers.count, dtype=np.bool_), perhaps)


def _is_as_large(one: GroupKind, other: GroupKind) -> bool:
    """Tell whether a group asks for as much of every class that the other asks for."""
    amounts = one.group.amounts
    return all(amounts.get(name, 0) >= amount for name, amount in other.group.amounts.items())


def _times(kind: GroupKind, fits: Mask, providers: ProviderArrays) -> Ints:
    """Tell how many such groups the room of each child comes to, 0 for one that does not fit."""
    times = np.where(fits, np.iinfo(np.int32).max, 0).astype(np.int64)
    for name, amount in kind.group.amounts.items():
        np.minimum(times, providers.child_room(name) // amount, out=times)
    return np.maximum(times, 0)


def _root_times(
    kind: GroupKind, fitting: Sequence[GroupKind], providers: ProviderArrays, taken: dict[str, Ints]
) -> Ints:
    """Tell how many such groups the room of each root that fits one of the kinds comes to."""
    fits = _any_of([providers.roots_fit(one, taken) for one in fitting])
    times = np.where(fits, np.iinfo(np.int32).max, 0).astype(np.int64)
    for name, amount in kind.group.amounts.items():
        np.minimum(times, providers.root_room(name, taken) // amount, out=times)
    return np.maximum(times, 0)


def _any_of(masks: Sequence[Mask]) -> Mask:
    found = masks[0]
    for mask in masks[1:]:
        found = found | mask
    return found


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield every set of kinds; of too many only those of one, and all."""
    if count > KINDS_MAX:
        yield from ((one,) for one in range(count))
        yield tuple(range(count))
        return
    for size in range(1, count + 1):
        yield from combinations(range(count), size)
