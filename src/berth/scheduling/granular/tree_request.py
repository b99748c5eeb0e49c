"""Asks: what a request wants of the providers of one tree, made ready for the search."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from berth.domain.compute.needs import Needs
from berth.domain.inventory.resource_group import ResourceGroup

Wants = tuple[tuple[int, int], ...]
"""(index into the classes of the ask, amount in the unit of the class) pairs."""


@dataclass(frozen=True, slots=True)
class GroupKind:
    """Groups that are alike in all but their suffix; `wants` is what one of them asks for."""

    group: ResourceGroup
    suffixes: tuple[str, ...]
    wants: Wants

    @property
    def count(self) -> int:
        """How many such groups there are."""
        return len(self.suffixes)


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """What one instance wants of a tree.

    `kinds` come in the order to place them in. `unsuffixed` is what the unsuffixed group wants;
    `shared` are the indices of classes that it and some other group both ask for. `traits` are
    the names of all traits that play a part.
    """

    needs: Needs
    classes: tuple[str, ...]
    kinds: tuple[GroupKind, ...]
    unsuffixed: Wants
    shared: frozenset[int]
    traits: frozenset[str]

    @property
    def groups(self) -> int:
        """How many groups with a suffix there are."""
        return len(self.needs.groups)

    def parts(self) -> list[list[GroupKind]]:
        """Return the kinds, those together that ask for a class in common."""
        parts: list[list[GroupKind]] = []
        for kind in self.kinds:
            met = [part for part in parts if any(_meet(kind, other) for other in part)]
            parts = [part for part in parts if part not in met]
            parts.append([*chain.from_iterable(met), kind])
        return parts


def tree_request_of(needs: Needs) -> TreeRequest:
    """Sort out what an instance needs."""
    asked = {name for group in needs.groups for name in group.amounts}
    classes = tuple(sorted(asked | needs.amounts.keys()))
    places = {name: place for place, name in enumerate(classes)}
    kinds = [
        GroupKind(group, suffixes, _wants(group.amounts, places))
        for group, suffixes in _alike(needs.groups)
    ]
    kinds.sort(key=_order)
    return TreeRequest(
        needs=needs,
        classes=classes,
        kinds=tuple(kinds),
        unsuffixed=_wants(needs.amounts, places),
        shared=frozenset(places[name] for name in asked & needs.amounts.keys()),
        traits=_traits(needs),
    )


def _wants(amounts: Mapping[str, int], places: Mapping[str, int]) -> Wants:
    return tuple(sorted((places[name], amount) for name, amount in amounts.items()))


def _alike(groups: Iterable[ResourceGroup]) -> list[tuple[ResourceGroup, tuple[str, ...]]]:
    found: dict[object, tuple[ResourceGroup, list[str]]] = {}
    for group in groups:
        amounts = frozenset(group.amounts.items())
        key = (amounts, group.traits_required, group.traits_forbidden)
        found.setdefault(key, (group, []))[1].append(group.suffix)
    return [(group, tuple(suffixes)) for group, suffixes in found.values()]


def _order(kind: GroupKind) -> tuple[int, int, Sequence[tuple[int, int]], tuple[str, ...]]:
    """Order kinds: those with traits first, as fewer providers will do, then the largest."""
    group = kind.group
    traits = len(group.traits_required) + len(group.traits_forbidden)
    largest = [(place, -amount) for place, amount in kind.wants]
    return -traits, -len(kind.wants), largest, kind.suffixes


def _traits(needs: Needs) -> frozenset[str]:
    groups = needs.groups
    return frozenset[str]().union(
        needs.traits_required,
        needs.traits_forbidden,
        *needs.traits_any,
        *(group.traits_required for group in groups),
        *(group.traits_forbidden for group in groups),
    )


def _meet(one: GroupKind, other: GroupKind) -> bool:
    return not one.group.amounts.keys().isdisjoint(other.group.amounts)
