"""Instance casts, by which agents send the instance lists of their hosts to all schedulers.

Casts are derived from committed changes rather than from the tasks of agents, because the changes
show each arrival and departure, whichever operation caused it. Nothing waits for a cast. If a cast
is lost, the digest in the next one reveals this.
"""

import asyncio
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol, TypeVar

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.errors import UnavailableError
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.ports.bus import Command
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.tracking.lists import HostList, ReportedInstance, encoded_size
from berth.services.tracking.messages import (
    DELETE,
    FORMAT,
    SYNC,
    UPDATE,
    InstancesDeleted,
    InstancesSynced,
    InstancesUpdated,
    MessageHead,
)
from berth.tables.host.feed import located_resident
from berth.tables.host.orphans import LocatedResident

A = TypeVar("A")
R = TypeVar("R")

_RETRY_S: Final = 1.0
_REPORTED_FAILURE: Final = 2
# The maximum size of a message, below the lowest limit that can be set for a bus (64 KiB).
_BYTES_MAX: Final = 48 * 1024
_UUID_BYTES: Final = 40
# A sync is early or late by up to this share of the interval.
_JITTER: Final = 0.1


@dataclass(slots=True)
class _HostCasts:
    """The casts of one host.

    Attributes:
        list: the instances and moves on the host.
        changed: the uuids of the instances and moves whose changes have not been sent.
        in_full: whether the next update must contain the whole list.
        sequence: the sequence number of the last cast.
    """

    list: HostList = field(default_factory=HostList)
    changed: set[str] = field(default_factory=set[str])
    in_full: bool = True
    sequence: int = 0


