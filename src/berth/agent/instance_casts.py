"""Telling: agents cast what instances their hosts have, to all schedulers.

What is told follows from what is committed, not from what an agent is about to do: the feed says
what came to a host and what left it, whichever operation did it, so the host that an instance
moves to tells that it came, and the host that it leaves tells that it went. Nothing waits for a
message, and none is needed; one that is lost shows in the digest of the next.
"""

import asyncio
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.errors import UnavailableError
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.ports.bus import Bus
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

_RETRY_S: Final = 1.0
_FAILURES_TOLD: Final = 2
_BYTES_MAX: Final = 48 * 1024
"""Of a message: below the least that a bus may be set to carry."""
_UUID_BYTES: Final = 40
_JITTER: Final = 0.1
"""By how much of the interval a sync may be early or late."""


@dataclass(slots=True)
class _Desk:
    """What is told of one host: its list, what is yet to be told of it, and the last number."""

    list: HostList = field(default_factory=HostList)
    changed: set[str] = field(default_factory=set[str])
    in_full: bool = True
    sequence: int = 0


class InstanceCaster:
    """A subscriber of the feed that casts what becomes of the instances of some hosts.

    Args:
        hosts: their names.
        bus: to the schedulers.
        clock: tells when the next sync is due.
        telemetry: told when the bus does not carry.
        rng: spreads the syncs.
        session: new at each start of the process.
        sync_interval_s: how often each host's whole list is told.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and two values
        self,
        hosts: Iterable[str],
        bus: Bus,
        clock: Clock,
        telemetry: Telemetry,
        rng: Random,
        *,
        session: str,
        sync_interval_s: float,
    ) -> None:
        self._desks = {host: _Desk() for host in hosts}
        self._bus = bus
        self._clock = clock
        self._telemetry = telemetry
        self._rng = rng
        self._session = session
        self._sync_interval_s = sync_interval_s
        self._where: dict[str, str] = {}
        """The hosts, of those here, that instances and moves are on."""
        self._version = 0
        self._due: dict[str, None] = {}
        """Hosts of which there is something to be told, in order."""
        self._came = asyncio.Event()

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`. Everything is told anew."""
        self._where.clear()
        for desk in self._desks.values():
            desk.list, desk.in_full = HostList(), True
            desk.changed.clear()
        records: tuple[Instance | Migration, ...] = (*snapshot.instances, *snapshot.migrations)
        for record in records:
            self._take(record)
        self._version = snapshot.version
        self._due = dict.fromkeys(self._desks)
        self._came.set()

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            self._take(change.event)
        self._version = changes[-1].version

    async def run(self) -> None:
        """Tell what changes, for ever.

        A broker that is there at the second try is no news: a process that has just started
        connects meanwhile.
        """
        failures = 0
        while True:
            await self._came.wait()
            self._came.clear()
            while self._due:
                host = next(iter(self._due))
                try:
                    await self._tell(host)
                except UnavailableError as error:
                    failures += 1
                    if failures == _FAILURES_TOLD:
                        self._telemetry.failure("instances_untold", error, host=host)
                    await self._clock.sleep(_RETRY_S)
                else:
                    failures = 0

    async def sync(self) -> None:
        """Tell each host's list now and then, for ever, a few hosts at a time."""
        interval_s, rng = self._sync_interval_s, self._rng
        now_s = self._clock.now_s()
        rounds = [(now_s + rng.uniform(0, interval_s), host) for host in self._desks]
        heapq.heapify(rounds)
        while rounds:
            due_s, host = rounds[0]
            await self._clock.sleep(max(0.0, due_s - self._clock.now_s()))
            next_s = self._clock.now_s() + interval_s * rng.uniform(1 - _JITTER, 1 + _JITTER)
            heapq.heapreplace(rounds, (next_s, host))
            try:
                if host in self._due:
                    await self._tell(host)
                await self._sync(host)
            except UnavailableError:
                # The broker is away: what changed is told when it is back, and so is the rest.
                continue

    def _take(self, event: Event) -> None:
        match event:
            case Instance():
                if event.host in self._desks or event.uuid in self._where:
                    self._note(event.uuid, located_resident(event))
            case Migration():
                place = event.elsewhere
                host = None if place is None else place.host
                if host in self._desks or event.uuid in self._where:
                    self._note(event.uuid, located_resident(event))
            case RecordRemoved(Kind.INSTANCE | Kind.MIGRATION, key) if key in self._where:
                self._note(key, None)
            case _:
                pass

    def _note(self, uuid: str, located: LocatedResident | None) -> None:
        """Note where an instance is now."""
        host = None if located is None else located.name
        before = self._where.pop(uuid, None)
        if before is not None and before != host:
            self._desks[before].list.remove(uuid)
            self._note_change(before, uuid)
        if located is not None and located.name in self._desks:
            self._where[uuid] = located.name
            if self._desks[located.name].list.put(ReportedInstance(located.resident, located.node)):
                self._note_change(located.name, uuid)

    def _note_change(self, host: str, uuid: str) -> None:
        self._desks[host].changed.add(uuid)
        self._due[host] = None
        self._came.set()

    async def _tell(self, host: str) -> None:
        """Tell what is yet to be told of a host; when that fails all of it is told next.

        Raises:
            UnavailableError: the bus did not take it.
        """
        desk = self._desks[host]
        uuids = desk.list.uuids if desk.in_full else sorted(desk.changed)
        found = [(uuid, desk.list.get(uuid)) for uuid in uuids]
        told = tuple(one for _, one in found if one is not None)
        gone = tuple(uuid for uuid, one in found if one is None)
        in_full = desk.in_full
        # Whatever comes while the message is on its way is told by the next.
        desk.in_full = False
        desk.changed.clear()
        del self._due[host]
        try:
            if sum(map(encoded_size, told)) + len(gone) * _UUID_BYTES > _BYTES_MAX:
                await self._sync(host)
            elif told or in_full:
                update = InstancesUpdated(self._head(host, desk), told, gone, is_full=in_full)
                await self._bus.fanout(UPDATE, update)
            else:
                await self._bus.fanout(DELETE, InstancesDeleted(self._head(host, desk), gone))
        except BaseException:
            desk.in_full = True
            self._due[host] = None
            self._came.set()
            raise

    async def _sync(self, host: str) -> None:
        desk = self._desks[host]
        fits = len(desk.list) * _UUID_BYTES <= _BYTES_MAX
        synced = InstancesSynced(self._head(host, desk), desk.list.uuids if fits else None)
        await self._bus.fanout(SYNC, synced)

    def _head(self, host: str, desk: _Desk) -> MessageHead:
        desk.sequence += 1
        return MessageHead(
            format=FORMAT,
            host=host,
            session=self._session,
            sequence=desk.sequence,
            version=self._version,
            count=len(desk.list),
            digest=desk.list.digest,
        )
