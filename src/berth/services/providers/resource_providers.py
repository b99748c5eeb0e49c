"""Creates, renames, moves, removes and queries resource providers."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from berth.domain.inventory.provider import Provider
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Guard, Remove, ReplaceProvider, Unit
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import Ledger
from berth.scheduling.candidates.masks import fits, has_any, is_member
from berth.services.providers.provider_trees import tree_guard
from berth.services.providers.provider_writes import (
    ProviderRefusedError,
    ProviderWrites,
    RefusalRule,
    name_guard,
    provider_at_version,
    provider_guard,
    row_in,
)
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.tables.columnar.bitsets import Rows
from berth.tables.provider.lineage import NO_ROW
from berth.tables.provider.providers import ProviderTable


@dataclass(frozen=True, slots=True)
class Unset:
    """The type of `UNSET`, which stands for an argument that was not given."""


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """A query for providers that meet all of its conditions.

    Args:
        name: the exact name, or None for any.
        uuid: the uuid, or None for any.
        in_tree: the uuid of a provider in the same tree, or None for any tree.
        amounts: pairs of a resource class and an amount, at least 1, that one allocation must be
            able to get.
        required: sets of traits; the provider must have at least one trait of each set.
        forbidden: traits that the provider must not have.
        member_of: sets of aggregates; the provider must be in at least one aggregate of each set.
        outside_of: aggregates in which the provider must not be.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    amounts: tuple[tuple[str, int], ...] = ()
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    outside_of: frozenset[str] = frozenset()


class ResourceProviders(ProviderWrites):
    """Manages the providers of the Placement API, including those that agents report.

    Methods that write also raise `UnitRejectedError` if the ledger rejects a change twice in a row
    for a reason that has no `RefusalRule`.

    Args:
        follower: keeps the tables up to date with the ledger.
        ledger: stores the providers.
        replica: contains all providers and the known names.
        clock: provides the times in records.
        ids: makes the uuids of new providers.
    """

    def __init__(
        self,
        *,
        follower: Follower,
        ledger: Ledger,
        replica: ProviderReplica,
        clock: Clock,
        ids: Ids,
    ) -> None:
        super().__init__(follower=follower, ledger=ledger, replica=replica, clock=clock)
        self._ids = ids

    async def create(self, name: str, uuid: str | None, parent_uuid: str | None) -> Provider:
        """Create a provider without inventories, and return it.

        Args:
            name: its unique name.
            uuid: its uuid, or None for a new one.
            parent_uuid: its parent, or None for a root.

        Raises:
            ProviderRefusedError: the name or the uuid is taken, the name is empty, the parent does
                not exist, the parent is the provider itself, or every attempt lost a race.
            UnavailableError: the ledger cannot be reached.
        """
        now_s = self._clock.now_s()
        provider = Provider(
            uuid=uuid or self._ids.uuid(),
            name=name,
            parent_uuid=parent_uuid,
            owned_traits=frozenset(),
            owned_classes=frozenset(),
            created_at_s=now_s,
            updated_at_s=now_s,
        )

        def decide(seen: int) -> Unit:
            table = self._replica.table
            if not name:
                raise ProviderRefusedError(RefusalRule.NO_NAME, provider.uuid)
            guards = [Guard(provider_guard(provider.uuid), seen), Guard(name_guard(name), seen)]
            if parent_uuid is not None:
                guards.append(_below(table, parent_uuid, provider.uuid, seen))
            if table.row_of(provider.uuid) is not None or provider.uuid in table.unattached:
                raise ProviderRefusedError(RefusalRule.UUID_TAKEN, provider.uuid)
            _check_name(table, name, provider.uuid)
            return (*guards, Add(provider))

        await self._save(decide)
        return provider

    async def change(
        self, uuid: str, *, name: str, parent: str | Unset | None = UNSET, may_move: bool
    ) -> Provider:
        """Rename a provider, put it under another parent or make it a root, and return it.

        Its generation does not change.

        Args:
            uuid: the provider.
            name: its unique name.
            parent: the parent's uuid, None for a root, or `UNSET` to keep the current parent.
            may_move: whether a provider that has a parent may get another one or become a root.

        Raises:
            ProviderRefusedError: the provider or the parent does not exist, the name is taken, the
                provider must not be moved, the parent is a descendant of it, or every attempt lost
                a race.
            UnavailableError: the ledger cannot be reached.
        """
        now_s = self._clock.now_s()

        def decide(seen: int) -> Unit:
            table = self._replica.table
            row = row_in(table, uuid)
            old = table.base_record(row)
            guards = [Guard(provider_guard(uuid), seen)]
            above = old.parent_uuid if isinstance(parent, Unset) else parent
            if above != old.parent_uuid:
                guards += _moved(table, row, above, seen, may_move=may_move)
            if name != old.name:
                _check_name(table, name, uuid)
                guards.append(Guard(name_guard(name), seen))
            new = replace(old, name=name, parent_uuid=above, updated_at_s=now_s)
            return (*guards, ReplaceProvider(new, raises=0))

        version = await self._save(decide)
        return await provider_at_version(self._ledger, self._replica, version, uuid)

    async def remove(self, uuid: str) -> None:
        """Remove a provider with its inventories.

        Raises:
            ProviderRefusedError: the provider does not exist, has children, is in use, or every
                attempt lost a race.
            ConflictError: the provider belongs to a host.
            UnavailableError: the ledger cannot be reached.
        """

        def decide(seen: int) -> Unit:
            table = self._replica.table
            row = row_in(table, uuid)
            if table.lineage.children_of(row):
                raise ProviderRefusedError(RefusalRule.HAS_CHILDREN, uuid)
            # The ledger checks usage again in the commit; this check provides the rule for the
            # error.
            if any(table.used(row).values()):
                raise ProviderRefusedError(RefusalRule.HAS_ALLOCATIONS, uuid)
            # The addition of a child carries a guard on its parent, so none is added concurrently.
            return (Guard(provider_guard(uuid), seen), Remove(Kind.PROVIDER, uuid))

        await self._save(decide)

    def matching(self, query: ProviderQuery) -> Rows:
        """Return the rows of the providers that match a query, ascending.

        Raises:
            ProviderRefusedError: the query names an unknown resource class or trait.
        """
        self._check_names(query)
        table = self._replica.table
        if query.name is None and query.uuid is None:
            return _filtered(table, query)
        found = set[int]() if query.uuid is None else {table.row_of(query.uuid)}
        if query.name is not None:
            named = table.by_name.rows(query.name)
            found = set(named) if query.uuid is None else found & named
        rows = np.array(sorted(row for row in found if row is not None), dtype=np.intp)
        rest = replace(query, name=None, uuid=None)
        return rows if rest == _ANY else rows[np.isin(rows, _filtered(table, rest))]

    def _check_names(self, query: ProviderQuery) -> None:
        vocabulary = self._replica.vocabulary
        for traits in (*query.required, query.forbidden):
            for name in sorted(traits):
                if not vocabulary.traits.is_known(name):
                    raise ProviderRefusedError(RefusalRule.NO_TRAIT, name)
        for name, _ in query.amounts:
            if not vocabulary.classes.is_known(name):
                raise ProviderRefusedError(RefusalRule.NO_CLASS, name)


