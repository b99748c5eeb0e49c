"""Resource providers: made, named, moved in their trees, removed and found."""

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
    """Stands for what the client did not say."""


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """Which providers are asked for: those that all of it is true of, each by itself.

    Args:
        name: whole name; None for any.
        uuid: of the provider.
        in_tree: of a provider in the same tree.
        amounts: by resource class, each at least 1, that one allocation could be made of.
        required: of each of these sets of traits, it has one.
        forbidden: it has none of these traits.
        member_of: it is in an aggregate of each of these sets.
        outside_of: it is in none of these aggregates.
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
    """The providers of the Placement API, which are those that agents report, too."""

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
        """Make a provider that has nothing yet.

        Args:
            name: which no other has.
            uuid: None for one made here.
            parent_uuid: None for a root.

        Raises:
            ProviderRefusedError: the name or uuid is taken or empty, or the parent is not there.
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
        """Name a provider, and put it below another one or make it a root.

        Its generation stays as it is.

        Args:
            uuid: of the provider.
            name: which no other has.
            parent: uuid; None for a root, `UNSET` to leave it where it is.
            may_move: it may have a parent already that is another.

        Raises:
            ProviderRefusedError: the provider or the parent does not exist, the name is taken, the
                provider may not be moved, or the parent is below it.
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
        """Remove a provider with all that it has.

        Raises:
            ProviderRefusedError: it is not there, has children, or something of it is used.
            ConflictError: it belongs to a host.
        """

        def decide(seen: int) -> Unit:
            table = self._replica.table
            row = row_in(table, uuid)
            if table.children_of(row):
                raise ProviderRefusedError(RefusalRule.HAS_CHILDREN, uuid)
            if any(table.used(row).values()):
                raise ProviderRefusedError(RefusalRule.HAS_ALLOCATIONS, uuid)
            # Whoever puts something below it names it, too.
            return (Guard(provider_guard(uuid), seen), Remove(Kind.PROVIDER, uuid))

        await self._save(decide)

    def matching(self, query: ProviderQuery) -> Rows:
        """Return the rows of the providers that a query asks for, ascending.

        Raises:
            ProviderRefusedError: it names a resource class or traits that nobody knows.
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
    """Return the rows that all of a query, but for name and uuid, is true of."""
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
    taken |= {key for key, waits in table.unattached.items() if waits.name == name}
    if taken - {uuid}:
        raise ProviderRefusedError(RefusalRule.NAME_TAKEN, name)


def _below(table: ProviderTable, parent_uuid: str, uuid: str, seen: int) -> Guard:
    """Name a parent that is to be there when a provider is put below it."""
    if parent_uuid == uuid:
        raise ProviderRefusedError(RefusalRule.OWN_PARENT, uuid)
    if table.row_of(parent_uuid) is None:
        raise ProviderRefusedError(RefusalRule.NO_PARENT, parent_uuid)
    return _staying(parent_uuid, seen)


def _staying(parent_uuid: str, seen: int) -> Guard:
    """Name a parent that nobody may remove meanwhile, client or agent."""
    return Guard(provider_guard(parent_uuid), seen, is_shared=True)


def _moved(
    table: ProviderTable, row: int, parent_uuid: str | None, seen: int, *, may_move: bool
) -> list[Guard]:
    """Check where a provider is to be moved; name its parent, and both trees against rings."""
    uuid = table.uuid(row)
    has_parent = table.parent.item(row) != NO_ROW
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
    """Tell whether a row is another one or below it."""
    while row not in (NO_ROW, top):
        row = table.parent.item(row)
    return row == top
