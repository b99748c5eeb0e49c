"""The demand of one instance on the providers of a tree, prepared for bounds and search."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from berth.domain.compute.needs import Needs
from berth.domain.inventory.resource_group import ResourceGroup

Wants = tuple[tuple[int, int], ...]
"""(index of a class in the request, amount in the unit of the class) pairs."""


@dataclass(frozen=True, slots=True)
class GroupKind:
    """Groups that differ only in their suffix; `wants` is the demand of each of them."""

    group: ResourceGroup
    suffixes: tuple[str, ...]
    wants: Wants

    @property
    def count(self) -> int:
        """The number of such groups."""
        return len(self.suffixes)


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """The demand of one instance on a tree.

    `classes` are the names of all requested classes, sorted; demands refer to them by index.
    `kinds` are in the order in which they are placed. `unsuffixed` is the demand of the unsuffixed
    group, and `shared` are the indices of the classes that it has in common with suffixed groups.
    `traits` are the names of all traits that the request requires or forbids.
    """

    needs: Needs
    classes: tuple[str, ...]
    kinds: tuple[GroupKind, ...]
    unsuffixed: Wants
    shared: frozenset[int]
    traits: frozenset[str]

    @property
    def groups(self) -> int:
        """The number of suffixed groups of all kinds."""
        return len(self.needs.groups)

    def parts(self) -> list[list[GroupKind]]:
        """Return the kinds in lists; kinds with a class in common are in the same list."""
        parts: list[list[GroupKind]] = []
        for kind in self.kinds:
            # Kinds without a common class do not compete, so each part can be decided separately.
            met = [part for part in parts if any(_meet(kind, other) for other in part)]
            parts = [part for part in parts if part not in met]
            parts.append([*chain.from_iterable(met), kind])
        return parts


def tree_request_of(needs: Needs) -> TreeRequest:
    """Return the prepared demand of an instance."""
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
    """Return the sort key of a kind: most traits first, then most classes, then the largest."""
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
