"""The exact search for providers of one tree that serve all groups.

The unsuffixed group comes first, one class at a time, from the root if possible. Then come the
suffixed groups, in the order of the request's kinds. Each is served by the provider with the
smallest remainder, so that unused devices stay whole. If that fails, the other arrangements are
tried, up to a step limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.scheduling.granular.tree_request import GroupKind, TreeRequest, Wants

STEPS_MAX: Final = 2_000
"""The number of placements that are tried on one tree before the search gives up."""

ROOT: Final = 0
"""The index of the root among the providers."""


class ClassCapacity(NamedTuple):
    """The capacity of one class on a provider, in the unit of the class; `free` may be negative."""

    free: int
    unit_max: int
    min_unit: int
    step_size: int

    def allows(self, amount: int) -> bool:
        """Return whether one group may take an amount."""
        return self.min_unit <= amount <= self.unit_max and amount % self.step_size == 0


class ProviderView(NamedTuple):
    """A provider, reduced to what the search needs.

    `offers` has one entry per class of the request, None for a class that the provider lacks;
    `traits` are the request's traits that it has. Views are hashable, so equal hosts can share a
    result.
    """

    offers: tuple[ClassCapacity | None, ...]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The indices of the providers that serve a request, by unsuffixed class and by suffix."""

    unsuffixed: Mapping[str, int]
    groups: Mapping[str, int]


def search(request: TreeRequest, views: Sequence[ProviderView]) -> GroupAssignment | None:
    """Return providers for all groups of a request, or None if the search found none.

    A class or trait of the unsuffixed group that no provider of the tree has is ignored, because
    the filters for resources and traits remove such hosts.

    Args:
        request: the request.
        views: the providers of one tree, the root first.
    """
    return _Search(request, views).run()


