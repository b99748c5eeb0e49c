"""The search for candidates, which takes one candidate of each anchor in turn."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Final, NamedTuple

import numpy as np

from berth.scheduling.candidates.anchors import Anchors, anchors_of
from berth.scheduling.candidates.arrangement_search import Arrangement, Steps, arrangements
from berth.scheduling.candidates.constraint_builder import ConstraintBuilder
from berth.scheduling.candidates.masks import QueryMasks, Slot, masks_of
from berth.scheduling.candidates.query import CandidateQuery
from berth.scheduling.candidates.slot_choices import SlotChoices
from berth.tables.columnar.bitsets import Rows
from berth.tables.provider.providers import ProviderTable

CANDIDATES_MAX: Final = 100_000
"""The maximum number of candidates of a query, regardless of its own limit."""

PendingAnchors = deque[Iterator[Arrangement]]
"""Anchors that may have further candidates, each as an iterator over its other arrangements."""

Amounts = tuple[tuple[str, int], ...]
"""(class, amount) pairs with each class once, in the unit of the class."""


class CompositeCandidate(NamedTuple):
    """A candidate that the search found.

    Attributes:
        amounts: (row, amounts) pairs, each row once, in the order in which groups first use the
            rows. If several groups use one row, their amounts are added up; a row that supplies no
            amount is left out.
        mappings: the distinct rows that serve each group, in the order of `query.groups`.
    """

    amounts: tuple[tuple[int, Amounts], ...]
    mappings: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a query, without duplicates.

    Attributes:
        alone: the rows that serve all groups alone; each is a candidate.
        amounts: the amounts that each of these rows supplies.
        composed: all other candidates.
        steps: the number of choices that the search tried.
    """

    alone: Rows
    amounts: Amounts
    composed: Sequence[CompositeCandidate]
    steps: int


def find_candidates(
    table: ProviderTable,
    query: CandidateQuery,
    start: int = 0,
    candidates_max: int = CANDIDATES_MAX,
) -> Candidates:
    """Return the candidates of a query, at most its limit and at most `candidates_max`.

    A claim for any of them would succeed now. A limited list covers as many anchors as possible.
    The cost grows by some microseconds per thousand providers, and with the number of candidates.
    However, to prove that groups do not fit in a tree, the search may have to try every arrangement
    that is not equivalent to another.

    Args:
        table: the table, with N rows.
        query: the query; unknown classes, traits and aggregates match no provider.
        start: the index of the anchor to begin with, modulo the number of anchors; the skipped
            anchors come last.
        candidates_max: the limit if the query has no limit or a higher one.

    Raises:
        TooManyWaysError: the step budget is exhausted.
    """
    masks = masks_of(table, query)
    anchors = _rotated(anchors_of(table, query, masks), start)
    wanted = min(query.limit or candidates_max, candidates_max)
    composing = CandidateBuilder(masks.slots)
    all_slots = composing.merged(range(len(masks.slots)))
    # If every anchor is alone, as in a flat fleet, the anchors are the candidates.
    if anchors.is_alone.all():
        return Candidates(anchors.rows[:wanted], all_slots, (), 0)
    ways = AnchorArrangements(table, query, masks, anchors.rows.size)
    composed = [composing.candidate(one) for one in _take(ways, anchors, wanted)]
    alone = anchors.rows[anchors.is_alone][: wanted - len(composed)]
    return Candidates(alone, all_slots, composed, ways.steps.count)


class AnchorArrangements:
    """The arrangements of each anchor, without those that an earlier anchor has yielded.

    Two anchors can have the same arrangement only if it consists of sharing providers. Among
    anchors where the same sharing providers could satisfy the slots, only the first yields such
    arrangements.
    """

    def __init__(
        self, table: ProviderTable, query: CandidateQuery, masks: QueryMasks, anchors: int
    ) -> None:
        """Prepare the search for a query with this many anchors."""
        self._choices = SlotChoices(table, masks)
        self._rules = ConstraintBuilder(table, query, masks)
        self._sharing = frozenset(table.sharing().rows.tolist())
        self._shared: set[tuple[frozenset[int], ...]] = set()
        self._seen: set[Arrangement] = set()
        self._sharing_seen: set[int] = set()
        self._possible: dict[int, bool] = {}
        self.steps = Steps(anchors)

    def at(self, root: int) -> Iterator[Arrangement]:
        """Return an iterator over an anchor's arrangements that no earlier anchor has yielded.

        The iterator raises `TooManyWaysError` once the step budget is exhausted.
        """
        sharing = self._choices.sharing_alone(root)
        if sharing is not None:
            # Equal results of `sharing_alone` are the same object, so their identity suffices as a
            # key.
            if id(sharing) in self._sharing_seen:
                return iter(())
            self._sharing_seen.add(id(sharing))
        choices, shared = self._choices.at(root)
        make = self._rules.at if self._rules.are_needed else None
        if not all(shared):
            return arrangements(choices, make, self.steps)
        if shared not in self._shared:
            self._shared.add(shared)
        elif all(map(self._sharing.issuperset, choices)):
            return iter(())
        else:
            make = partial(self._rules.at, sharing=self._sharing)
        return self._unseen(arrangements(choices, make, self.steps))

    @property
    def are_free(self) -> bool:
        """Whether all choices of an anchor are compatible and no two anchors share arrangements."""
        return not (self._rules.are_needed or self._choices.are_shared)

    def first_of(self, roots: Rows) -> list[Arrangement]:
        """Return the first arrangement of each anchor; only valid if `are_free`."""
        self.steps.count += roots.size
        return self._choices.first_of(roots)

    def after_first(self, root: int) -> Iterator[Arrangement]:
        """Yield the arrangements of an anchor after the first; only valid if `are_free`."""
        for arrangement in islice(product(*self._choices.at(root).choices), 1, None):
            self.steps.count += 1
            yield arrangement

    def is_possible(self, root: int) -> bool:
        """Return whether an anchor has any arrangement, even one that an earlier anchor has.

        Raises:
            TooManyWaysError: the step budget is exhausted.
        """
        sharing = self._choices.sharing_alone(root)
        if sharing is not None and id(sharing) in self._possible:
            return self._possible[id(sharing)]
        is_possible = self._has_any(root)
        if sharing is not None:
            self._possible[id(sharing)] = is_possible
        return is_possible

    def _has_any(self, root: int) -> bool:
        make = self._rules.at if self._rules.are_needed else None
        return any(True for _ in arrangements(self._choices.at(root).choices, make, self.steps))

    def _unseen(self, found: Iterator[Arrangement]) -> Iterator[Arrangement]:
        for arrangement in found:
            # Only arrangements of sharing providers alone can recur, so only these are remembered.
            if self._sharing.issuperset(arrangement):
                if arrangement in self._seen:
                    self.steps.check()
                    continue
                self._seen.add(arrangement)
            yield arrangement


