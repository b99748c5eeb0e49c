"""The auditor's books: the records of the ledger's feed, checked version by version.

They are plain dictionaries, and sums are computed anew each time. No code is shared with the
ledger, the tables or the services, so a mistake in those cannot hide here.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable

from berth.domain.compute.decision import Decision
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, MoveKind, Stage
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.allocation import Allocation
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Change, RecordRemoved, Usage
from berth.domain.ledger.record import Kind, PendingRequest
from tests.simulation.edges import AWAY, BUILDING, WAITING, may_follow, may_move_on, state_of
from tests.simulation.rooms import check_sums, nonzero, rooms_of, rooms_of_move

_ON_SOURCE = frozenset(
    {
        Stage.LEAVING,
        Stage.ARRIVING,
        Stage.PREPARING,
        Stage.MOVING,
        Stage.LANDING,
        Stage.WITHDRAWING,
        Stage.RESTORING,
    }
)
_LEFT_OVER = frozenset({Stage.LEFT_BEHIND, Stage.ABANDONED})
_STORING = frozenset({Task.SHELVING, Task.SHELVING_OFFLOADING})
_HOMELESS = frozenset({Status.ERROR, Status.DELETED, Status.SHELVED_OFFLOADED})


class BrokenLawError(AssertionError):
    """A law of the simulation was broken."""


class Books:
    """The records of one run, and the first law that it broke."""

    def __init__(self) -> None:
        self.version = 0
        self.last_changed = 0
        """The newest version with a change of an instance."""
        self.instances: dict[str, Instance] = {}
        self.moves: dict[str, Migration] = {}
        """The moves that have not ended, by uuid."""
        self.pending: dict[str, PendingRequest] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.reset: set[str] = set()
        """Instances whose state an administrator may have reset."""
        self.shelved_in_vain: set[str] = set()
        """Instances whose storing of disks was interrupted or failed: only the driver knows where
        their disks are."""
        self.alternates_taken = 0
        """The number of failed builds that continued on an alternate in the same version."""
        self.broken: BrokenLawError | None = None
        """The first law that was broken, kept here because services would handle an exception."""
        self._capacity: dict[str, dict[str, int]] = {}
        self._hosts: dict[str, str] = {}
        self._groups: dict[str, ServerGroup] = {}
        self._trace = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A hash of all changes, which shows whether two runs were the same."""
        return self._trace.hexdigest()

    def take(self, changes: Iterable[Change], allocations: Iterable[Allocation]) -> None:
        """Enter changes, and check the records after them."""
        try:
            for change in changes:
                if change.version != self.version:
                    self._check_groups()
                self._trace.update(_line_of(change))
                self._enter(change)
            self._check_groups()
            self._check_rooms(allocations)
            self._check_moves()
        except BrokenLawError as error:
            self.accuse(error)

    def accuse(self, error: BrokenLawError) -> None:
        """Record a broken law, unless one was recorded before."""
        self.broken = self.broken or error

    def is_being_cleared(self, uuid: str, host: str) -> bool:
        """Tell whether a host has yet to destroy what it has of an instance."""
        for one in self.moves.values():
            # A host may be back before its evacuation has ended.
            is_evacuated = one.kind is MoveKind.EVACUATION and one.source.host == host
            is_left_over = one.stage in _LEFT_OVER and one.turn == host
            if one.instance_uuid == uuid and (is_evacuated or is_left_over):
                return True
        return False

    def _enter(self, change: Change) -> None:
        if change.version not in {self.version, self.version + 1}:
            raise BrokenLawError(f"version {change.version} after {self.version}")
        self.version = change.version
        match change.event:
            case Instance() as instance:
                self._enter_instance(instance)
                self.last_changed = change.version
            case Migration() as move:
                self._enter_move(move)
            case Provider() as provider:
                inventories = provider.inventories.items()
                self._capacity[provider.uuid] = {
                    name: int((one.total - one.reserved) * one.allocation_ratio)
                    for name, one in inventories
                }
                self.used[provider.uuid] = nonzero(provider.used)
            case Usage(uuid, used):
                self.used[uuid] = nonzero(used)
            case Host() as host:
                self._hosts[host.name] = host.uuid
            case ServerGroup() as group:
                self._groups[group.uuid] = group
            case PendingRequest() as pending:
                self.pending[pending.request.request_id] = pending
            case RecordRemoved(Kind.PENDING_REQUEST, key):
                del self.pending[key]
            case RecordRemoved(Kind.PROVIDER, key):
                del self.used[key], self._capacity[key]
            case _:
                pass

    def _enter_instance(self, instance: Instance) -> None:
        uuid = instance.uuid
        old = self.instances.get(uuid)
        revision, before = (old.revision, state_of(old)) if old else (0, None)
        state = state_of(instance)
        if instance.revision != revision + 1:
            self._complain(instance, f"revision {instance.revision} after {revision}")
        move = self.moves.get(old.migration_uuid or "") if old else None
        is_looked_for = move is not None and move.stage is Stage.LANDING
        is_reset = uuid in self.reset
        if not may_follow(before, state, is_reset=is_reset, is_looked_for=is_looked_for):
            self._complain(instance, f"{state} after {before}")
        homeless_before_delete = instance.task is Task.DELETING and instance.disks is not None
        may_be_homeless = state == WAITING or instance.status in _HOMELESS or homeless_before_delete
        if instance.host is None and not may_be_homeless:
            self._complain(instance, f"{state} without a host")
        if instance.host is not None and state in {WAITING, AWAY}:
            self._complain(instance, f"{state} on host {instance.host}")
        goes_on = old is not None and _takes_alternate(old, instance)
        if goes_on:
            self.alternates_taken += 1
        elif old and None not in {old.host, instance.host} and old.host != instance.host:
            sides = set() if move is None else {move.source.host, move.destination.host}
            if sides != {old.host, instance.host}:
                self._complain(instance, f"moved from {old.host} to {instance.host}")
        if old and old.task in _STORING and instance.disks is None:
            self.shelved_in_vain.add(uuid)
        self.instances[uuid] = instance

    def _enter_move(self, move: Migration) -> None:
        old = self.moves.get(move.uuid)
        before = old.stage if old else None
        is_reset = move.instance_uuid in self.reset
        if not may_move_on(before, move.stage, is_reset=is_reset):
            raise BrokenLawError(f"v{self.version}: move {move}: {move.stage} after {before}")
        if move.has_ended:
            self.moves.pop(move.uuid, None)
        else:
            self.moves[move.uuid] = move

    def _check_groups(self) -> None:
        """Check that no hard policy of a group is broken in this version."""
        members: dict[str, Counter[str]] = {}
        for one in self.instances.values():
            if one.group_uuid and one.host is not None and one.status is not Status.DELETED:
                members.setdefault(one.group_uuid, Counter())[one.host] += 1
        for uuid, counts in members.items():
            group = self._groups[uuid]
            most = group.max_server_per_host
            is_apart = group.policy is GroupPolicy.AFFINITY and len(counts) > 1
            is_full = group.policy is GroupPolicy.ANTI_AFFINITY and max(counts.values()) > most
            if is_apart or is_full:
                raise BrokenLawError(f"v{self.version}: {group} has members {counts}")

    def _check_rooms(self, allocations: Iterable[Allocation]) -> None:
        """Check that allocations are what instances and moves need, and fit their providers."""
        rooms, complaint = check_sums(allocations, self.used, self._capacity)
        if complaint:
            raise BrokenLawError(f"v{self.version}: {complaint}")
        for instance in self.instances.values():
            move = self.moves.get(instance.migration_uuid or "")
            needs, has = rooms_of(instance, move, self._hosts), rooms.pop(instance.uuid, None)
            if needs != has:
                self._complain(instance, f"{state_of(instance)} needs {needs} and has {has}")
        for move in self.moves.values():
            has = rooms.pop(move.uuid, None)
            if has not in rooms_of_move(move, self._hosts):
                raise BrokenLawError(f"v{self.version}: {move} has {has}")
        if rooms:
            raise BrokenLawError(f"v{self.version}: rooms of nobody: {sorted(rooms)}")

    def _check_moves(self) -> None:
        """Check that a move and its instance refer to each other, and agree on the host."""
        for instance in self.instances.values():
            if instance.migration_uuid is None:
                continue
            move = self.moves.get(instance.migration_uuid)
            if move is None or move.instance_uuid != instance.uuid or move.stage in _LEFT_OVER:
                self._complain(instance, f"is in the midst of {move}")
            elif instance.task is not Task.DELETING or instance.host is not None:
                side = move.source if move.stage in _ON_SOURCE else move.destination
                if (instance.host, instance.flavor) != (side.host, side.flavor):
                    self._complain(instance, f"is on {instance.host} and moves by {move}")
        for move in self.moves.values():
            owner = self.instances[move.instance_uuid]
            if move.stage not in _LEFT_OVER and owner.migration_uuid != move.uuid:
                self._complain(owner, f"knows nothing of its move {move}")

    def _complain(self, instance: Instance, what: str) -> None:
        raise BrokenLawError(f"v{self.version}: instance {instance.uuid}: {what}")


def _takes_alternate(old: Instance, new: Instance) -> bool:
    """Tell whether a failed build continues on one of the decision's alternates."""
    place = (new.host or "", new.node or "")
    return (
        state_of(old) == state_of(new) == BUILDING
        and new.retried == (*old.retried, (old.host or "", old.node or ""))
        and place in old.alternates
        and place not in new.retried
    )


def _line_of(change: Change) -> bytes:
    event = change.event
    match event:
        case Instance() | Migration():
            return f"{change.version} {event}".encode()
        case Decision():
            return f"{change.version} {event.request_id} {event.verdict}".encode()
        case _:
            return f"{change.version} {type(event).__name__}".encode()
