"""Explanations of queries: the part of the fleet that each constraint leaves."""

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
    """The part of the fleet that remains after some constraints.

    Attributes:
        providers: the number of providers that meet the constraints so far.
        trees: the number of trees that they could serve.
    """

    providers: int
    trees: int


@dataclass(frozen=True, slots=True)
class ExplainStep:
    """One constraint and its effect.

    Attributes:
        group: the suffix of the group with the constraint; None for the query as a whole.
        constraint: the kind of the constraint.
        names: the traits, aggregates, provider or class that the constraint names.
        before: the part of the fleet that remained before this step.
        after: the part of the fleet that remains after this step.
    """

    group: str | None
    constraint: ConstraintKind
    names: tuple[str, ...]
    before: Remaining
    after: Remaining


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps in which the constraints of a query reduce the fleet to the trees with a candidate.

    The steps of each group start with the whole fleet. In an unsuffixed group with several classes,
    the steps of each class start with what the group's other constraints leave, because each class
    may come from a different provider. The steps of the whole query start with all providers that
    could satisfy any slot.

    Attributes:
        fleet: the number of all providers and of all trees.
        steps: the steps of each group, then those of the whole query; `after.trees` of the last
            step is the number of trees with a candidate.
    """

    fleet: Remaining
    steps: tuple[ExplainStep, ...]

    @property
    def ends_at(self) -> ExplainStep | None:
        """The first step that leaves no tree; None if there are candidates."""
        return next((step for step in self.steps if not step.after.trees), None)


def explain(table: ProviderTable, query: CandidateQuery) -> Explanation:
    """Return the part of the fleet that each constraint leaves, ignoring the query's limit.

    Each tree that could serve all groups is searched for one candidate.

    Args:
        table: the table, with N rows.
        query: the query; unknown classes, traits and aggregates match no provider.

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
            filters_of(table, group, is_shared=not group.suffix),
            strict=True,
        )
    ]
    for own, shared in filters:
        slot = replace(slot, own=slot.own & own.mask, shared=slot.shared & shared.mask)
        after = _left(table, slot)
        yield ExplainStep(group.suffix, own.constraint, own.names, before, after)
        before = after
    first, first_before = slot, before
    for name, amount in group.amounts.items():
        # Each class of an unsuffixed group may come from a different provider, so its steps start
        # with what the other constraints leave.
        if is_spread(group):
            slot, before = first, first_before
        for fit in _fits(table, name, amount):
            slot = replace(slot, own=slot.own & fit.mask, shared=slot.shared & fit.mask)
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
        # A root that is alone needs no search, because the masks decide it exactly.
        trees[root] = is_alone or ways.is_possible(root)
    yield ExplainStep(
        None, ConstraintKind.COMBINATION, (), before, _left_in(table, masks.slots, trees)
    )


def _fits(table: ProviderTable, name: str, amount: int) -> list[GroupMask]:
    """Return the conditions under which a provider can supply an amount, in the order of steps."""
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
    """Return a slot that every provider could satisfy."""
    shared_with = None if group.suffix else ~is_member(table, group.outside_of)
    alive = table.alive
    return Slot(
        0, (), is_single=bool(group.suffix), own=alive, shared=alive, shared_with=shared_with
    )


def _fleet(table: ProviderTable) -> Remaining:
    alive = table.alive
    return Remaining(int(alive.sum()), int((alive & (table.parent < 0)).sum()))


def _left(table: ProviderTable, slot: Slot) -> Remaining:
    """Return the number of providers that could satisfy a slot, and the number of their trees."""
    return Remaining(int(slot.own.sum()), int(Reach(table, (slot,)).of_slot(slot).sum()))


def _left_in(table: ProviderTable, slots: tuple[Slot, ...], trees: Mask) -> Remaining:
    """Return the number of trees, and of providers that could satisfy a slot in any of them."""
    own = no_rows(table)
    for slot in slots:
        own |= slot.own
    able = own & trees[table.root]
    for row, anchors in table.sharing().anchors.items():
        if any(slot.shared.item(row) for slot in slots) and bool(trees[anchors].any()):
            # The own tree of a sharing provider need not be among the trees that it serves.
            able[row] = True
    return Remaining(int(able.sum()), int(trees.sum()))
