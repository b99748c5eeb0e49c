"""The replica: this process's host table, true to the ledger and ahead of it by its own claims."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, PendingRequest
from berth.services.replica.instance_overlay import InstanceOverlay
from berth.tables.host.feed import apply_event, located_resident, resident_of, table_of
from berth.tables.host.holding import hold, release_hold
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident

_FOUND_MAX = 1_024
"""Look-ups of hosts by name that are kept: many instances go to few hosts."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What one instance will use of a host once its claim is committed.

    `amounts` are what the request asks for; the resident's assignment says what goes beyond.
    """

    resident: Resident
    host_uuid: str
    amounts: Mapping[str, int]

    @property
    def instance_uuid(self) -> str:
        """The instance."""
        return self.resident.uuid


@dataclass(slots=True)
class _Held:
    """A hold and what the table counts for it now.

    `version` is the one that committed the claim, once that is known. A hold on a host that is
    not in the table counts for nothing until the host is back; one of an instance that the table
    has on a host already takes room, but does not move it.
    """

    hold: Hold
    version: int | None = None
    takes_room: bool = False
    occupies: bool = False


class Replica:
    """A subscriber of the feed that keeps the host table, flavors and pending requests.

    A hold makes a decision count at once for the next one. It ends when the feed tells the
    instance's own claim (in the same step, so that nothing is counted twice or not at all), or
    when the claim is refused. Each has one owner, who releases it or settles it.
    """

    def __init__(self) -> None:
        self.hosts = HostTable()
        self.flavors: dict[str, Flavor] = {}
        self.quotas: dict[str, Quota] = {}
        self.pending: dict[str, PendingRequest] = {}
        self.pending_arrived = asyncio.Event()
        """Set whenever a pending request comes; whoever waits for it clears it."""
        self._held: dict[str, _Held] = {}
        self._handed_over: dict[str, list[Hold]] = {}
        """Holds that this version has ended, by host, until it tells what is used there."""
        self._found: dict[tuple[str, str | None], str | None] = {}
        self._found_at = 0
        """Hosts that instances were told of lately, and the table's roster at the time."""
        self.beside = InstanceOverlay(self.is_placed_by_hold)

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`; holds are kept, but for claims that the snapshot has.

        An instance whose claim was committed may be gone again from the snapshot, so what counts
        is the version of the claim, where it is known.
        """
        self.hosts = table_of(snapshot)
        self.beside.forget()
        self._handed_over.clear()
        self._found.clear()
        self.flavors = {flavor.flavor_id: flavor for flavor in snapshot.flavors}
        self.quotas = {quota.project_id: quota for quota in snapshot.quotas}
        self.pending = {one.request.request_id: one for one in snapshot.pending_requests}
        self.pending_arrived.set()
        placed = {one.uuid for one in snapshot.instances if one.host is not None}
        placed |= {one.uuid for one in snapshot.migrations}
        kept = {
            uuid: _Held(held.hold, held.version)
            for uuid, held in self._held.items()
            if uuid not in placed and not _is_told(held, snapshot.version)
        }
        self._held = kept
        for held in kept.values():
            self._count(held)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        hosts, beside = self.hosts, self.beside.hosts
        for change in changes:
            if change.version != hosts.version:
                self._end_version()
            hosts.version = change.version
            event = change.event
            if beside and self._is_overlaid(event):
                continue
            if isinstance(event, Usage):
                self._handed_over.pop(event.provider_uuid, None)
                hosts.put_used(event.provider_uuid, event.used)
            elif isinstance(event, Instance):
                self._apply_instance(event)
            else:
                self._apply_other(event)
        self._end_version()

    def _apply_other(self, event: Event) -> None:
        match event:
            case PendingRequest():
                self.pending[event.request.request_id] = event
                self.pending_arrived.set()
            case RecordRemoved(Kind.PENDING_REQUEST, key):
                self.pending.pop(key, None)
            case Flavor():
                self.flavors[event.flavor_id] = event
            case RecordRemoved(Kind.FLAVOR, key):
                self.flavors.pop(key, None)
            case Quota():
                self.quotas[event.project_id] = event
            case RecordRemoved(Kind.QUOTA, key):
                self.quotas.pop(key, None)
            case Migration():
                held = self._held.pop(event.uuid, None)
                if held is not None:
                    self._forget(held)
                apply_event(self.hosts, event)
            case Provider():
                self._handed_over.pop(event.uuid, None)
                apply_event(self.hosts, event)
            case Host():
                apply_event(self.hosts, event)
                self._count_on(event.uuid)
            case RecordRemoved(Kind.HOST, key):
                self._forget_on(key)
                apply_event(self.hosts, event)
            case _:
                apply_event(self.hosts, event)

    def hold(self, hold: Hold) -> None:
        """Count an instance as being on a host before the ledger says so."""
        self.release(hold.instance_uuid)
        held = self._held[hold.instance_uuid] = _Held(hold)
        self._count(held)

    def release(self, instance_uuid: str) -> None:
        """End a hold; one that has ended already is no error."""
        held = self._held.pop(instance_uuid, None)
        if held is not None:
            self._forget(held)

    def settle(self, instance_uuids: Iterable[str], version: int) -> None:
        """Note that the claim of these instances was committed as that version.

        Their holds end when the feed gets there; those that it has passed end now.
        """
        for uuid in instance_uuids:
            held = self._held.get(uuid)
            if held is None:
                continue
            held.version = version
            if _is_told(held, self.hosts.version):
                self.release(uuid)

    @property
    def held(self) -> int:
        """How many instances are held."""
        return len(self._held)

    def is_placed(self, instance_uuid: str) -> bool:
        """Tell whether an instance is on a host, or held there."""
        return (
            instance_uuid in self._held
            or self.hosts.occupants.by_uuid.get(instance_uuid) is not None
        )

    def _is_overlaid(self, event: Event) -> bool:
        """Pass an event by that is about hosts whose agents tell of instances; see `InstanceOverlay`.

        What it says of a claim of this process still ends the hold.
        """
        match event:
            case Instance() | Migration():
                located, uuid = located_resident(event), event.uuid
            case RecordRemoved(Kind.INSTANCE | Kind.MIGRATION, key):
                located, uuid = None, key
            case _:
                return False
        if not self.beside.ignores_event(self.hosts, uuid, located):
            return False
        waits = isinstance(event, Instance) and event.status is not Status.DELETED
        if located is None and waits:
            return True  # its claim is still to come
        held = self._held.pop(uuid, None)
        if held is not None:
            self._forget(held)
            if located is not None:
                self.beside.expect(self.hosts, located)
        return True

    def is_placed_by_hold(self, instance_uuid: str) -> bool:
        """Tell whether an instance is where it is in the table by a hold alone."""
        held = self._held.get(instance_uuid)
        return held is not None and held.occupies

    def _apply_instance(self, instance: Instance) -> None:
        held = self._held.get(instance.uuid)
        if held is None:
            apply_event(self.hosts, instance)
            return
        if self._hand_over(held, instance):
            return
        self._forget(held)
        apply_event(self.hosts, instance)
        if instance.host is None and instance.status is not Status.DELETED:
            self._count(held)
        else:
            del self._held[instance.uuid]

    def _hand_over(self, held: _Held, instance: Instance) -> bool:
        """End a hold that is just what the ledger tells now, without a change to the table.

        The unit that placed the instance says what is used, too, before its version ends.
        """
        mine = held.hold
        is_same = held.occupies and mine.resident == resident_of(instance)
        if not is_same or instance.status is Status.DELETED:
            return False
        row = self.hosts.row_of(mine.host_uuid)
        is_here = self._find(instance.host or "", instance.node) == mine.host_uuid
        # What is assigned is counted apart from the residents while it is held.
        if row is None or not is_here or mine.resident.assignment is not None:
            return False
        self.hosts.confirm_hold(row, mine.amounts)
        self._handed_over.setdefault(mine.host_uuid, []).append(mine)
        del self._held[instance.uuid]
        return True

    def _find(self, name: str, node: str | None) -> str | None:
        """Return what `HostTable.find` does, which stays as long as no host comes or leaves."""
        found, roster, key = self._found, self.hosts.membership_epoch, (name, node)
        if self._found_at != roster or len(found) > _FOUND_MAX:
            found.clear()
            self._found_at = roster
        if key not in found:
            found[key] = self.hosts.find(name, node)
        return found[key]

    def _end_version(self) -> None:
        """Take back what was handed over to a ledger that did not count it."""
        if not self._handed_over:
            return
        for mine in chain.from_iterable(self._handed_over.values()):
            row = self.hosts.row_of(mine.host_uuid)
            if row is not None:
                self.hosts.undo_confirm_hold(row, mine.amounts)
        self._handed_over.clear()

    def _count_on(self, host_uuid: str) -> None:
        for held in self._held.values():
            if held.hold.host_uuid == host_uuid and not held.takes_room:
                self._count(held)

    def _forget_on(self, host_uuid: str) -> None:
        for held in self._held.values():
            if held.hold.host_uuid == host_uuid:
                self._forget(held)

    def _count(self, held: _Held) -> None:
        mine = held.hold
        row = self.hosts.row_of(mine.host_uuid)
        if row is None:
            return
        hold(self.hosts, row, mine.amounts, mine.resident.assignment)
        held.takes_room = True
        if self.hosts.occupants.by_uuid.get(mine.instance_uuid) is None:
            resident = mine.resident
            if resident.assignment is not None:
                resident = replace(resident, assignment=None)
            self.hosts.put_instance(mine.host_uuid, resident)
            held.occupies = True

    def _forget(self, held: _Held) -> None:
        mine = held.hold
        row = self.hosts.row_of(mine.host_uuid)
        if held.takes_room and row is not None:
            release_hold(self.hosts, row, mine.amounts, mine.resident.assignment)
        if held.occupies:
            self.hosts.remove_instance(mine.instance_uuid)
        held.takes_room = held.occupies = False


def _is_told(held: _Held, version: int) -> bool:
    return held.version is not None and held.version <= version
