"""Reloads one host's instance list from the ledger while the host table keeps changing."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.errors import ConflictError
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.services.replica.follower import Follower
from berth.services.replica.instance_overlay import InstanceOverlay, place_of, with_attributes
from berth.services.replica.ledger_pages import every_instance, every_migration
from berth.services.replica.replica import Replica
from berth.services.tracking.doubtful_lists import NEWEST
from berth.services.tracking.lists import list_digest
from berth.tables.host.feed import located_resident
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.orphans import LocatedResident

_TRIES: Final = 8


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The ledger, and this process's follower and replica of it."""

    ledger: Ledger
    follower: Follower
    replica: Replica

    @property
    def hosts(self) -> HostTable:
        """The host table."""
        return self.replica.hosts

    @property
    def version(self) -> int:
        """The ledger version of the host table."""
        return self.replica.hosts.version

    @property
    def overlay(self) -> InstanceOverlay:
        """The instances in the table that come from casts instead of the feed."""
        return self.replica.overlay


class ReloadResult(NamedTuple):
    """The result of a reload.

    The list is correct at `version` or a later one and has `instances` entries; `was_wrong` says
    whether the reload changed it.
    """

    version: int
    instances: int
    was_wrong: bool


class ListReloader:
    """Reloads instance lists, with a separate lock for each host."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def reload(self, host: str, is_wanted: Callable[[], bool]) -> ReloadResult | None:
        """Set the table's list of a host to that of the ledger.

        The ledger is read after the table has caught up. If the table's list does not change during
        the read, the result is at least as new as the table, and later changes of the feed are
        applied on top of it.

        Returns:
            The result, or None if the reload is no longer wanted.

        Raises:
            UnavailableError: the ledger cannot be reached.
            ConflictError: the list changes faster than it can be read.
        """
        async with self._locks.setdefault(host, asyncio.Lock()):
            for _ in range(_TRIES):
                if not is_wanted():
                    return None
                found = await self._try(host)
                if found is not None:
                    return found
        raise ConflictError(
            f"cannot reload the instances of host {host}: they changed in each of {_TRIES} reads; "
            "they are reloaded again soon"
        )

    async def _try(self, host: str) -> ReloadResult | None:
        view = self._view
        await view.follower.catch_up()
        table, before = view.hosts, self._list(host)
        version = await view.ledger.version()
        read = await read_list(view.ledger, host)
        is_right = self._is_right(host, read)
        if not is_right:
            # The list may differ only because the ledger was newer than the feed.
            await view.follower.catch_up()
            is_right = self._is_right(host, read)
        # If the list changed during the read, the result may be older than the table.
        if view.hosts is not table or not (is_right or _are_same(before, self._list(host))):
            return None
        if not is_right:
            self._write(host, read)
        return ReloadResult(version, len(read), not is_right)

    def _is_right(self, host: str, read: Sequence[LocatedResident]) -> bool:
        wanted = [
            (one.resident, one.attributes)
            for one in read
            if not self._view.replica.is_placed_by_hold(one.uuid)
        ]
        here = with_attributes(self._view.hosts, self._list(host))
        return list_digest(here) == list_digest(wanted)

    def _write(self, host: str, read: Sequence[LocatedResident]) -> None:
        """Set the table's list to the one that was read, without touching this process's holds."""
        view, here = self._view, self._list(host)
        known = dict(zip(here, with_attributes(view.hosts, here), strict=True))
        for uuid in here.keys() - {one.uuid for one in read}:
            view.overlay.remove(view.hosts, uuid, host, NEWEST)
        for located in read:
            if known.get(located.uuid) != (located.resident, located.attributes):
                view.overlay.put(view.hosts, located, NEWEST)

    def _list(self, host: str) -> dict[str, Resident]:
        return self._view.overlay.residents_on(self._view.hosts, host, self._view.version)


def _are_same(before: dict[str, Resident], after: dict[str, Resident]) -> bool:
    """Return whether a list is unchanged.

    Identity is compared, because every write creates a new resident.
    """
    return before.keys() == after.keys() and all(after[uuid] is one for uuid, one in before.items())


async def hosts_with_wrong_members(view: LedgerView, group_uuid: str) -> set[str]:
    """Return the names of hosts on which ledger and table have different members of a group.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    members = {one.uuid: one for one in await read_group(view.ledger, group_uuid)}
    hosts = view.hosts
    found = {one.name for uuid, one in members.items() if place_of(hosts, uuid) != one.name}
    for row in hosts.occupants.groups.rows(group_uuid):
        for uuid in hosts.occupants.on_row(row):
            one = hosts.occupants.by_uuid.get(uuid)
            # An instance that is in the table only because of a hold is not in the ledger yet.
            is_member = one is not None and one.group_uuid == group_uuid
            if is_member and uuid not in members and not view.replica.is_placed_by_hold(uuid):
                found.add(hosts.name(row))
    return found


async def read_list(ledger: Ledger, host: str) -> list[LocatedResident]:
    """Return the instances and moves on a host from the ledger.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    records: list[Instance | Migration] = [
        one async for one in every_instance(ledger, InstanceQuery(host=host))
    ]
    moves = every_migration(ledger, MigrationQuery(host=host, is_live=True))
    records += [one async for one in moves]
    located = map(located_resident, records)
    return [one for one in located if one is not None and one.name == host]


async def read_group(ledger: Ledger, group_uuid: str) -> list[LocatedResident]:
    """Return the members of a server group with their hosts, including both hosts of a move.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    found: list[LocatedResident] = []
    async for member in every_instance(ledger, InstanceQuery(group_uuid=group_uuid)):
        move = None
        if member.migration_uuid is not None:
            move = await ledger.get(Migration, member.migration_uuid)
        located = [located_resident(one) for one in (member, move) if one is not None]
        found += [one for one in located if one is not None]
    return found
