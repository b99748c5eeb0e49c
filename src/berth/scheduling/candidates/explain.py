"""Explanations: what each constraint of a query leaves of the fleet."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from berth.scheduling.candidates.anchors import Reach, anchors_of
from berth.scheduling.candidates.candidate_search import AnchorArrangements
from berth.scheduling.candidates.masks import (
    ConstraintKind,
    GroupMask,
    QueryMasks,
    Slot,
    filters_of,
    is_member,
    is_spread,
    masks_of,
    no_rows,
)
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.columnar.bitsets import Mask
from berth.tables.provider.providers import ProviderTable


@dataclass(frozen=True, slots=True)
class Remaining:
    """The part of the fleet that remains.

    Attributes:
        providers: the number of providers that could give something; all of them while nothing is
            requested.
        trees: the number of trees that they could give it to.
    """

    providers: int
    trees: int


@dataclass(frozen=True, slots=True)
class ExplainStep:
    """One constraint and its effect.

    Attributes:
        group: the suffix of the group that has the constraint; None for the query as a whole.
        constraint: the kind of the constraint.
        names: the traits, aggregates, provider or class that the constraint names.
        before: what remained before this step.
        after: what remains after this step.
    """

    group: str | None
    constraint: ConstraintKind
    names: tuple[str, ...]
    before: Remaining
    after: Remaining


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason why a query has the candidates that it has.

    The steps of each group start with the whole fleet. In an unsuffixed group with several classes,
    each class starts with what the group's traits and aggregates leave, because each may come from
    a different provider. The query as a whole starts with what any of its groups leaves.

    Attributes:
        fleet: all providers and all trees.
        steps: the steps of each group, then those of the query as a whole; `after` of the last step
            has the trees with a candidate.
    """

    fleet: Remaining
    steps: tuple[ExplainStep, ...]

    @property
    def ends_at(self) -> ExplainStep | None:
        """The first step that leaves nothing; None when there are candidates."""
        return next((step for step in self.steps if not step.after.trees), None)


def explain(table: ProviderTable, query: CandidateQuery) -> Explanation:
    """Return what each constraint of a query leaves of the fleet, ignoring the query's limit.

    Each tree that could serve all groups is searched for one candidate.

    Args:
        table: the table, with N rows.
        query: the query; no provider has classes, traits or aggregates that are unknown.

    Raises:
        TooManyWaysError: the step budget is exhausted.
    """
    masks = masks_of(table, query)
    steps = [step for group in query.groups for step in _of_group(table, group, masks)]
    steps += _of_whole(table, query, masks)
    return Explanation(_fleet(table), tuple(steps))


def _of_group(
    table: ProviderTable, group: CandidateGroup, masks: QueryMasks
) -> Iterator[ExplainStep]:
    """Yield the steps of one group."""
    slot, before = _everyone(table, group), _fleet(table)
    filters = [
        *zip(
            filters_of(table, group),
            filters_of(table, group, is_lent=not group.suffix),
            strict=True,
        )
    ]
    for own, lent in filters:
        slot = replace(slot, own=slot.own & own.mask, lent=slot.lent & lent.mask)
        after = _left(table, slot)
        yield ExplainStep(group.suffix, own.constraint, own.names, before, after)
        before = after
    first, first_before = slot, before
    for name, amount in group.amounts.items():
        # Each class of an unsuffixed group may come from another provider, so it begins anew.
        if is_spread(group):
            slot, before = first, first_before
        for fit in _fits(table, name, amount):
            slot = replace(slot, own=slot.own & fit.mask, lent=slot.lent & fit.mask)
            after = _left(table, slot)
            yield ExplainStep(group.suffix, fit.constraint, fit.names, before, after)
            before = after
    if is_spread(group):
        yield from _between_them(table, group, masks)


