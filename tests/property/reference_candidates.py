"""Allocation candidates worked out by trying every arrangement; slow and plain.

The module reads provider records and a query, and uses neither the tables nor the search.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from berth.domain.inventory.provider import Provider
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery

SHARES = "MISC_SHARES_VIA_AGGREGATE"


class Candidate(NamedTuple):
    """One candidate: (provider, class, amount) triples, and the providers of each group."""

    amounts: frozenset[tuple[str, str, int]]
    mappings: tuple[frozenset[str], ...]


class _Choice(NamedTuple):
    """One way to serve one group: (provider, class, amount) triples, and the providers used."""

    taken: tuple[tuple[str, str, int], ...]
    used: frozenset[str]


class Fleet:
    """Providers by uuid, with their trees and aggregates."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self.all: Mapping[str, Provider] = {one.uuid: one for one in providers}

    def lineage(self, uuid: str) -> list[str]:
        """Return a provider, its parent and so on up to its root."""
        path = [uuid]
        while (parent := self.all[path[-1]].parent_uuid) is not None:
            path.append(parent)
        return path

    def root(self, uuid: str) -> str:
        """Return the root of a provider's tree."""
        return self.lineage(uuid)[-1]

    def anchors(self, uuid: str) -> set[str]:
        """Return the roots of the trees that a provider serves: its own, and any it shares with."""
        mine = self.all[uuid]
        roots = {self.root(uuid)}
        if SHARES in mine.traits:
            for other in self.all.values():
                if set(other.aggregates) & set(mine.aggregates):
                    roots.add(self.root(other.uuid))
        return roots

    def fits(self, uuid: str, name: str, amount: int) -> bool:
        """Tell whether one allocation of one class could be made."""
        inventory = self.all[uuid].inventories.get(name)
        return (
            inventory is not None
            and self.all[uuid].used.get(name, 0) + amount <= inventory.capacity
            and inventory.min_unit <= amount <= inventory.unit_max
            and amount % inventory.step_size == 0
        )

    def is_in(self, uuid: str, wanted: Iterable[frozenset[str]]) -> bool:
        """Tell whether a provider is in an aggregate of each set."""
        return all(one & set(self.all[uuid].aggregates) for one in wanted)

    def takes(self, sums: Mapping[tuple[str, str], int]) -> bool:
        """Tell whether each sum fits the free capacity and the largest unit of its inventory."""
        for (uuid, name), amount in sums.items():
            inventory = self.all[uuid].inventories[name]
            if amount > inventory.unit_max:
                return False
            if self.all[uuid].used.get(name, 0) + amount > inventory.capacity:
                return False
        return True


def candidates(providers: Iterable[Provider], query: CandidateQuery) -> set[Candidate]:
    """Return every candidate; the limit of the query is ignored."""
    fleet = Fleet(providers)
    return {
        found
        for anchor in fleet.all
        if fleet.all[anchor].parent_uuid is None and _may_anchor(fleet.all[anchor], query)
        for found in _at(fleet, query, anchor)
    }


def trees_shown(providers: Iterable[Provider], candidate: Candidate) -> set[str]:
    """Return the providers that are summarised with a candidate: all of each tree it takes from."""
    fleet = Fleet(providers)
    roots = {fleet.root(uuid) for uuid, _, _ in candidate.amounts}
    return {uuid for uuid in fleet.all if fleet.root(uuid) in roots}


def _may_anchor(root: Provider, query: CandidateQuery) -> bool:
    return query.root_required <= root.traits and not query.root_forbidden & root.traits


def _at(fleet: Fleet, query: CandidateQuery, anchor: str) -> Iterator[Candidate]:
    choices = [
        list(_alone(fleet, group, anchor) if group.suffix else _spread(fleet, group, anchor))
        for group in query.groups
    ]
    for arrangement in product(*choices):
        sums: Counter[tuple[str, str]] = Counter()
        for choice in arrangement:
            for uuid, name, amount in choice.taken:
                sums[uuid, name] += amount
        if _keeps_rules(fleet, query, arrangement, {uuid for uuid, _ in sums}) and fleet.takes(
            sums
        ):
            yield Candidate(
                frozenset((uuid, name, amount) for (uuid, name), amount in sums.items()),
                tuple(choice.used for choice in arrangement),
            )


def _keeps_rules(
    fleet: Fleet, query: CandidateQuery, arrangement: Sequence[_Choice], takers: set[str]
) -> bool:
    pairs = list(zip(query.groups, arrangement, strict=True))
    if query.isolates:
        singles = [next(iter(choice.used)) for group, choice in pairs if group.suffix]
        if len(set(singles)) < len(singles):
            return False
    for suffixes in query.same_subtree:
        inside = {
            uuid for group, choice in pairs if group.suffix in suffixes for uuid in choice.used
        }
        if not any(all(top in fleet.lineage(one) for one in inside) for top in inside):
            return False
    return query.is_nested_aware or len({fleet.root(one) for one in takers}) == len(takers)


def _in_tree(fleet: Fleet, group: CandidateGroup, uuid: str) -> bool:
    if group.in_tree is None:
        return True
    return group.in_tree in fleet.all and fleet.root(group.in_tree) == fleet.root(uuid)


def _alone(fleet: Fleet, group: CandidateGroup, anchor: str) -> Iterator[_Choice]:
    """Yield each provider that serves a group with a suffix by itself."""
    if not group.amounts:
        if not group.required and not group.member_of:
            return
        if group.in_tree is not None and group.in_tree not in fleet.all:
            return
    for uuid, provider in fleet.all.items():
        if (
            anchor in fleet.anchors(uuid)
            and all(fleet.fits(uuid, name, amount) for name, amount in group.amounts.items())
            and all(one & provider.traits for one in group.required)
            and not group.forbidden & provider.traits
            and fleet.is_in(uuid, group.member_of)
            and not group.outside_of & set(provider.aggregates)
            and (not group.amounts or _in_tree(fleet, group, uuid))
        ):
            taken = tuple((uuid, name, amount) for name, amount in group.amounts.items())
            yield _Choice(taken, frozenset({uuid}))


def _spread(fleet: Fleet, group: CandidateGroup, anchor: str) -> Iterator[_Choice]:
    """Yield each way to serve the unsuffixed group, class by class."""
    givers = [
        [
            uuid
            for uuid in fleet.all
            if fleet.fits(uuid, name, amount) and _may_give(fleet, group, uuid, anchor)
        ]
        for name, amount in group.amounts.items()
    ]
    for chosen in product(*givers):
        traits = frozenset[str]().union(*(fleet.all[uuid].traits for uuid in chosen))
        if all(one & traits for one in group.required) and not group.forbidden & traits:
            asked = zip(chosen, group.amounts.items(), strict=True)
            taken = tuple((uuid, name, amount) for uuid, (name, amount) in asked)
            yield _Choice(taken, frozenset(chosen))


def _may_give(fleet: Fleet, group: CandidateGroup, uuid: str, anchor: str) -> bool:
    mine = set(fleet.all[uuid].aggregates)
    around = mine | set(fleet.all[anchor].aggregates)
    if group.outside_of & around or not _in_tree(fleet, group, uuid):
        return False
    is_own = fleet.root(uuid) == anchor
    if is_own:
        return fleet.is_in(uuid, group.member_of) or fleet.is_in(anchor, group.member_of)
    if group.in_tree is not None or anchor not in fleet.anchors(uuid):
        return False
    return fleet.is_in(uuid, group.member_of)