class CandidateBuilder:
    """Builds candidates from arrangements."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        """Prepare to build candidates for a query with these slots."""
        self._slots = slots
        self._single = [slot.amounts for slot in slots]
        groups: dict[int, list[int]] = {}
        for place, slot in enumerate(slots):
            groups.setdefault(slot.group, []).append(place)
        self._groups = list(groups.values())
        self._is_plain = len(groups) == len(slots) and all(self._single)
        self._merged: dict[tuple[int, ...], Amounts] = {}

    def candidate(self, rows: Arrangement) -> CompositeCandidate:
        """Return the candidate in which each row satisfies the slot at the same index."""
        distinct = dict.fromkeys(rows)
        if self._is_plain and len(distinct) == len(rows):
            return CompositeCandidate(tuple(zip(rows, self._single, strict=True)), tuple(zip(rows)))
        if len(distinct) == len(rows):
            amounts = tuple(one for one in zip(rows, self._single, strict=True) if one[1])
        else:
            amounts = self._summed(distinct, rows)
        mappings = tuple(
            (rows[places[0]],)
            if len(places) == 1
            else tuple(dict.fromkeys([rows[place] for place in places]))
            for places in self._groups
        )
        return CompositeCandidate(amounts, mappings)

    def merged(self, places: Sequence[int]) -> Amounts:
        """Return the total amounts of a row that satisfies the slots at these indices."""
        key = tuple(places)
        # The sums are cached, because few combinations of slots occur among many candidates.
        found = self._merged.get(key)
        if found is None:
            sums: dict[str, int] = {}
            for place in key:
                for name, amount in self._slots[place].amounts:
                    sums[name] = sums.get(name, 0) + amount
            found = self._merged[key] = tuple(sums.items())
        return found

    def _summed(
        self, distinct: dict[int, None], rows: Arrangement
    ) -> tuple[tuple[int, Amounts], ...]:
        given = (
            (row, self.merged([place for place, one in enumerate(rows) if one == row]))
            for row in distinct
        )
        return tuple(one for one in given if one[1])


def _take(ways: AnchorArrangements, anchors: Anchors, wanted: int) -> list[Arrangement]:
    """Return arrangements, one of each anchor in turn, until enough are found or none is left.

    Args:
        ways: the arrangements of the anchors that are not alone.
        anchors: all anchors; those that are alone count as candidates of the first round.
        wanted: the number of candidates, including the anchors that are alone.
    """
    first_round = _free_round if ways.are_free else _first_round
    taken, pending = first_round(ways, anchors, wanted)
    more = wanted - int(anchors.is_alone.sum())
    while pending and len(taken) < more:
        way = pending.popleft()
        for following in way:
            # One arrangement is read at a time, because an anchor may have a huge number of them.
            ways.steps.allow_more()
            taken.append(following)
            pending.append(way)
            break
    return taken


def _free_round(
    ways: AnchorArrangements, anchors: Anchors, wanted: int
) -> tuple[list[Arrangement], PendingAnchors]:
    """Return the first arrangement of each anchor, which always exists, and the pending anchors."""
    roots = anchors.rows[:wanted][~anchors.is_alone[:wanted]]
    is_enough = anchors.rows.size >= wanted
    pending = () if is_enough else map(ways.after_first, roots.tolist())
    return ways.first_of(roots), deque(pending)


def _first_round(
    ways: AnchorArrangements, anchors: Anchors, wanted: int
) -> tuple[list[Arrangement], PendingAnchors]:
    """Return the first arrangement of each anchor that has one, and the pending anchors."""
    places = np.flatnonzero(~anchors.is_alone)
    roots: list[int] = anchors.rows[places].tolist()
    alone_before: list[int] = (places - np.arange(places.size)).tolist()
    taken: list[Arrangement] = []
    pending: PendingAnchors = deque()
    for root, alone in zip(roots, alone_before, strict=True):
        if alone + len(taken) >= wanted:
            break
        way = ways.at(root)
        for first in way:
            ways.steps.allow_more()
            taken.append(first)
            pending.append(way)
            break
    return taken, pending


def _rotated(anchors: Anchors, start: int) -> Anchors:
    """Return the anchors rotated by `start`."""
    if not (start and anchors.rows.size):
        return anchors
    shift = -(start % anchors.rows.size)
    return Anchors(np.roll(anchors.rows, shift), np.roll(anchors.is_alone, shift))
