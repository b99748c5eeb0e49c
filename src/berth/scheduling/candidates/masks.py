"""Masks of the providers that could satisfy each slot of a query, each considered alone."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.columnar.bitsets import Mask
from berth.tables.provider.providers import ProviderTable


class ConstraintKind(StrEnum):
    """The kinds of constraints in a query; clients see the values."""

    IN_TREE = "in_tree"
    MEMBER_OF = "member_of"
    OUTSIDE_OF = "not_member_of"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"
    NAMED = "required_or_member_of"
    INVENTORY = "inventory"
    UNITS = "units"
    ROOM = "room"
    ROOT = "root_required"
    TOGETHER = "all_groups_in_one_tree"
    COMBINATION = "combination"


class GroupMask(NamedTuple):
    """One constraint of a group: its kind, the names in it, and the providers that satisfy it.

    `mask` is (N,) bool.
    """

    constraint: ConstraintKind
    names: tuple[str, ...]
    mask: Mask


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a query that one provider must satisfy: a suffixed group or an unsuffixed class.

    Attributes:
        group: the index of the group in the query.
        amounts: (class, amount) pairs; empty for a resourceless group.
        is_single: whether the group has a suffix, so that one provider serves it alone.
        own: (N,) bool, True for providers that can satisfy the slot within their own tree.
        shared: (N,) bool, True for providers that, if they are sharing providers, can satisfy the
            slot in the trees with which they share.
        shared_with: (N,) bool, True for the roots of trees in which a sharing provider of another
            tree may satisfy the slot; None for all.
    """

    group: int
    amounts: tuple[tuple[str, int], ...]
    is_single: bool
    own: Mask
    shared: Mask
    shared_with: Mask | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The requested classes."""
        return tuple(name for name, _ in self.amounts)


@dataclass(frozen=True, slots=True)
class QueryMasks:
    """All slots of a query, and the constraints on several providers together.

    Attributes:
        slots: the slots in the order of the groups; the unsuffixed group has one per class.
        together: for each set of traits that the unsuffixed group requires, (N,) bool, True for
            providers with a trait of the set; one provider of the group must be among them. Empty
            if the group has a single slot, whose masks then include the traits.
        roots: (N,) bool, True for the roots that may be anchors; None for all.
    """

    slots: tuple[Slot, ...]
    together: tuple[Mask, ...]
    roots: Mask | None


def masks_of(table: ProviderTable, query: CandidateQuery) -> QueryMasks:
    """Return the masks of a query, considering every provider on its own.

    Args:
        table: the table, with N rows.
        query: the query; unknown classes, traits and aggregates match no provider.
    """
    slots: list[Slot] = []
    together: tuple[Mask, ...] = ()
    for place, group in enumerate(query.groups):
        if group.suffix:
            slots.append(_single(table, group, place))
        else:
            slots += _spread(table, group, place)
            if len(group.amounts) > 1:
                together = tuple(has_any(table, names) for names in group.required)
    return QueryMasks(tuple(slots), together, roots_allowed(table, query))


def filters_of(
    table: ProviderTable, group: CandidateGroup, *, is_shared: bool = False
) -> Iterator[GroupMask]:
    """Yield the constraints of a group on each single provider, except those on amounts.

    Three rules follow Placement's implementation. For the unsuffixed group, an aggregate of the
    root applies to the whole tree. A resourceless group with `in_tree` may be in any tree, provided
    that the named provider exists. A resourceless group without required traits and aggregates
    matches nothing (docs/adr/0015-candidates.md).

    Args:
        table: the table, with N rows.
        group: the group.
        is_shared: whether to apply the rules for sharing providers that serve another tree.
    """
    # A sharing provider that serves another tree must be a member itself, as in Placement.
    spans_tree = not (group.suffix or is_shared)
    if group.in_tree is not None:
        yield GroupMask(
            ConstraintKind.IN_TREE, (group.in_tree,), _in_tree(table, group, is_shared=is_shared)
        )
    if group.member_of:
        mask = all_of([is_member(table, uuids) for uuids in group.member_of])
        names = sorted(frozenset[str]().union(*group.member_of))
        yield GroupMask(
            ConstraintKind.MEMBER_OF, tuple(names), with_root(table, mask) if spans_tree else mask
        )
    if group.outside_of:
        mask = is_member(table, group.outside_of)
        names = sorted(group.outside_of)
        yield GroupMask(
            ConstraintKind.OUTSIDE_OF,
            tuple(names),
            ~(with_root(table, mask) if spans_tree else mask),
        )
    if not is_spread(group):
        for traits in group.required:
            yield GroupMask(ConstraintKind.REQUIRED, tuple(sorted(traits)), has_any(table, traits))
    if group.forbidden:
        mask = ~has_any(table, group.forbidden)
        yield GroupMask(ConstraintKind.FORBIDDEN, tuple(sorted(group.forbidden)), mask)
    # As in Placement, a group without amounts, required traits and required aggregates matches
    # nothing.
    if not (group.amounts or group.required or group.member_of):
        yield GroupMask(ConstraintKind.NAMED, (), no_rows(table))


def is_spread(group: CandidateGroup) -> bool:
    """Return whether several providers may serve the group together."""
    return not group.suffix and len(group.amounts) > 1


def fits(table: ProviderTable, name: str, amount: int) -> Mask:
    """Return, for each row, whether it could supply an amount of a class in one allocation."""
    columns = table.resource(name)
    return no_rows(table) if columns is None else columns.fits(amount, table.all_rows)


def has_any(table: ProviderTable, traits: Iterable[str]) -> Mask:
    """Return, for each row, whether it has any of the traits."""
    return table.traits.has_any(traits, table.all_rows)


def is_member(table: ProviderTable, uuids: Iterable[str]) -> Mask:
    """Return, for each row, whether it is in any of the aggregates; unknown ones are empty."""
    numbers = table.aggregate_numbers
    known = [numbers[uuid] for uuid in uuids if uuid in numbers]
    return table.aggregates.has_any(known, table.all_rows)


def with_root(table: ProviderTable, mask: Mask) -> Mask:
    """Return, for each row, whether the mask is True for it or for the root of its tree."""
    either: Mask = mask | mask[table.root]
    return either


def no_rows(table: ProviderTable) -> Mask:
    """Return a new mask, (N,), that is False for every row."""
    return np.zeros(len(table), dtype=np.bool_)


def all_of(masks: Iterable[Mask]) -> Mask:
    """Return the conjunction of one or more masks, each (N,); for a single mask, the same array."""
    first, *others = masks
    if others:
        # The first operation creates a new array, because the arguments belong to the table or to
        # other slots and must not change.
        first = first & others[0]
        for mask in others[1:]:
            first &= mask
    return first


def roots_allowed(table: ProviderTable, query: CandidateQuery) -> Mask | None:
    """Return, for each row, whether its traits permit it as an anchor; None if any row may be."""
    masks = [has_any(table, (trait,)) for trait in query.root_required]
    if query.root_forbidden:
        masks.append(~has_any(table, query.root_forbidden))
    return all_of(masks) if masks else None


def _single(table: ProviderTable, group: CandidateGroup, place: int) -> Slot:
    """Return the slot of a suffixed group."""
    masks = [fits(table, name, amount) for name, amount in group.amounts.items()]
    own = all_of((*masks, *(one.mask for one in filters_of(table, group))))
    return Slot(place, tuple(group.amounts.items()), is_single=True, own=own, shared=own)


def _spread(table: ProviderTable, group: CandidateGroup, place: int) -> Iterator[Slot]:
    """Yield the slots of the unsuffixed group, one per class."""
    has_sharing = table.sharing().rows.size > 0
    mine = [one.mask for one in filters_of(table, group)]
    shared = [one.mask for one in filters_of(table, group, is_shared=True)] if has_sharing else []
    shared_with = ~is_member(table, group.outside_of) if group.outside_of and has_sharing else None
    own_base = (all_of(mine),) if mine else ()
    shared_base = (all_of(shared),) if shared else ()
    for name, amount in group.amounts.items():
        mask = fits(table, name, amount)
        yield Slot(
            place,
            ((name, amount),),
            is_single=False,
            own=all_of((mask, *own_base)),
            shared=all_of((mask, *shared_base)),
            shared_with=shared_with,
        )


def _in_tree(table: ProviderTable, group: CandidateGroup, *, is_shared: bool) -> Mask:
    """Return, for each row, whether it satisfies the group's `in_tree`."""
    row = table.row_of(group.in_tree or "")
    if row is None or (is_shared and not group.suffix):
        return no_rows(table)
    if not group.amounts:
        return table.alive
    within: Mask = table.root == table.root[row]
    return within
