"""Periodic check of the sizes at which the quotas of this zone charge servers in child zones.

A child can fail a resize or revert it by itself, and a deleted server is gone only when the child
has cleaned up. A child does not report these changes, so without a check the owner's quota would
stay charged until the owner looks at the server.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.errors import BerthError, UnavailableError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Guard, Put, Remove, Write
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.domain.zones.zone_orders import RemoteServer
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.ports.zones import ChildZones
from berth.services.zoning.delegation.remote_usage import size_guard

# Seconds between two checks. A child is asked about a server only when its record is the same in
# two checks in a row, so an order that was on its way to the child has arrived or failed by then.
PAUSE_S: Final = 300.0
# One check asks a child about at most this many servers, one after the other.
_ASKED_MAX: Final = 1000

_ZONE_OF = attrgetter("zone_id")


class UsageRecount:
    """Corrects the sizes at which servers in child zones are charged.

    A size that a child reports is used only if it does not exceed what was ordered. A server that
    its owner has not deleted keeps its record even when the child does not know it, because the
    child may have lost its ledger temporarily.

    Args:
        ledger: stores the remote instances.
        zone_of: returns a child by its id, or None if it has been removed.
        children: the client of the child zones.
        clock: measures the pauses.
        telemetry: receives the number of corrections, and failures of children.
        timeout_s: seconds that a child may take to answer.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        zone_of: Callable[[int], Zone | None],
        children: ChildZones,
        clock: Clock,
        telemetry: Telemetry,
        timeout_s: float,
    ) -> None:
        self._ledger = ledger
        self._zone_of = zone_of
        self._children = children
        self._clock = clock
        self._telemetry = telemetry
        self._timeout_s = timeout_s
        self._open: Mapping[str, RemoteInstance] = {}
        self._seen = 0
        self._last: dict[int, str] = {}

    async def run(self) -> None:
        """Check the sizes every `PAUSE_S` seconds; this never returns."""
        while True:
            try:
                await self.recount()
            except BerthError as error:
                self._telemetry.failure("zone_recount_failed", error)
            await self._clock.sleep(PAUSE_S)

    async def recount(self) -> None:
        """Ask children about open servers whose record has not changed since the last check.

        A server is open while it has a deletion or a resize that is not known to have ended.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        # The version is read first, so a later change of a record makes the guard of its correction
        # fail.
        seen = await self._ledger.version()
        found = {
            one.instance_uuid: one for one in await self._ledger.remote_instances() if _is_open(one)
        }
        due = [one for uuid, one in found.items() if self._open.get(uuid) == one]
        before, self._open, self._seen = self._seen, found, seen
        some = [
            self._turn(zone_id, list(theirs))
            for zone_id, theirs in groupby(sorted(due, key=_ZONE_OF), key=_ZONE_OF)
        ]
        counts = await asyncio.gather(*(self._ask_for(turn, before) for turn in some))
        if sum(counts):
            self._telemetry.event("zone_instances_recounted", instances=sum(counts))

    def _turn(self, zone_id: int, theirs: Sequence[RemoteInstance]) -> Sequence[RemoteInstance]:
        """Return the next servers to ask a child about, in rotation and at most `_ASKED_MAX`."""
        last = self._last.get(zone_id, "")
        after = [one for one in theirs if one.instance_uuid > last]
        others = [one for one in theirs if one.instance_uuid <= last]
        turn = [*after, *others][:_ASKED_MAX]
        self._last[zone_id] = turn[-1].instance_uuid
        return turn

    async def _ask_for(self, remotes: Sequence[RemoteInstance], seen: int) -> int:
        """Ask one child about servers and return the number of corrected records."""
        zone, count = self._zone_of(remotes[0].zone_id), 0
        if zone is None:
            return 0
        for remote in remotes:
            try:
                server = await self._children.server(zone, remote, timeout_s=self._timeout_s)
            except UnavailableError as error:
                self._telemetry.failure("zone_recount_failed", error, zone=zone.name)
                break
            if remote.asking_until_s > self._clock.now_s():
                continue  # a resize is being ordered, and the answer may be older than the order
            change = _change(remote, server)
            if change is not None and not await self._stands_here(remote):
                guard = Guard(size_guard(remote.instance_uuid), seen)
                (outcome,) = await self._ledger.commit([(guard, change)])
                count += isinstance(outcome, Committed)
        return count

    async def _stands_here(self, remote: RemoteInstance) -> bool:
        """Return whether this zone still has its own record of the server.

        If so, the request has not ended yet, and its end will also end the remote instance.
        """
        return await self._ledger.get(Instance, remote.instance_uuid) is not None


def _is_open(remote: RemoteInstance) -> bool:
    """Return whether a server has a deletion or a resize that is not known to have ended."""
    is_there = remote.stage is RemoteInstanceStage.THERE
    return is_there and (remote.counts_as is None or remote.resize is not None)


def _change(remote: RemoteInstance, server: RemoteServer | None) -> Write | None:
    """Return the write that an answer requires, or None if it requires none.

    A record is removed once the child no longer has the server that its owner deleted, and its size
    is set once a resize has ended.
    """
    if remote.counts_as is None:
        return Remove(Kind.REMOTE_INSTANCE, remote.instance_uuid) if server is None else None
    if server is None or server.is_resizing:
        return None
    # A child is another organisation's deployment. If a larger size than ordered were accepted, the
    # child could use up the quota of a project here.
    if any(one > most for one, most in zip(server.size, remote.counts_as, strict=True)):
        return None
    return Put(replace(remote, counts_as=server.size, resize=None, asking_until_s=0.0))
