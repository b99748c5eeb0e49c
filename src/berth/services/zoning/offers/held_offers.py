"""Held offers: room that parents were offered, kept for them in memory for a while.

A hold counts on the table like any claim that this process has decided and not committed yet. It
ends by itself, when it is released, or when a build makes a claim of it. Its time is counted in
steady seconds, since the time of day may be set, and room would be held for as long.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.domain.compute.decision import Placement
from berth.domain.compute.request import Request
from berth.domain.named_uuid import named_uuid
from berth.domain.zones.offer import OfferKey
from berth.ports.clock import Clock
from berth.ports.measures import OFFERS_HELD
from berth.ports.telemetry import Reading
from berth.scheduling.rules.rule import resident_of
from berth.services.replica.replica import Hold, Replica

_PAUSE_S = 0.01
"""Two holds that end at nearly the same time end together."""


@dataclass(slots=True)
class _Select:
    """The holds of one select: those that stand, by place, and what was decided for each."""

    audience: str
    ends_s: float
    amounts: Mapping[str, int]
    placements: Sequence[Placement] = ()
    holds: dict[int, Hold] = field(default_factory=dict[int, Hold])


class HeldOffers:
    """Holds offers on the table of one scheduler.

    Args:
        replica: whose table counts the holds.
        share_max: how much of what is free one parent may have held, 0 to 1. An offer beyond it
            is made, but not held. The first one is always held, or a zone with one place left
            could never promise it.
    """

    def __init__(self, replica: Replica, *, share_max: float = 0.5) -> None:
        self._replica = replica
        self._share_max = share_max
        self._selects: dict[bytes, _Select] = {}
        self._ends: list[tuple[float, bytes]] = []
        self._held: dict[str, dict[str, int]] = {}
        """Amounts that are held for each parent, by class."""

    def __len__(self) -> int:
        """Return how many offers are held."""
        return sum(len(select.holds) for select in self._selects.values())

    def read(self) -> list[Reading]:
        """Take the reading for monitoring."""
        return [Reading(OFFERS_HELD, len(self))]

    @property
    def next_end_s(self) -> float | None:
        """The steady second before which no hold ends; None without any."""
        return self._ends[0][0] if self._ends else None

    def hold(
        self,
        select_id: bytes,
        audience: str,
        request: Request,
        placements: Sequence[Placement],
        amounts: Mapping[str, int],
        *,
        ends_s: float,
    ) -> int:
        """Hold the first of some placements, as many as the parent may have; return how many.

        Args:
            select_id: of the select that they were made for.
            audience: the parent.
            request: what is asked.
            placements: in the order of their places.
            amounts: what each takes.
            ends_s: when the holds end, in steady seconds.
        """
        count = min(len(placements), self._allowed(audience, amounts))
        if not count:
            return 0
        select = _Select(audience, ends_s, amounts, tuple(placements[:count]))
        for place, placement in enumerate(placements[:count]):
            uuid = named_uuid(OfferKey(select_id, place).claim_key)
            resident = resident_of(request, uuid, placement.assignment)
            hold = select.holds[place] = Hold(resident, placement.provider_uuid, amounts)
            self._replica.hold(hold)
        self._selects[select_id] = select
        heapq.heappush(self._ends, (ends_s, select_id))
        self._count(audience, amounts, count)
        return count

    def offered(self, key: OfferKey) -> Placement | None:
        """Return how an offer was decided that is held; None when it is not."""
        select = self._selects.get(key.select_id)
        if select is None or key.place not in select.holds:
            return None
        return select.placements[key.place]

    def take(self, key: OfferKey) -> Hold | None:
        """End the hold of an offer that is about to be used, and return it.

        None when there is none any more, or never was. Whoever takes it holds the room for the
        instance before anything else runs.
        """
        select = self._selects.get(key.select_id)
        hold = None if select is None else select.holds.pop(key.place, None)
        if select is None or hold is None:
            return None
        self._end(select, [hold])
        if not select.holds:
            del self._selects[key.select_id]
        return hold

    def release(self, select_id: bytes, audience: str, *, keep: int = 0) -> int:
        """End the holds of one select beyond the first places, for the parent that asked for it.

        Returns how many.
        """
        select = self._selects.get(select_id)
        if select is None or select.audience != audience:
            return 0
        ended = [select.holds.pop(place) for place in list(select.holds) if place >= keep]
        if not select.holds:
            del self._selects[select_id]
        return self._end(select, ended)

    def expire(self, at_s: float) -> int:
        """End the holds whose time is over at a steady second; return how many."""
        ended = 0
        # Those that were released or taken long ago have no end that is worth waking for.
        while self._ends and (self._ends[0][0] <= at_s or self._ends[0][1] not in self._selects):
            _, select_id = heapq.heappop(self._ends)
            select = self._selects.pop(select_id, None)
            if select is not None:
                ended += self._end(select, list(select.holds.values()))
        return ended

    async def run(self, clock: Clock, hold_s: float) -> None:
        """End holds in their time, for ever.

        Args:
            clock: tells the time.
            hold_s: how long each one is held, so none that comes meanwhile ends before that.
        """
        while True:
            at_s = steady_s(clock)
            self.expire(at_s)
            end_s = self.next_end_s
            await clock.sleep(hold_s if end_s is None else max(_PAUSE_S, end_s - at_s))

    def _end(self, select: _Select, holds: list[Hold]) -> int:
        for hold in holds:
            self._replica.release(hold.instance_uuid)
        self._count(select.audience, select.amounts, -len(holds))
        return len(holds)

    def _count(self, audience: str, amounts: Mapping[str, int], instances: int) -> None:
        held = self._held.setdefault(audience, {})
        for name, amount in amounts.items():
            left = held.get(name, 0) + amount * instances
            if left:
                held[name] = left
            else:
                held.pop(name, None)
        if not held:
            self._held.pop(audience, None)

    def _allowed(self, audience: str, amounts: Mapping[str, int]) -> int:
        """Return how many more instances may be held for a parent."""
        if self._share_max >= 1 or not amounts:
            return 10**9
        mine = self._held.get(audience, {})
        allowed = 10**9
        for name, amount in amounts.items():
            held_by_all = sum(held.get(name, 0) for held in self._held.values())
            may = int(self._share_max * (self._free(name) + held_by_all))
            allowed = min(allowed, max(0, may - mine.get(name, 0)) // amount)
        return allowed if mine else max(1, allowed)

    def _free(self, name: str) -> int:
        """Return what all hosts together have left of a class."""
        hosts = self._replica.hosts
        columns = hosts.resource(name)
        if columns is None:
            return 0
        free = columns.free[: len(hosts)]
        return int(np.maximum(free, 0).sum(where=hosts.alive))


def steady_s(clock: Clock) -> float:
    """Return seconds that only ever go on, from no day in particular."""
    return clock.ticks_ns() / 1e9
