"""Recounting: asking children what became of servers that may count for too much here.

A child may find no host for a resize, or end one by itself, and a server that was deleted is gone
only when the child has cleared it away. Nobody tells the parent, and an owner who does not look
would pay for it with quota. So those servers are asked for now and then.
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

PAUSE_S: Final = 300.0
"""From look to look. What is asked of a child has reached it by then, or never will."""
_ASKED_MAX: Final = 1000
"""Most servers of one child that are asked for in one look."""

_ZONE_OF = attrgetter("zone_id")


class UsageRecount:
    """Has servers in child zones count for what they are.

    What a child says is believed where it is no more than was asked of it. A server that its owner
    has not deleted is never forgotten here: a child may have lost its ledger for a while.

    Args:
        ledger: has the errands.
        zone_of: returns a child by its number, None when there is none any more.
        children: asks them.
        clock: tells the time.
        telemetry: is told of what was found, and of children that do not answer.
        timeout_s: how long a child may take.
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
        """Look again and again, for ever."""
        while True:
            try:
                await self.look()
            except BerthError as error:
                self._telemetry.failure("zone_recounting_failed", error)
            await self._clock.sleep(PAUSE_S)

    async def look(self) -> None:
        """Ask for the servers that are open, and were as they are at the look before.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
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
        """Return whose turn it is at a child, which is asked for so many at most."""
        last = self._last.get(zone_id, "")
        after = [one for one in theirs if one.instance_uuid > last]
        others = [one for one in theirs if one.instance_uuid <= last]
        turn = [*after, *others][:_ASKED_MAX]
        self._last[zone_id] = turn[-1].instance_uuid
        return turn

    async def _ask_for(self, remotes: Sequence[RemoteInstance], seen: int) -> int:
        """Ask one child, and return how many servers count for less now."""
        zone, count = self._zone_of(remotes[0].zone_id), 0
        if zone is None:
            return 0
        for remote in remotes:
            try:
                server = await self._children.server(zone, remote, timeout_s=self._timeout_s)
            except UnavailableError as error:
                self._telemetry.failure("zone_recounting_failed", error, zone=zone.name)
                break
            if remote.asking_until_s > self._clock.now_s():
                continue
            change = _change(remote, server)
            if change is not None and not await self._stands_here(remote):
                guard = Guard(size_guard(remote.instance_uuid), seen)
                (outcome,) = await self._ledger.commit([(guard, change)])
                count += isinstance(outcome, Committed)
        return count

    async def _stands_here(self, remote: RemoteInstance) -> bool:
        """Tell whether its request has not come to its end; whoever ends that ends the errand."""
        return await self._ledger.get(Instance, remote.instance_uuid) is not None


def _is_open(remote: RemoteInstance) -> bool:
    """Tell whether a server was deleted, or resized, and what became of that is not known."""
    is_there = remote.stage is RemoteInstanceStage.THERE
    return is_there and (remote.counts_as is None or remote.resize is not None)


def _change(remote: RemoteInstance, server: RemoteServer | None) -> Write | None:
    """Return what an answer changes; nothing while the child is at it."""
    if remote.counts_as is None:
        return Remove(Kind.REMOTE_INSTANCE, remote.instance_uuid) if server is None else None
    if server is None or server.is_resizing:
        return None
    if any(one > most for one, most in zip(server.size, remote.counts_as, strict=True)):
        return None
    return Put(replace(remote, counts_as=server.size, resize=None, asking_until_s=0.0))
