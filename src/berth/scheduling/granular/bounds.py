"""Bounds: of many hosts, those that certainly serve all groups, and those that perhaps do.

A few array operations decide most requests. The two answers may differ if groups of different kinds
compete with each other, or if the unsuffixed group competes with one of them.
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
"""The maximum number of kinds of which every subset is tested; with more, the search decides."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The hosts that certainly fit and the hosts that perhaps fit, a superset; (K,) bool each."""

    certain: Mask
    possible: Mask


def bounds_of(request: TreeRequest, providers: ProviderArrays) -> Bounds:
    """Return the rows that certainly and the rows that perhaps have a provider for every group.

    The verdict on a row depends on that row only.
    """
    # On unsettled rows, only a search finds what the unsuffixed group takes from the children.
    certain = ~providers.unsettled
    possible = np.ones(providers.count, dtype=np.bool_)
    for one in _parts(request, providers):
        certain &= one.certain
        possible &= one.possible
    return Bounds(certain, possible)


def _parts(request: TreeRequest, providers: ProviderArrays) -> Iterator[Bounds]:
    if request.needs.isolate and request.groups > 1:
        yield _apart(request.kinds, providers)
        return
    for part in request.parts():
        if len(part) > 1:
            yield _together(part, providers)
        elif part[0].count > 1:
            yield _alike(part[0], providers)
        else:
            yield _alone(part[0], providers)


def _alone(kind: GroupKind, providers: ProviderArrays) -> Bounds:
    """Return the bounds of a group with which no other group competes."""
    below = providers.any_child(providers.children_fit(kind))
    certain = providers.roots_fit(kind, providers.most)
    possible = providers.roots_fit(kind, providers.least) if providers.most else certain
    return Bounds(certain | below, possible | below)


def _alike(kind: GroupKind, providers: ProviderArrays) -> Bounds:
    """Return the bounds of groups of one kind that may share providers."""
    # Each provider serves as many of the equal groups as it can, so the sum is exact.
    below = providers.sum_children(_times(kind, providers.children_fit(kind), providers))
    certain = possible = below + _root_times(kind, [kind], providers, providers.most)
    if providers.most:
        possible = below + _root_times(kind, [kind], providers, providers.least)
    return Bounds(certain >= kind.count, possible >= kind.count)


def _apart(kinds: Sequence[GroupKind], providers: ProviderArrays) -> Bounds:
    """Return the bounds of groups that each need a separate provider.

    By Hall's theorem, all groups find one if and only if, for every set of kinds, there are at
    least as many providers that fit one of the kinds as groups of these kinds.
    """
    # With more kinds, only some sets of them are tested, which does not prove that all groups fit.
    certain = np.full(providers.count, len(kinds) <= KINDS_MAX)
    possible = np.ones(providers.count, dtype=np.bool_)
    children = [providers.children_fit(kind) for kind in kinds]
    roots = [providers.roots_fit(kind, providers.most) for kind in kinds]
    freer = [providers.roots_fit(kind, providers.least) for kind in kinds]
    for chosen in _subsets(len(kinds)):
        asked = sum(kinds[one].count for one in chosen)
        below = providers.count_children(_any_of([children[one] for one in chosen]))
        certain &= below + _any_of([roots[one] for one in chosen]) >= asked
        possible &= below + _any_of([freer[one] for one in chosen]) >= asked
    return Bounds(certain, possible)


def _together(kinds: Sequence[GroupKind], providers: ProviderArrays) -> Bounds:
    """Return the bounds of kinds that compete for a class and may share providers.

    Two necessary conditions are tested. For each kind, all groups that are at least as large must
    fit if they are assumed to be of that kind. For each class, all groups together must not need
    more than the room of the providers. Neither is sufficient, so no row certainly fits.
    """
    possible = np.ones(providers.count, dtype=np.bool_)
    for kind in kinds:
        larger = [one for one in kinds if _is_as_large(one, kind)]
        fits = _any_of([providers.children_fit(one) for one in larger])
        below = providers.sum_children(_times(kind, fits, providers))
        roots = _root_times(kind, larger, providers, providers.least)
        possible &= below + roots >= sum(one.count for one in larger)
    for name in {name for kind in kinds for name in kind.group.amounts}:
        asking = [kind for kind in kinds if name in kind.group.amounts]
        fits = _any_of([providers.children_fit(kind) for kind in asking])
        below = providers.sum_children(np.where(fits, providers.child_room(name), 0))
        on_root = _any_of([providers.roots_fit(kind, providers.least) for kind in asking])
        room = below + np.where(on_root, providers.root_room(name, providers.least), 0)
        possible &= room >= asked_of(name, kinds)
    return Bounds(np.zeros(providers.count, dtype=np.bool_), possible)


def _is_as_large(one: GroupKind, other: GroupKind) -> bool:
    """Return whether a group needs at least as much of every class as another."""
    amounts = one.group.amounts
    return all(amounts.get(name, 0) >= amount for name, amount in other.group.amounts.items())


def _times(kind: GroupKind, fits: Mask, providers: ProviderArrays) -> Ints:
    """Return the number of such groups that fit on each child; 0 for a child that fits none."""
    # A group without amounts fits any number of times, so a value above any count is used.
    times = np.where(fits, np.iinfo(np.int32).max, 0).astype(np.int64)
    for name, amount in kind.group.amounts.items():
        np.minimum(times, providers.child_room(name) // amount, out=times)
    return np.maximum(times, 0)


def _root_times(
    kind: GroupKind, fitting: Sequence[GroupKind], providers: ProviderArrays, taken: dict[str, Ints]
) -> Ints:
    """Return the number of such groups that fit on each root, if it fits one of the kinds."""
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
    """Yield every set of kinds; for more than KINDS_MAX kinds, only single ones and all."""
    if count > KINDS_MAX:
        yield from ((one,) for one in range(count))
        yield tuple(range(count))
        return
    for size in range(1, count + 1):
        yield from combinations(range(count), size)