class _Search:
    """The state of one search: the rest of each provider while groups are placed."""

    def __init__(self, request: TreeRequest, views: Sequence[ProviderView]) -> None:
        self._request = request
        self._views = views
        self._left = [
            [0 if offer is None else min(offer.free, offer.unit_max) for offer in provider.offers]
            for provider in views
        ]
        self._required, self._any = self._traits_to_find()
        self._unsuffixed: dict[int, int] = {}
        self._items = [kind for kind in request.kinds for _ in kind.suffixes]
        self._able = {id(kind): self._able_of(kind) for kind in request.kinds}
        self._chosen: list[int] = []
        self._dead: set[object] = set()
        self._steps = 0

    def run(self) -> GroupAssignment | None:
        """Return the first assignment in which all groups fit.

        The result is None if there is none within the step limit.
        """
        for _ in self._spread(self._request.unsuffixed):
            chosen = self._place_groups()
            if chosen is not None:
                classes = self._request.classes
                suffixes = (suffix for kind in self._request.kinds for suffix in kind.suffixes)
                return GroupAssignment(
                    {classes[place]: provider for place, provider in self._unsuffixed.items()},
                    dict(zip(suffixes, chosen, strict=True)),
                )
            if self._steps >= STEPS_MAX:
                break
        return None

    # ---- the unsuffixed group -----------------------------------------------------------------

    def _traits_to_find(self) -> tuple[frozenset[str], list[frozenset[str]]]:
        """Return the required traits and the any-of sets that the root lacks and a child has."""
        needs, root = self._request.needs, self._views[ROOT].traits
        if needs.traits_required <= root and all(one & root for one in needs.traits_any):
            return frozenset(), []
        below = frozenset[str]().union(*(provider.traits for provider in self._views))
        choices = [one for one in needs.traits_any if one & below and not one & root]
        return (needs.traits_required & below) - root, choices

    def _spread(self, wants: Wants) -> Iterator[None]:
        """Yield once for each way to serve these classes that satisfies the traits."""
        if not wants:
            if self._has_traits():
                yield
            return
        place, amount = wants[0]
        options = self._options(place, amount)
        if options is None:
            yield from self._spread(wants[1:])
            return
        for provider in options:
            self._left[provider][place] -= amount
            self._unsuffixed[place] = provider
            yield from self._spread(wants[1:])
            self._left[provider][place] += amount
            del self._unsuffixed[place]
            self._steps += 1
            if self._steps >= STEPS_MAX:
                return

    def _options(self, place: int, amount: int) -> Sequence[int] | None:
        """Return the providers for a class: the root, then the best fits; None to ignore the class.

        If the choice cannot affect anything else, only the first is returned. A forbidden trait of
        the root is not considered, because the filter for traits removes such hosts.
        """
        # Without competition, every further option would only repeat the same search.
        matters = place in self._request.shared or self._required or self._any
        if not matters and self._can_supply(ROOT, place, amount):
            return (ROOT,)
        able = [n for n in range(len(self._views)) if self._can_supply(n, place, amount)]
        if not able:
            return None
        forbidden = self._request.needs.traits_forbidden
        may = [n for n in able if n == ROOT or forbidden.isdisjoint(self._views[n].traits)]
        may.sort(key=lambda number: (number != ROOT, self._left[number][place]))
        return may if matters else may[:1]

    def _can_supply(self, number: int, place: int, amount: int) -> bool:
        offer = self._views[number].offers[place]
        return offer is not None and self._left[number][place] >= amount and offer.allows(amount)

    def _has_traits(self) -> bool:
        """Return whether the unsuffixed group's providers have the traits that the root lacks."""
        if not self._required and not self._any:
            return True
        views = self._unsuffixed.values()
        traits = frozenset[str]().union(*(self._views[provider].traits for provider in views))
        return self._required <= traits and all(one & traits for one in self._any)

    # ---- groups with a suffix -----------------------------------------------------------------

    def _place_groups(self) -> Sequence[int] | None:
        """Return the provider of each group, or None if the groups do not fit."""
        if self._request.needs.isolate:
            return self._match()
        self._chosen = []
        if self._pack():
            return self._chosen
        # If packing runs out of steps, a provider for each group on its own may still be found.
        return self._match() if self._steps >= STEPS_MAX else None

    def _able_of(self, kind: GroupKind) -> list[int]:
        """Return the providers that could serve one group of a kind and nothing else."""
        group, views = kind.group, self._views
        able = list(range(len(views)))
        for place, amount in kind.wants:
            able = [
                number
                for number in able
                if (offer := views[number].offers[place]) is not None and offer.allows(amount)
            ]
        return [
            number
            for number in able
            if group.traits_required <= views[number].traits
            and group.traits_forbidden.isdisjoint(views[number].traits)
        ]

    def _best_first(self, kind: GroupKind) -> list[int]:
        """Return the providers with room for one group of a kind, smallest remainder first."""
        able, left = self._able[id(kind)], self._left
        for place, amount in kind.wants:
            able = [number for number in able if left[number][place] >= amount]
        return sorted(able, key=lambda number: self._remainder(number, kind.wants))

    def _remainder(self, number: int, wants: Wants) -> float:
        """Return the provider's free capacity divided by the amounts, summed over classes."""
        left, offers = self._left[number], self._views[number].offers
        remainder = 0.0
        for place, amount in wants:
            offer = offers[place]
            if offer is not None:
                beyond = offer.free - offer.unit_max
                free = left[place] + beyond if beyond > 0 else left[place]
                remainder += free / amount
        return remainder

    def _match(self) -> Sequence[int] | None:
        """Return a different provider for each group, by Kuhn's algorithm; None if impossible."""
        wanted = {id(kind): self._best_first(kind) for kind in self._request.kinds}
        given: dict[int, int] = {}
        for item in range(len(self._items)):
            if not self._augment(item, wanted, given, set()):
                return None
        chosen = {item: provider for provider, item in given.items()}
        return [chosen[item] for item in range(len(self._items))]

    def _augment(
        self, item: int, wanted: Mapping[int, Sequence[int]], given: dict[int, int], seen: set[int]
    ) -> bool:
        """Assign a group a provider, moving others if needed; return whether that succeeded."""
        mine = wanted[id(self._items[item])]
        # Unused providers are tried first, because they need no recursion.
        free = next((provider for provider in mine if provider not in given), None)
        if free is not None:
            given[free] = item
            return True
        for provider in mine:
            if provider in seen:
                continue
            seen.add(provider)
            if self._augment(given[provider], wanted, given, seen):
                given[provider] = item
                return True
        return False

    def _pack(self) -> bool:
        """Place the remaining groups, which may share providers; return whether all of them fit."""
        number = len(self._chosen)
        if number == len(self._items):
            return True
        if self._steps >= STEPS_MAX or (self._dead and self._state() in self._dead):
            return False
        self._steps += 1
        kind = self._items[number]
        tried: set[object] = set()
        for provider in self._best_first(kind):
            # A provider in the same state as one that failed would fail as well.
            if tried and self._look(provider) in tried:
                continue
            self._take(provider, kind.wants, 1)
            self._chosen.append(provider)
            if self._pack():
                return True
            self._chosen.pop()
            self._take(provider, kind.wants, -1)
            tried.add(self._look(provider))
        self._dead.add(self._state())
        return False

    def _take(self, provider: int, wants: Wants, sign: int) -> None:
        left = self._left[provider]
        for place, amount in wants:
            left[place] -= sign * amount

    def _look(self, provider: int) -> tuple[tuple[bool, ...], tuple[int, ...]]:
        """Return the part of a provider's state that matters to groups still to be placed."""
        able = tuple(provider in self._able[id(kind)] for kind in self._request.kinds)
        return able, tuple(self._left[provider])

    def _state(self) -> tuple[int, tuple[object, ...]]:
        """Return the number of placed groups and the sorted states of all providers."""
        # The states are sorted, because equal providers are interchangeable.
        looks = sorted(self._look(provider) for provider in range(len(self._views)))
        return len(self._chosen), tuple(looks)