class Fanout(Protocol):
    """Sends messages to all schedulers, as a bus does."""

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Send a command to all schedulers; see `Bus.fanout`."""
        ...


class InstanceCaster:
    """Follows committed changes, and casts the instances of the given hosts to all schedulers.

    Args:
        hosts: the names of the hosts.
        bus: reaches the schedulers, directly or through a gateway.
        clock: schedules the syncs and retries.
        telemetry: receives repeated failures of the bus.
        rng: provides the jitter of the syncs.
        session: an id that is new at each start of the process.
        sync_interval_s: the seconds between two casts of a host's whole list.
    """

    def __init__(  # noqa: PLR0913 - the collaborators and two values
        self,
        hosts: Iterable[str],
        bus: Fanout,
        clock: Clock,
        telemetry: Telemetry,
        rng: Random,
        *,
        session: str,
        sync_interval_s: float,
    ) -> None:
        self._hosts = {host: _HostCasts() for host in hosts}
        self._bus = bus
        self._clock = clock
        self._telemetry = telemetry
        self._rng = rng
        self._session = session
        self._sync_interval_s = sync_interval_s
        # By the uuid of an instance or a move, the host of this process that it is on.
        self._where: dict[str, str] = {}
        self._version = 0
        # The hosts with unsent changes, in the order in which the changes came.
        self._due: dict[str, None] = {}
        self._has_changes = asyncio.Event()

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`. All lists are sent in full again."""
        self._where.clear()
        for casts in self._hosts.values():
            casts.list, casts.in_full = HostList(), True
            casts.changed.clear()
        records: tuple[Instance | Migration, ...] = (*snapshot.instances, *snapshot.migrations)
        for record in records:
            self._take(record)
        self._version = snapshot.version
        self._due = dict.fromkeys(self._hosts)
        self._has_changes.set()

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            self._take(change.event)
        self._version = changes[-1].version

    async def run(self) -> None:
        """Send changes as they come, until cancelled.

        Only the second failure in a row is reported: a process that has just started may still be
        connecting to the broker.
        """
        failures = 0
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            while self._due:
                host = next(iter(self._due))
                try:
                    await self._send_changes(host)
                except UnavailableError as error:
                    failures += 1
                    if failures == _REPORTED_FAILURE:
                        self._telemetry.failure("instance_changes_not_sent", error, host=host)
                    await self._clock.sleep(_RETRY_S)
                else:
                    failures = 0

    async def sync(self) -> None:
        """Send each host's whole list periodically, spread over the interval, until cancelled."""
        interval_s, rng = self._sync_interval_s, self._rng
        now_s = self._clock.now_s()
        rounds = [(now_s + rng.uniform(0, interval_s), host) for host in self._hosts]
        heapq.heapify(rounds)
        while rounds:
            due_s, host = rounds[0]
            await self._clock.sleep(max(0.0, due_s - self._clock.now_s()))
            next_s = self._clock.now_s() + interval_s * rng.uniform(1 - _JITTER, 1 + _JITTER)
            heapq.heapreplace(rounds, (next_s, host))
            try:
                if host in self._due:
                    await self._send_changes(host)
                await self._sync(host)
            except UnavailableError:
                # Without a broker the changes stay due, and the next sync sends the whole list.
                continue

    def _take(self, event: Event) -> None:
        match event:
            case Instance():
                if event.host in self._hosts or event.uuid in self._where:
                    self._place(event.uuid, located_resident(event))
            case Migration():
                place = event.elsewhere
                host = None if place is None else place.host
                if host in self._hosts or event.uuid in self._where:
                    self._place(event.uuid, located_resident(event))
            case RecordRemoved(Kind.INSTANCE | Kind.MIGRATION, key) if key in self._where:
                self._place(key, None)
            case _:
                pass

    def _place(self, uuid: str, located: LocatedResident | None) -> None:
        """Update the lists of the hosts that an instance or move was on and is on now."""
        host = None if located is None else located.name
        before = self._where.pop(uuid, None)
        if before is not None and before != host:
            self._hosts[before].list.remove(uuid)
            self._mark_changed(before, uuid)
        if located is not None and located.name in self._hosts:
            self._where[uuid] = located.name
            told = ReportedInstance(located.resident, located.node, located.attributes)
            if self._hosts[located.name].list.put(told):
                self._mark_changed(located.name, uuid)

    def _mark_changed(self, host: str, uuid: str) -> None:
        self._hosts[host].changed.add(uuid)
        self._due[host] = None
        self._has_changes.set()

    async def _send_changes(self, host: str) -> None:
        """Send the changes of a host; after a failure the next update contains the whole list.

        Raises:
            UnavailableError: the bus did not accept the message.
        """
        casts = self._hosts[host]
        uuids = casts.list.uuids if casts.in_full else sorted(casts.changed)
        found = [(uuid, casts.list.entries.get(uuid)) for uuid in uuids]
        present = tuple(one for _, one in found if one is not None)
        gone = tuple(uuid for uuid, one in found if one is None)
        in_full = casts.in_full
        # The marks are cleared before sending, because changes that arrive during the send must
        # mark the host again.
        casts.in_full = False
        casts.changed.clear()
        del self._due[host]
        try:
            if sum(map(encoded_size, present)) + len(gone) * _UUID_BYTES > _BYTES_MAX:
                await self._sync(host)
            # An empty full list is also sent as an update: it says that the host has no instances.
            elif present or in_full:
                update = InstancesUpdated(self._head(host, casts), present, gone, is_full=in_full)
                await self._bus.fanout(UPDATE, update)
            else:
                await self._bus.fanout(DELETE, InstancesDeleted(self._head(host, casts), gone))
        except BaseException:
            casts.in_full = True
            self._due[host] = None
            self._has_changes.set()
            raise

    async def _sync(self, host: str) -> None:
        casts = self._hosts[host]
        fits = len(casts.list) * _UUID_BYTES <= _BYTES_MAX
        synced = InstancesSynced(self._head(host, casts), casts.list.uuids if fits else None)
        await self._bus.fanout(SYNC, synced)

    def _head(self, host: str, casts: _HostCasts) -> MessageHead:
        casts.sequence += 1
        return MessageHead(
            format=FORMAT,
            host=host,
            session=self._session,
            sequence=casts.sequence,
            version=self._version,
            count=len(casts.list),
            digest=casts.list.digest,
        )
