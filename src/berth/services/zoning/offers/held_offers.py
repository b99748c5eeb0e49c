"""Holds on the room of offers, in the memory of the scheduler that made them.

In the host table, a hold counts like a claim that is decided but not yet committed. It ends at its
expiry, at a release, or when a build turns it into a claim. Holds are never written to the ledger:
a scheduler that dies loses them, and a build then checks the room again. Expiry is measured in
monotonic seconds, because a change of the time of day would extend or shorten all holds.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.domain.compute.decision import Placement
from berth.domain.compute.request import Request
from berth.domain.uuids import named_uuid
from berth.domain.zones.offer import OfferKey
from berth.ports.clock import Clock
from berth.ports.measures import OFFERS_HELD
from berth.ports.telemetry import Reading
from berth.scheduling.rules.rule import attributes_of, resident_of
from berth.services.replica.replica import Hold, Replica

# Holds that expire within 10 ms of each other are ended in one pass.
_PAUSE_S = 0.01


@dataclass(slots=True)
class _Select:
    """The holds of one select.

    `audience` is the parent, `ends_s` the monotonic second of expiry, and `amounts` are the amounts
    that each instance takes. `placements` are all that were held, and `holds` the remaining ones by
    place.
    """

    audience: str
    ends_s: float
    amounts: Mapping[str, int]
    placements: Sequence[Placement] = ()
    holds: dict[int, Hold] = field(default_factory=dict[int, Hold])


class HeldOffers:
    """Holds offers in the host table of one scheduler.

    Args:
        replica: the replica whose table counts the holds.
        share_max: the share of the free room, 0 to 1, that may be held for one parent. Offers
            beyond it are made but not held. A parent's first offer is always held; otherwise a
            zone with a single place left could never promise it.
    """

    def __init__(self, replica: Replica, *, share_max: float = 0.5) -> None:
        self._replica = replica
        self._share_max = share_max
        self._selects: dict[bytes, _Select] = {}
        self._ends: list[tuple[float, bytes]] = []
        # Held amounts of each parent, by resource class.
        self._held: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        """Return the number of held offers."""
        return sum(len(select.holds) for select in self._selects.values())

    def read(self) -> list[Reading]:
        """Return the gauge of held offers."""
        return [Reading(OFFERS_HELD, len(self))]

    @property
    def next_end_s(self) -> float | None:
        """The monotonic second before which no hold expires, or None if there are no holds."""
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
        """Hold as many of the first placements as the parent's share allows; return their number.

        Args:
            select_id: the id of the select.
            audience: the parent's name.
            request: the parent's request.
            placements: the decided placements, in the order of the offers.
            amounts: the amounts that each instance takes, by resource class.
            ends_s: the expiry of the holds, in monotonic seconds.
        """
        # Only a prefix can be held: an offer is valid only together with those before it.
        count = min(len(placements), self._allowed(audience, amounts))
        if not count:
            return 0
        select = _Select(audience, ends_s, amounts, tuple(placements[:count]))
        for place, placement in enumerate(placements[:count]):
            uuid = named_uuid(OfferKey(select_id, place).claim_key)
            resident = resident_of(request, uuid, placement.assignment)
            hold = select.holds[place] = Hold(
                resident, placement.provider_uuid, amounts, attributes_of(request)
            )
            self._replica.hold(hold)
        self._selects[select_id] = select
        heapq.heappush(self._ends, (ends_s, select_id))
        self._count(audience, amounts, count)
        return count

    def offered(self, key: OfferKey) -> Placement | None:
        """Return the placement decided for a held offer, or None if it is not held."""
        select = self._selects.get(key.select_id)
        if select is None or key.place not in select.holds:
            return None
        return select.placements[key.place]

    def take(self, key: OfferKey) -> Hold | None:
        """End the hold of an offer that is about to be used.

        The caller must claim the room before its next await, or another request may take it.

        Returns:
            The hold, or None if the offer is not held.
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
        """End a select's holds from place `keep` on, and return the number of ended holds.

        A select of a parent other than `audience` is left alone.
        """
        select = self._selects.get(select_id)
        if select is None or select.audience != audience:
            return 0
        ended = [select.holds.pop(place) for place in list(select.holds) if place >= keep]
        if not select.holds:
            del self._selects[select_id]
        return self._end(select, ended)

    def expire(self, at_s: float) -> int:
        """End the holds that expire by the monotonic second `at_s`, and return their number."""
        ended = 0
        # Entries of selects without holds are dropped too, or `run` would wake for each of them.
        while self._ends and (self._ends[0][0] <= at_s or self._ends[0][1] not in self._selects):
            _, select_id = heapq.heappop(self._ends)
            select = self._selects.pop(select_id, None)
            if select is not None:
                ended += self._end(select, list(select.holds.values()))
        return ended

    async def run(self, clock: Clock, hold_s: float) -> None:
        """End holds as they expire; this never returns.

        Args:
            clock: the monotonic clock.
            hold_s: seconds for which each offer is held. Without holds the loop sleeps for this
                long, since a hold that is made in the meantime cannot expire earlier.
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
        """Return the number of further instances for which a parent may hold capacity."""
        # The share refers to what is free plus what is held. Holds lower the free room, so a share
        # of the free room alone would shrink as the parent uses it.
        if self._share_max >= 1 or not amounts:
            return 10**9
        own = self._held.get(audience, {})
        allowed = 10**9
        for name, amount in amounts.items():
            held_by_all = sum(held.get(name, 0) for held in self._held.values())
            may = int(self._share_max * (self._free(name) + held_by_all))
            allowed = min(allowed, max(0, may - own.get(name, 0)) // amount)
        return allowed if own else max(1, allowed)

    def _free(self, name: str) -> int:
        """Return the sum of the free amounts of a resource class on all hosts."""
        hosts = self._replica.hosts
        columns = hosts.resource(name)
        if columns is None:
            return 0
        free = columns.free[: len(hosts)]
        return int(np.maximum(free, 0).sum(where=hosts.alive))


def steady_s(clock: Clock) -> float:
    """Return monotonic seconds from an arbitrary start."""
    return clock.ticks_ns() / 1e9