_ANY: Final = ProviderQuery()


def _filtered(table: ProviderTable, query: ProviderQuery) -> Rows:
    """Return the rows that meet all conditions of a query except name and uuid."""
    found = table.alive
    if query.in_tree is not None:
        row = table.row_of(query.in_tree)
        if row is None:
            return np.zeros(0, dtype=np.intp)
        found = found & (table.root == table.root[row])
    for traits in query.required:
        found = found & has_any(table, traits)
    if query.forbidden:
        found = found & ~has_any(table, query.forbidden)
    for uuids in query.member_of:
        found = found & is_member(table, uuids)
    if query.outside_of:
        found = found & ~is_member(table, query.outside_of)
    for name, amount in query.amounts:
        found = found & fits(table, name, amount)
    return np.flatnonzero(found)


def _check_name(table: ProviderTable, name: str, uuid: str) -> None:
    taken = {table.uuid(row) for row in table.by_name.rows(name)}
    # Unattached providers have no row, but their names are also taken.
    taken |= {key for key, waits in table.unattached.items() if waits.name == name}
    if taken - {uuid}:
        raise ProviderRefusedError(RefusalRule.NAME_TAKEN, name)


def _below(table: ProviderTable, parent_uuid: str, uuid: str, seen: int) -> Guard:
    """Return the guard on a new parent, which must exist and not be the provider itself.

    Raises:
        ProviderRefusedError: the parent does not exist, or is the provider itself.
    """
    if parent_uuid == uuid:
        raise ProviderRefusedError(RefusalRule.OWN_PARENT, uuid)
    if table.row_of(parent_uuid) is None:
        raise ProviderRefusedError(RefusalRule.NO_PARENT, parent_uuid)
    return _staying(parent_uuid, seen)


def _staying(parent_uuid: str, seen: int) -> Guard:
    """Return the shared guard on a parent, which must not be removed concurrently."""
    return Guard(provider_guard(parent_uuid), seen, is_shared=True)


def _moved(
    table: ProviderTable, row: int, parent_uuid: str | None, seen: int, *, may_move: bool
) -> list[Guard]:
    """Check a move, and return the guards on the new parent and on both trees.

    Raises:
        ProviderRefusedError: the parent does not exist, the provider must not be moved, or
            the parent is a descendant of it.
    """
    uuid = table.uuid(row)
    has_parent = table.parent.item(row) != NO_ROW
    # Both trees are guarded, because two concurrent moves could form a loop that neither of them
    # sees.
    roots = {table.root.item(row)}
    if parent_uuid is None:
        if not may_move:
            raise ProviderRefusedError(RefusalRule.BECOMES_ROOT, uuid)
        return _tree_guards(table, roots, seen)
    parent = table.row_of(parent_uuid)
    if parent is None:
        raise ProviderRefusedError(RefusalRule.NO_PARENT, parent_uuid)
    if has_parent and not may_move:
        raise ProviderRefusedError(RefusalRule.MOVES, uuid)
    if _is_within(table, parent, row):
        raise ProviderRefusedError(RefusalRule.LOOP, uuid)
    roots.add(table.root.item(parent))
    return [_staying(parent_uuid, seen), *_tree_guards(table, roots, seen)]


def _tree_guards(table: ProviderTable, roots: set[int], seen: int) -> list[Guard]:
    return [Guard(tree_guard(uuid), seen) for uuid in sorted(map(table.uuid, roots))]


def _is_within(table: ProviderTable, row: int, top: int) -> bool:
    """Return whether a row is `top` or a descendant of it."""
    while row not in (NO_ROW, top):
        row = table.parent.item(row)
    return row == top
