"""What each provider could give to each part of a query, looked at by itself."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.columnar.bitsets import Mask
from berth.tables.provider.providers import ProviderTable


class ConstraintKind(StrEnum):
    """What a query asks, one thing at a time."""

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
    """One constraint of a group, the names it is about, and who keeps it: (N,) bool."""

    constraint: ConstraintKind
    names: tuple[str, ...]
    mask: Mask


@dataclass(frozen=True, slots=True)
class Slot:
    """What one provider is to give: a group with a suffix, or one class of the unsuffixed one.

    Attributes:
        group: place of the group in the query.
        amounts: (class, amount) pairs; none for a resourceless group.
        is_single: the group has a suffix, so this provider is all that serves it.
        own: (N,) providers that can give it in their own tree.
        lent: (N,) providers that can give it in other trees, if they share with them.
        borrowers: (N,) roots of the trees that it may be lent to; None for all.
    """

    group: int
    amounts: tuple[tuple[str, int], ...]
    is_single: bool
    own: Mask
    lent: Mask
    borrowers: Mask | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that are asked for."""
        return tuple(name for name, _ in self.amounts)


@dataclass(frozen=True, slots=True)
class QueryMasks:
    """Every slot of a query, and what is asked of several providers together.

    Attributes:
        slots: in the order of the groups, and of the classes of the unsuffixed one.
        together: (N,) for each set of traits of which the providers of the unsuffixed group
            together need one: who has one. Empty when that group asks one provider, as its slot
            says that already.
        roots: (N,) roots that may be anchors; None for all.
    """

    slots: tuple[Slot, ...]
    together: tuple[Mask, ...]
    roots: Mask | None


def masks_of(table: ProviderTable, query: CandidateQuery) -> QueryMasks:
    """Look at every provider by itself.

    Args:
        table: N rows.
        query: names of classes, traits and aggregates that nobody has are no error.
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
    table: ProviderTable, group: CandidateGroup, *, is_lent: bool = False
) -> Iterator[GroupMask]:
    """Yield what a group asks of each provider, whatever the class, one constraint at a time.

    Some are as Placement has them: an aggregate of the root counts for all of its tree, for the
    unsuffixed group; a resourceless group may be in any tree if only the one it names is known,
    and finds nothing if it names neither traits nor aggregates that it must have.

    Args:
        table: N rows.
        group: what is asked.
        is_lent: ask of providers that give to another tree than their own.
    """
    spans_tree = not (group.suffix or is_lent)
    if group.in_tree is not None:
        yield GroupMask(
            ConstraintKind.IN_TREE, (group.in_tree,), _in_tree(table, group, is_lent=is_lent)
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
    if not (group.amounts or group.required or group.member_of):
        yield GroupMask(ConstraintKind.NAMED, (), no_rows(table))


def is_spread(group: CandidateGroup) -> bool:
    """Tell whether several providers may serve the group together."""
    return not group.suffix and len(group.amounts) > 1


def fits(table: ProviderTable, name: str, amount: int) -> Mask:
    """Tell for each row whether one allocation of one class could be made."""
    columns = table.resource(name)
    return no_rows(table) if columns is None else columns.fits(amount, table.all_rows)


def has_any(table: ProviderTable, traits: Iterable[str]) -> Mask:
    """Tell for each row whether it has any of the traits."""
    return table.traits.has_any(traits, table.all_rows)


def is_member(table: ProviderTable, uuids: Iterable[str]) -> Mask:
    """Tell for each row whether it is in any of the aggregates; unknown ones have no member."""
    numbers = table.aggregate_numbers
    known = [numbers[uuid] for uuid in uuids if uuid in numbers]
    return table.aggregates.has_any(known, table.all_rows)


def with_root(table: ProviderTable, mask: Mask) -> Mask:
    """Tell for each row whether the mask is True of it or of the root of its tree."""
    either: Mask = mask | mask[table.root]
    return either


def no_rows(table: ProviderTable) -> Mask:
    """Return False for each row."""
    return np.zeros(len(table), dtype=np.bool_)


def all_of(masks: Iterable[Mask]) -> Mask:
    """Return where all of the masks, at least one, are True; it may be one of them."""
    first, *others = masks
    if others:
        first = first & others[0]
        for mask in others[1:]:
            first &= mask
    return first


def roots_allowed(table: ProviderTable, query: CandidateQuery) -> Mask | None:
    """Tell for each row whether its traits allow it to be an anchor; None when all may."""
    masks = [has_any(table, (trait,)) for trait in query.root_required]
    if query.root_forbidden:
        masks.append(~has_any(table, query.root_forbidden))
    return all_of(masks) if masks else None


def _single(table: ProviderTable, group: CandidateGroup, place: int) -> Slot:
    """Return the slot of a group with a suffix."""
    masks = [fits(table, name, amount) for name, amount in group.amounts.items()]
    own = all_of((*masks, *(one.mask for one in filters_of(table, group))))
    return Slot(place, tuple(group.amounts.items()), is_single=True, own=own, lent=own)


def _spread(table: ProviderTable, group: CandidateGroup, place: int) -> Iterator[Slot]:
    """Yield the slots of the unsuffixed group, one a class."""
    has_sharers = table.sharing().rows.size > 0
    mine = [one.mask for one in filters_of(table, group)]
    lent = [one.mask for one in filters_of(table, group, is_lent=True)] if has_sharers else []
    borrowers = ~is_member(table, group.outside_of) if group.outside_of and has_sharers else None
    own_base = (all_of(mine),) if mine else ()
    lent_base = (all_of(lent),) if lent else ()
    for name, amount in group.amounts.items():
        mask = fits(table, name, amount)
        yield Slot(
            place,
            ((name, amount),),
            is_single=False,
            own=all_of((mask, *own_base)),
            lent=all_of((mask, *lent_base)),
            borrowers=borrowers,
        )


def _in_tree(table: ProviderTable, group: CandidateGroup, *, is_lent: bool) -> Mask:
    """Tell for each row whether it is where a group must be."""
    row = table.row_of(group.in_tree or "")
    if row is None or (is_lent and not group.suffix):
        return no_rows(table)
    if not group.amounts:
        return table.alive
    within: Mask = table.root == table.root[row]
    return within