def _between_them(
    table: ProviderTable, group: CandidateGroup, masks: QueryMasks
) -> Iterator[ExplainStep]:
    """Yield the steps for the classes and traits that an unsuffixed group needs jointly."""
    slots = tuple(slot for slot in masks.slots if not slot.is_single)
    reach = Reach(table, slots)
    before = _fleet(table)
    for count in range(len(masks.together) + 1):
        trees = reach.of_slots(QueryMasks(slots, masks.together[:count], None))
        after = _left_in(table, slots, trees)
        if count:
            names = tuple(sorted(group.required[count - 1]))
            yield ExplainStep(group.suffix, ConstraintKind.REQUIRED, names, before, after)
        before = after


def _of_whole(
    table: ProviderTable, query: CandidateQuery, masks: QueryMasks
) -> Iterator[ExplainStep]:
    """Yield the steps of the query as a whole."""
    reach = Reach(table, masks.slots)
    trees = no_rows(table)
    for slot in masks.slots:
        trees |= reach.of_slot(slot)
    before = _left_in(table, masks.slots, trees)
    if masks.roots is not None:
        after = _left_in(table, masks.slots, trees & masks.roots)
        names = (
            *sorted(query.root_required),
            *(f"!{name}" for name in sorted(query.root_forbidden)),
        )
        yield ExplainStep(None, ConstraintKind.ROOT, names, before, after)
        before = after
    trees = reach.of_slots(masks)
    after = _left_in(table, masks.slots, trees)
    yield ExplainStep(None, ConstraintKind.TOGETHER, (), before, after)
    before, trees = after, no_rows(table)
    anchors = anchors_of(table, query, masks)
    ways = AnchorArrangements(table, query, masks, anchors.rows.size)
    for root, is_alone in zip(anchors.rows.tolist(), anchors.is_alone.tolist(), strict=True):
        # A root that is alone needs no search: the masks decide it exactly.
        trees[root] = is_alone or ways.is_possible(root)
    yield ExplainStep(
        None, ConstraintKind.COMBINATION, (), before, _left_in(table, masks.slots, trees)
    )


def _fits(table: ProviderTable, name: str, amount: int) -> list[GroupMask]:
    """Return the conditions under which a provider can give an amount, in the order of steps."""
    columns, every = table.resource(name), table.all_rows
    if columns is None:
        return [GroupMask(ConstraintKind.INVENTORY, (name,), no_rows(table))]
    step = columns.step_size[every]
    has = step > 0
    allowed = (
        (amount >= columns.min_unit[every])
        & (amount <= columns.unit_max[every])
        & (amount % np.maximum(step, 1) == 0)
    )
    return [
        GroupMask(ConstraintKind.INVENTORY, (name,), has),
        GroupMask(ConstraintKind.UNITS, (name,), allowed),
        GroupMask(ConstraintKind.ROOM, (name,), columns.free[every] >= amount),
    ]


def _everyone(table: ProviderTable, group: CandidateGroup) -> Slot:
    """Return a slot that every provider could give."""
    borrowers = None if group.suffix else ~is_member(table, group.outside_of)
    alive = table.alive
    return Slot(0, (), is_single=bool(group.suffix), own=alive, lent=alive, borrowers=borrowers)


def _fleet(table: ProviderTable) -> Remaining:
    alive = table.alive
    return Remaining(int(alive.sum()), int((alive & (table.parent < 0)).sum()))


def _left(table: ProviderTable, slot: Slot) -> Remaining:
    """Return how many providers could give a slot, and to how many trees."""
    return Remaining(int(slot.own.sum()), int(Reach(table, (slot,)).of_slot(slot).sum()))


def _left_in(table: ProviderTable, slots: tuple[Slot, ...], trees: Mask) -> Remaining:
    """Return how many providers could give any slot in any of the trees, and how many trees."""
    own = no_rows(table)
    for slot in slots:
        own |= slot.own
    giving = own & trees[table.root]
    for row, anchors in table.sharing().anchors.items():
        if any(slot.lent.item(row) for slot in slots) and bool(trees[anchors].any()):
            # A lender gives to other trees, so its own tree may not be among them.
            giving[row] = True
    return Remaining(int(giving.sum()), int(trees.sum()))
