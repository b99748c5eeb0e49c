"""The auditor's books: what the ledger's feed has told, checked version by version.

Plain dictionaries, and sums made anew each time: nothing here is shared with the ledger, the
tables or the services, so that a mistake there cannot hide here.
"""

import hashlib
from collections.abc import Iterable, Mapping

from berth.domain.allocation import Allocation
from berth.domain.change import Change, Gone, Usage
from berth.domain.decision import Decision
from berth.domain.host import Host
from berth.domain.instance import Instance, Status, Task
from berth.domain.provider import Provider
from berth.domain.record import Kind, PendingRequest
from berth.domain.resources import DISK_GB, MEMORY_MB, VCPU

State = tuple[Status, Task | None]

WAITING: State = (Status.BUILD, Task.SCHEDULING)
BUILDING: State = (Status.BUILD, Task.SPAWNING)
ACTIVE: State = (Status.ACTIVE, None)
ERROR: State = (Status.ERROR, None)
DELETED: State = (Status.DELETED, None)
STOPPING: State = (Status.BUILD, Task.DELETING)
DELETING: State = (Status.ACTIVE, Task.DELETING)

MOVES: Mapping[State | None, frozenset[State]] = {
    None: frozenset({WAITING, BUILDING, ERROR}),
    WAITING: frozenset({BUILDING, ERROR, DELETED}),
    BUILDING: frozenset({ACTIVE, ERROR, WAITING, STOPPING}),
    ACTIVE: frozenset({DELETING}),
    ERROR: frozenset({DELETED}),
    STOPPING: frozenset({DELETED}),
    DELETING: frozenset({DELETED}),
    DELETED: frozenset(),
}
"""What may become of an instance from one revision to the next."""

ON_HOST = (BUILDING, ACTIVE, STOPPING, DELETING)


class BrokenLawError(AssertionError):
    """Something happened that must not be."""


def state_of(instance: Instance) -> State:
    """Return the status and task of an instance."""
    return instance.status, instance.task


class Books:
    """What is known of one run."""

    def __init__(self) -> None:
        self.version = 0
        self.instances: dict[str, Instance] = {}
        self.pending: dict[str, PendingRequest] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.broken: BrokenLawError | None = None
        """The first law that was broken; services would take it for one of their troubles."""
        self._capacity: dict[str, dict[str, int]] = {}
        self._hosts: dict[str, str] = {}
        self._trace = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A hash of all that has happened, for telling whether two runs were the same."""
        return self._trace.hexdigest()

    def take(self, changes: Iterable[Change], allocations: Iterable[Allocation]) -> None:
        """Enter what happened, and check what is allocated after it."""
        try:
            for change in changes:
                self._trace.update(_line_of(change))
                self._enter(change)
            self._check_rooms(list(allocations))
        except BrokenLawError as error:
            self.accuse(error)

    def accuse(self, error: BrokenLawError) -> None:
        """Note that a law was broken."""
        self.broken = self.broken or error

    def _enter(self, change: Change) -> None:
        if change.version not in {self.version, self.version + 1}:
            raise BrokenLawError(f"version {change.version} after {self.version}")
        self.version = change.version
        match change.event:
            case Instance() as instance:
                self._enter_instance(instance)
            case Provider() as provider:
                inventories = provider.inventories.items()
                self._capacity[provider.uuid] = {
                    name: int((one.total - one.reserved) * one.allocation_ratio)
                    for name, one in inventories
                }
                self.used[provider.uuid] = _nonzero(provider.used)
            case Usage(uuid, used):
                self.used[uuid] = _nonzero(used)
            case Host() as host:
                self._hosts[host.name] = host.uuid
            case PendingRequest() as pending:
                self.pending[pending.request.request_id] = pending
            case Gone(Kind.PENDING_REQUEST, key):
                del self.pending[key]
            case Gone(Kind.PROVIDER, key):
                del self.used[key], self._capacity[key]
            case _:
                pass

    def _enter_instance(self, instance: Instance) -> None:
        old = self.instances.get(instance.uuid)
        revision, state = (old.revision, state_of(old)) if old else (0, None)
        if instance.revision != revision + 1:
            self._complain(instance, f"revision {instance.revision} after {revision}")
        is_renamed = old is not None and old.name != instance.name
        if state_of(instance) not in MOVES[state] and not (
            is_renamed and state == state_of(instance)
        ):
            self._complain(instance, f"{state_of(instance)} after {state}")
        on_host = state_of(instance) in ON_HOST
        if on_host and instance.host is None:
            self._complain(instance, f"{state_of(instance)} without a host")
        if not on_host and instance.host is not None and instance.status is not Status.DELETED:
            self._complain(instance, f"{state_of(instance)} on host {instance.host}")
        if old and ACTIVE in {state, state_of(instance)} and old.host != instance.host:
            self._complain(instance, f"moved from {old.host} to {instance.host}")
        self.instances[instance.uuid] = instance

    def _check_rooms(self, allocations: list[Allocation]) -> None:
        """Check that rooms are what instances on hosts need, and no room is overfull."""
        counted: dict[str, dict[str, int]] = {uuid: {} for uuid in self.used}
        holders: dict[str, Allocation] = {}
        for one in allocations:
            if one.consumer_uuid in holders:
                raise BrokenLawError(f"v{self.version}: {one.consumer_uuid} has two rooms")
            holders[one.consumer_uuid] = one
            room = counted[one.provider_uuid]
            for name, amount in one.amounts.items():
                room[name] = room.get(name, 0) + amount
        if counted != self.used:
            raise BrokenLawError(f"v{self.version}: {counted} allocated, {self.used} used")
        for uuid, room in counted.items():
            for name, amount in room.items():
                if amount > self._capacity[uuid].get(name, 0):
                    raise BrokenLawError(f"v{self.version}: {uuid} has {amount} of {name} used")
        for instance in self.instances.values():
            self._check_room(instance, holders.pop(instance.uuid, None))
        if holders:
            raise BrokenLawError(f"v{self.version}: rooms of nobody: {sorted(holders)}")

    def _check_room(self, instance: Instance, room: Allocation | None) -> None:
        if state_of(instance) not in ON_HOST:
            if room is not None:
                self._complain(instance, f"{state_of(instance)} with a room")
            return
        flavor = instance.flavor
        needs = {VCPU: flavor.vcpus, MEMORY_MB: flavor.memory_mb, DISK_GB: flavor.root_gb}
        if room is None or room.amounts != _nonzero(needs):
            self._complain(instance, f"needs {needs} and has {room}")
        elif room.provider_uuid != self._hosts[instance.host or ""]:
            self._complain(instance, f"is on {instance.host} and has {room}")

    def _complain(self, instance: Instance, what: str) -> None:
        raise BrokenLawError(f"v{self.version}: instance {instance.uuid}: {what}")


def _nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def _line_of(change: Change) -> bytes:
    event = change.event
    match event:
        case Instance():
            return f"{change.version} {event}".encode()
        case Decision():
            return f"{change.version} {event.request_id} {event.verdict}".encode()
        case _:
            return f"{change.version} {type(event).__name__}".encode()
