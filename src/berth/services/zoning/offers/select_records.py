"""Records of answered selects, from which a zone knows which child made which merged offer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import UnusedOffers
from berth.ports.clock import Clock


@dataclass(frozen=True, slots=True)
class SelectRecord:
    """The sources of the offers in one answer.

    Attributes:
        audience: the parent that received the answer.
        ends_at_s: the expiry time of the offers, in Unix seconds.
        sources: for each offer, in order, 0 for this zone's own hosts or n for the n-th of `zones`.
        zones: the children with offers; the first one is source 1.
        select_ids: the select's id at each of these children.
    """

    audience: str
    ends_at_s: float
    sources: Sequence[int]
    zones: Sequence[Zone]
    select_ids: Sequence[bytes]


class SelectRecords:
    """Keeps the records of selects in memory until their offers expire.

    Args:
        clock: provides the time of day.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By select id, oldest first. All offers live equally long, so expired records are in front.
        self._given: dict[bytes, SelectRecord] = {}

    def note(self, select_id: bytes, given: SelectRecord) -> None:
        """Keep the record of a select, and drop expired ones."""
        now_s = self._clock.now_s()
        while self._given:
            oldest = next(iter(self._given))
            if self._given[oldest].ends_at_s > now_s:
                break
            del self._given[oldest]
        self._given[select_id] = given

    def audience_of(self, select_id: bytes) -> str | None:
        """Return the parent that received the answer to a select, or None for an unknown select."""
        given = self._given.get(select_id)
        return None if given is None else given.audience

    def let_go(self, surplus: UnusedOffers) -> tuple[int, list[tuple[Zone, UnusedOffers]]]:
        """Drop the offers of a select beyond the first `surplus.keep` from its record.

        Returns:
            The number of this zone's own offers that are kept, and the release for each child that
            has some of the dropped offers.

        Raises:
            KeyError: the select is unknown here.
        """
        # The record is shortened immediately, so a repeated release does not reach the children
        # again.
        given = self._given[surplus.select_id]
        kept = given.sources[: surplus.keep]
        if surplus.keep:
            self._given[surplus.select_id] = replace(given, sources=kept)
        else:
            del self._given[surplus.select_id]
        keeps = Counter(kept)
        children = (*zip(given.zones, given.select_ids, strict=True),)
        below: list[tuple[Zone, UnusedOffers]] = []
        for source in sorted({*given.sources[surplus.keep :]} - {0}):
            zone, select_id = children[source - 1]
            below.append((zone, UnusedOffers(select_id, keeps.get(source, 0))))
        return keeps.get(0, 0), below
