"""The replica: the host table at a version of the ledger, plus this process's own claims."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_image import ServerImage
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, PendingRequest
from berth.services.replica.instance_overlay import InstanceOverlay
from berth.tables.host.feed import (
    apply_event,
    attributes_of,
    located_resident,
    resident_of,
    table_of,
)
from berth.tables.host.holding import hold, release_hold, set_attributes
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes

# At most this many look-ups of hosts by name are cached. Many instances go to few hosts.
_FOUND_MAX = 1_024
# The usage of up to this many providers is set one by one, which is then faster than with arrays.
_ONE_BY_ONE = 8


@dataclass(frozen=True, slots=True)
class Hold:
    """The share of a host that one instance will use once its claim is committed.

    `amounts` are the requested amounts by resource class. CPUs and devices are in the resident's
    assignment.
    """

    resident: Resident
    host_uuid: str
    amounts: Mapping[str, int]
    attributes: Attributes = NO_ATTRIBUTES

    @property
    def instance_uuid(self) -> str:
        """The uuid of the instance, or of the migration on the other host of a move."""
        return self.resident.uuid


@dataclass(slots=True)
class _Held:
    """A hold, and its present effect on the host table.

    `version` is the version that committed the claim, None until that is known. With `takes_room`
    the table includes the amounts, and with `occupies` it has the instance because of this hold. A
    hold on a host that is not in the table has no effect until the host is back. A hold of an
    instance that the table already has on a host takes room, but leaves the instance where it is.
    """

    hold: Hold
    version: int | None = None
    takes_room: bool = False
    occupies: bool = False


class Replica:
    """A subscriber of the feed that keeps the host table, small records and pending requests.

    A hold makes a decision visible to the next one immediately. It ends when the feed reports the
    claim, in the same step, so that usage is never counted twice or missed; it also ends when the
    claim is rejected. Each hold has one owner, which releases or settles it.
    """

    def __init__(self) -> None:
        self.hosts = HostTable()
        self.flavors: dict[str, Flavor] = {}
        self.quotas: dict[str, Quota] = {}
        self.server_images: dict[str, ServerImage] = {}
        self.pending: dict[str, PendingRequest] = {}
        # The event is set when a pending request arrives; the waiter clears it.
        self.pending_arrived = asyncio.Event()
        self._held: dict[str, _Held] = {}
        # The newest version that claimed one of the holds kept by `load`, or None. The ledger may
        # have lost it, and then no event ends the hold.
        self._kept_until: int | None = None
        # The holds that the version being applied has ended, by host uuid, until the usage event of
        # the host arrives.
        self._handed_over: dict[str, list[Hold]] = {}
        # The cached results of `_find`, and the table's membership epoch for which they are valid.
        self._found: dict[tuple[str, str | None], str | None] = {}
        self._found_at = 0
        # Heartbeats that gateways have reported outside the feed, in Unix seconds.
        self._alive_s: dict[str, float] = {}
        self.overlay = InstanceOverlay(self.is_placed_by_hold)

    def load(self, snapshot: Snapshot) -> None:
        """Replace all state except holds whose claims the snapshot lacks; see `Subscriber.load`.

        An instance whose claim was committed may be missing from the snapshot because it has been
        deleted, so its hold also ends if the snapshot is not older than the claim.
        """
        self.hosts = table_of(snapshot)
        for host in self._alive_s:
            self._restore_heartbeat(host)
        self.overlay.forget()
        self._handed_over.clear()
        self._found.clear()
        self.flavors = {flavor.flavor_id: flavor for flavor in snapshot.flavors}
        self.quotas = {quota.project_id: quota for quota in snapshot.quotas}
        self.server_images = {image.image_id: image for image in snapshot.server_images}
        self.pending = {one.request.request_id: one for one in snapshot.pending_requests}
        self.pending_arrived.set()
        placed = {one.uuid for one in snapshot.instances if one.host is not None}
        # A hold on the other host of a move has the uuid of its migration.
        placed |= {one.uuid for one in snapshot.migrations}
        kept = {
            uuid: _Held(held.hold, held.version)
            for uuid, held in self._held.items()
            if uuid not in placed and not _has_passed(held, snapshot.version)
        }
        self._held = kept
        self._kept_until = max(
            (held.version for held in kept.values() if held.version is not None), default=None
        )
        for held in kept.values():
            self._count(held)

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes; see `Subscriber.apply`."""
        hosts, overlay = self.hosts, self.overlay.hosts
        # Amounts are absolute, so only the last usage of each provider counts. It is put in the
        # table after all instances, because NumPy sets many rows in about the time of a few.
        used: dict[str, Mapping[str, int]] = {}
        for change in changes:
            # When a new version begins, the previous one is complete and must have reported the
            # usage of handed-over holds.
            if change.version != hosts.version:
                self._end_version()
            hosts.version = change.version
            event = change.event
            if overlay and self._process_overlaid(event):
                continue
            if isinstance(event, Service):
                apply_event(hosts, event)
                self._restore_heartbeat(event.host)
            elif isinstance(event, Usage):
                self._handed_over.pop(event.provider_uuid, None)
                used[event.provider_uuid] = event.used
            elif isinstance(event, Instance):
                self._apply_instance(event)
            else:
                # The event may be the record of a provider, which has a newer usage.
                self._put_used(used)
                self._apply_other(event)
        self._end_version()
        self._put_used(used)
        if self._kept_until is not None and hosts.version >= self._kept_until:
            self._kept_until = None
            self._release_passed()

    def _put_used(self, used: dict[str, Mapping[str, int]]) -> None:
        """Set the used amounts of providers in the table, and clear the mapping."""
        # The amounts are absolute, and include those of the holds that `_hand_over` has ended.
        for provider_uuid in used:
            self._handed_over.pop(provider_uuid, None)
        if len(used) > _ONE_BY_ONE:
            self.hosts.put_used_of(used)
        else:
            for provider_uuid, amounts in used.items():
                self.hosts.put_used(provider_uuid, amounts)
        used.clear()

    def _release_passed(self) -> None:
        """Release the holds whose claim the feed should have reported by now."""
        version = self.hosts.version
        for uuid in [uuid for uuid, held in self._held.items() if _has_passed(held, version)]:
            self.release(uuid)

    def _apply_other(self, event: Event) -> None:
        if self._apply_small(event):
            return
        match event:
            case PendingRequest():
                self.pending[event.request.request_id] = event
                self.pending_arrived.set()
            case RecordRemoved(Kind.PENDING_REQUEST, key):
                self.pending.pop(key, None)
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

    def _apply_small(self, event: Event) -> bool:
        """Apply an event about a flavor, a quota or an image; return whether it is about one."""
        match event:
            case Flavor():
                self.flavors[event.flavor_id] = event
            case RecordRemoved(Kind.FLAVOR, key):
                self.flavors.pop(key, None)
            case Quota():
                self.quotas[event.project_id] = event
            case RecordRemoved(Kind.QUOTA, key):
                self.quotas.pop(key, None)
            case ServerImage():
                self.server_images[event.image_id] = event
            case RecordRemoved(Kind.SERVER_IMAGE, key):
                self.server_images.pop(key, None)
            case _:
                return False
        return True

    def note_alive(self, hosts: Iterable[str], at_s: float) -> None:
        """Note heartbeats of hosts at `at_s` Unix seconds, which are not in any ledger version."""
        newer = [host for host in hosts if at_s > self._alive_s.get(host, 0.0)]
        self._alive_s.update(dict.fromkeys(newer, at_s))
        self.hosts.put_seen(newer, at_s)

    def may_have_instances(self, host: str) -> bool:
        """Return whether the ledger may have an instance on a host, as of the table's version."""
        hosts = self.hosts
        # The agents' casts about these hosts may be older than the table.
        if host in self.overlay.hosts or hosts.orphans.on(host):
            return True
        return any(hosts.occupants.on_row(row) for row in hosts.host_names.of_name(host))

    def service(self, host: str) -> Service | None:
        """Return the compute service of a host, or None if it has none."""
        return self.hosts.services.get(host)

    def alive_s(self, host: str) -> float:
        """Return the Unix time of the last heartbeat outside the feed, 0 if there was none."""
        return self._alive_s.get(host, 0.0)

    def last_seen_s(self, service: Service) -> float:
        """Return the Unix time of the last heartbeat of a service that was read from the ledger.

        The record has the time of the last registration, by a clock that may have been set since.
        """
        return self._alive_s.get(service.host, service.last_seen_s)

    def with_heartbeat(self, service: Service) -> Service:
        """Return a service that was read from the ledger, with the last heartbeat known here."""
        return replace(service, last_seen_s=self.last_seen_s(service))

    def shift_heartbeats(self, seconds: float) -> None:
        """Shift the times of heartbeats by `seconds`, after such a step of the system clock."""
        seen_s = self.hosts.last_seen_s
        for row in map(int, self.hosts.alive_rows()):
            self._alive_s.setdefault(self.hosts.name(row), seen_s.item(row))
        self._alive_s = {host: at_s + seconds for host, at_s in self._alive_s.items()}
        for host, at_s in self._alive_s.items():
            self.hosts.put_seen((host,), at_s)

    def _restore_heartbeat(self, host: str) -> None:
        """Restore a service's last heartbeat in the table, because its record lacks it."""
        at_s = self._alive_s.get(host)
        if at_s is not None:
            self.hosts.put_seen((host,), at_s)

    def hold(self, hold: Hold) -> None:
        """Add an instance and its amounts to a host before the feed reports them."""
        # A retry after a lost claim holds the same instance on another host.
        self.release(hold.instance_uuid)
        held = self._held[hold.instance_uuid] = _Held(hold)
        self._count(held)

    def release(self, instance_uuid: str) -> None:
        """End a hold, unless the feed has already ended it by reporting the claim."""
        held = self._held.pop(instance_uuid, None)
        if held is not None:
            self._forget(held)

    def settle(self, instance_uuids: Iterable[str], version: int) -> None:
        """Record that the claim of these instances was committed as `version`.

        Their holds end when the feed reports the claim, or now if the table is at that version.
        """
        for uuid in instance_uuids:
            held = self._held.get(uuid)
            if held is None:
                continue
            held.version = version
            if _has_passed(held, self.hosts.version):
                self.release(uuid)

    @property
    def held(self) -> int:
        """The number of holds."""
        return len(self._held)

    def is_placed(self, instance_uuid: str) -> bool:
        """Return whether the table has an instance on a host, or this process holds it on one."""
        return (
            instance_uuid in self._held
            or self.hosts.occupants.by_uuid.get(instance_uuid) is not None
        )

    def _process_overlaid(self, event: Event) -> bool:
        """Process an event about an overlaid host; return whether it must not be applied.

        If the event reports a claim of this process, the hold ends; see `InstanceOverlay`.
        """
        match event:
            case Instance() | Migration():
                located, uuid = located_resident(event), event.uuid
            case RecordRemoved(Kind.INSTANCE | Kind.MIGRATION, key):
                located, uuid = None, key
            case _:
                return False
        if not self.overlay.ignores_event(self.hosts, uuid, located):
            return False
        waits = isinstance(event, Instance) and event.status is not Status.DELETED
        if located is None and waits:
            return True  # the claim of the hold is not committed yet
        held = self._held.pop(uuid, None)
        if held is not None:
            self._forget(held)
            if located is not None:
                self.overlay.expect(self.hosts, located)
        return True

    def is_placed_by_hold(self, instance_uuid: str) -> bool:
        """Return whether the table has an instance on its host only because of a hold."""
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
        # An instance that still waits for a host keeps its hold, whose claim is not committed yet.
        if instance.host is None and instance.status is not Status.DELETED:
            self._count(held)
        else:
            del self._held[instance.uuid]

    def _hand_over(self, held: _Held, instance: Instance) -> bool:
        """End a hold that equals the reported instance, and return whether that was possible.

        The table keeps the amounts, now as usage. The version that placed the instance also reports
        that usage, so removing and adding the amounts would be wasted work.
        """
        own_hold = held.hold
        is_same = held.occupies and own_hold.resident == resident_of(instance)
        if not is_same or instance.status is Status.DELETED:
            return False
        row = self.hosts.row_of(own_hold.host_uuid)
        is_here = self._find(instance.host or "", instance.node) == own_hold.host_uuid
        # The assignment of a hold is not part of its resident in the table, so the table must
        # change.
        if row is None or not is_here or own_hold.resident.assignment is not None:
            return False
        attributes = attributes_of(instance)
        if own_hold.attributes != attributes:
            set_attributes(self.hosts, instance.uuid, attributes)
        self.hosts.confirm_hold(row, own_hold.amounts)
        self._handed_over.setdefault(own_hold.host_uuid, []).append(own_hold)
        del self._held[instance.uuid]
        return True

    def _find(self, name: str, node: str | None) -> str | None:
        """Return the result of `HostTable.find`, cached until a host is added or removed."""
        found, roster, key = self._found, self.hosts.membership_epoch, (name, node)
        if self._found_at != roster or len(found) > _FOUND_MAX:
            found.clear()
            self._found_at = roster
        if key not in found:
            found[key] = self.hosts.find(name, node)
        return found[key]

    def _end_version(self) -> None:
        """Remove the amounts of handed-over holds whose host's usage the version did not report.

        That happens when an instance is stored as placed without a claim on that host.
        """
        if not self._handed_over:
            return
        for own_hold in chain.from_iterable(self._handed_over.values()):
            row = self.hosts.row_of(own_hold.host_uuid)
            if row is not None:
                self.hosts.undo_confirm_hold(row, own_hold.amounts)
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
        own_hold = held.hold
        row = self.hosts.row_of(own_hold.host_uuid)
        if row is None:
            return
        hold(self.hosts, row, own_hold.amounts, own_hold.resident.assignment)
        held.takes_room = True
        if self.hosts.occupants.by_uuid.get(own_hold.instance_uuid) is None:
            resident = own_hold.resident
            if resident.assignment is not None:
                resident = replace(resident, assignment=None)
            self.hosts.put_instance(own_hold.host_uuid, resident, own_hold.attributes)
            held.occupies = True

    def _forget(self, held: _Held) -> None:
        own_hold = held.hold
        row = self.hosts.row_of(own_hold.host_uuid)
        if held.takes_room and row is not None:
            release_hold(self.hosts, row, own_hold.amounts, own_hold.resident.assignment)
        if held.occupies:
            self.hosts.remove_instance(own_hold.instance_uuid)
        held.takes_room = held.occupies = False


def _has_passed(held: _Held, version: int) -> bool:
    return held.version is not None and held.version <= version
