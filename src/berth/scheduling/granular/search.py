"""The search: which provider of one tree gives which group, found exactly.

The unsuffixed group comes first, a class at a time: the root gives it if it can. Then the groups
with a suffix, largest first, each from the provider that it leaves with the least, so that whole
devices stay whole. When that comes to nothing, other ways are tried: all of them, up to a limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.scheduling.granular.tree_request import GroupKind, TreeRequest, Wants

STEPS_MAX: Final = 2_000
"""Ways to place one more group that are tried on one tree before the search gives up."""

ROOT: Final = 0
"""The place of the root among the givers."""


class ClassCapacity(NamedTuple):
    """What a provider has of one class, in its unit; `free` may be below 0."""

    free: int
    unit_max: int
    min_unit: int
    step_size: int

    def allows(self, amount: int) -> bool:
        """Tell whether one group may ask for that amount."""
        return self.min_unit <= amount <= self.unit_max and amount % self.step_size == 0


class ProviderView(NamedTuple):
    """A provider as the search sees it.

    `offers` has one entry a class of the ask, None for a class that it does not have; `traits`
    are those of the ask that it has.
    """

    offers: tuple[ClassCapacity | None, ...]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """Who gives what: places of givers by class of the unsuffixed group, and by suffix."""

    unsuffixed: Mapping[str, int]
    groups: Mapping[str, int]


def search(ask: TreeRequest, givers: Sequence[ProviderView]) -> GroupAssignment | None:
    """Find providers for all groups of an ask; None when there are none, or none were found.

    What no provider of the tree could give or has by itself of the unsuffixed group (a class, a
    trait) is left out: the filters of resources and of traits refuse that.

    Args:
        ask: what is wanted.
        givers: the providers of one tree, its root first.
    """
    return _Search(ask, givers).run()


class _Search:
    """The state of one search: what each giver has left while groups are placed on it."""

    def __init__(self, ask: TreeRequest, givers: Sequence[ProviderView]) -> None:
        self._ask = ask
        self._givers = givers
        self._left = [
            [0 if offer is None else min(offer.free, offer.unit_max) for offer in giver.offers]
            for giver in givers
        ]
        self._required, self._any = self._traits_to_find()
        self._unsuffixed: dict[int, int] = {}
        self._items = [kind for kind in ask.kinds for _ in kind.suffixes]
        self._able = {id(kind): self._able_of(kind) for kind in ask.kinds}
        self._chosen: list[int] = []
        self._dead: set[object] = set()
        self._steps = 0

    def run(self) -> GroupAssignment | None:
        """Go through the ways to give the unsuffixed group until one leaves room for the rest."""
        for _ in self._spread(self._ask.unsuffixed):
            chosen = self._place_groups()
            if chosen is not None:
                classes = self._ask.classes
                suffixes = (suffix for kind in self._ask.kinds for suffix in kind.suffixes)
                return GroupAssignment(
                    {classes[place]: giver for place, giver in self._unsuffixed.items()},
                    dict(zip(suffixes, chosen, strict=True)),
                )
            if self._steps >= STEPS_MAX:
                break
        return None

    # ---- the unsuffixed group -----------------------------------------------------------------

    def _traits_to_find(self) -> tuple[frozenset[str], list[frozenset[str]]]:
        """Return what the root lacks of the unsuffixed group's traits and some child has."""
        needs, root = self._ask.needs, self._givers[ROOT].traits
        if needs.traits_required <= root and all(one & root for one in needs.traits_any):
            return frozenset(), []
        below = frozenset[str]().union(*(giver.traits for giver in self._givers))
        choices = [one for one in needs.traits_any if one & below and not one & root]
        return (needs.traits_required & below) - root, choices

    def _spread(self, wants: Wants) -> Iterator[None]:
        """Yield once for each way to give these classes that meets the traits."""
        if not wants:
            if self._has_traits():
                yield
            return
        place, amount = wants[0]
        options = self._options(place, amount)
        if options is None:
            yield from self._spread(wants[1:])
            return
        for giver in options:
            self._left[giver][place] -= amount
            self._unsuffixed[place] = giver
            yield from self._spread(wants[1:])
            self._left[giver][place] += amount
            del self._unsuffixed[place]
            self._steps += 1
            if self._steps >= STEPS_MAX:
                return

    def _options(self, place: int, amount: int) -> Sequence[int] | None:
        """Return who may give a class: the root first, then the best fit; None to leave it out.

        Only the first when the choice can make no difference to anything else. Whether the root
        has a forbidden trait is for the filter of traits to say.
        """
        matters = place in self._ask.shared or self._required or self._any
        if not matters and self._can_give(ROOT, place, amount):
            return (ROOT,)
        able = [n for n in range(len(self._givers)) if self._can_give(n, place, amount)]
        if not able:
            return None
        forbidden = self._ask.needs.traits_forbidden
        may = [n for n in able if n == ROOT or forbidden.isdisjoint(self._givers[n].traits)]
        may.sort(key=lambda number: (number != ROOT, self._left[number][place]))
        return may if matters else may[:1]

    def _can_give(self, number: int, place: int, amount: int) -> bool:
        offer = self._givers[number].offers[place]
        return offer is not None and self._left[number][place] >= amount and offer.allows(amount)

    def _has_traits(self) -> bool:
        """Tell whether those who give of the unsuffixed group have what the root lacks."""
        if not self._required and not self._any:
            return True
        givers = self._unsuffixed.values()
        traits = frozenset[str]().union(*(self._givers[giver].traits for giver in givers))
        return self._required <= traits and all(one & traits for one in self._any)

    # ---- groups with a suffix -----------------------------------------------------------------

    def _place_groups(self) -> Sequence[int] | None:
        """Return who gives each item, or None."""
        if self._ask.needs.isolate:
            return self._match()
        self._chosen = []
        if self._pack():
            return self._chosen
        # Where packing gives up, providers of their own may still do.
        return self._match() if self._steps >= STEPS_MAX else None

    def _able_of(self, kind: GroupKind) -> list[int]:
        """Return the givers that could give one such group if nothing else were asked."""
        group, givers = kind.group, self._givers
        able = list(range(len(givers)))
        for place, amount in kind.wants:
            able = [
                number
                for number in able
                if (offer := givers[number].offers[place]) is not None and offer.allows(amount)
            ]
        return [
            number
            for number in able
            if group.traits_required <= givers[number].traits
            and group.traits_forbidden.isdisjoint(givers[number].traits)
        ]

    def _best_first(self, kind: GroupKind) -> list[int]:
        """Return the givers that have room for one such group, the one it leaves least first."""
        able, left = self._able[id(kind)], self._left
        for place, amount in kind.wants:
            able = [number for number in able if left[number][place] >= amount]
        return sorted(able, key=lambda number: self._remainder(number, kind.wants))

    def _remainder(self, number: int, wants: Wants) -> float:
        """Return how many such groups what is left of a giver's classes comes to, added up."""
        left, offers = self._left[number], self._givers[number].offers
        remainder = 0.0
        for place, amount in wants:
            offer = offers[place]
            if offer is not None:
                beyond = offer.free - offer.unit_max
                free = left[place] + beyond if beyond > 0 else left[place]
                remainder += free / amount
        return remainder

    def _match(self) -> Sequence[int] | None:
        """Give each item a provider of its own, by augmenting paths (Kuhn's method)."""
        wanted = {id(kind): self._best_first(kind) for kind in self._ask.kinds}
        given: dict[int, int] = {}
        for item in range(len(self._items)):
            if not self._augment(item, wanted, given, set()):
                return None
        chosen = {item: giver for giver, item in given.items()}
        return [chosen[item] for item in range(len(self._items))]

    def _augment(
        self, item: int, wanted: Mapping[int, Sequence[int]], given: dict[int, int], seen: set[int]
    ) -> bool:
        """Give an item a provider, if need be one whose item then gets another."""
        mine = wanted[id(self._items[item])]
        free = next((giver for giver in mine if giver not in given), None)
        if free is not None:
            given[free] = item
            return True
        for giver in mine:
            if giver in seen:
                continue
            seen.add(giver)
            if self._augment(given[giver], wanted, given, seen):
                given[giver] = item
                return True
        return False

    def _pack(self) -> bool:
        """Place the items that are left, several on one provider where they fit."""
        number = len(self._chosen)
        if number == len(self._items):
            return True
        if self._steps >= STEPS_MAX or (self._dead and self._state() in self._dead):
            return False
        self._steps += 1
        kind = self._items[number]
        tried: set[object] = set()
        for giver in self._best_first(kind):
            if tried and self._look(giver) in tried:
                continue
            self._take(giver, kind.wants, 1)
            self._chosen.append(giver)
            if self._pack():
                return True
            self._chosen.pop()
            self._take(giver, kind.wants, -1)
            tried.add(self._look(giver))
        self._dead.add(self._state())
        return False

    def _take(self, giver: int, wants: Wants, sign: int) -> None:
        left = self._left[giver]
        for place, amount in wants:
            left[place] -= sign * amount

    def _look(self, giver: int) -> tuple[tuple[bool, ...], tuple[int, ...]]:
        """Return all of a giver that matters to items that are still to be placed."""
        able = tuple(giver in self._able[id(kind)] for kind in self._ask.kinds)
        return able, tuple(self._left[giver])

    def _state(self) -> tuple[int, tuple[object, ...]]:
        """Return how far the search is and what is left, whoever has it."""
        looks = sorted(self._look(giver) for giver in range(len(self._givers)))
        return len(self._chosen), tuple(looks)
