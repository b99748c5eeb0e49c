"""Given offers: of which zones a select was answered, so that each is told what it may let go."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import UnusedOffers
from berth.ports.clock import Clock


@dataclass(frozen=True, slots=True)
class SelectRecord:
    """What was given for a select, until it ends: of which sources, in which order.

    `sources` has 0 for this zone's own hosts; `zones` and `select_ids` are of 1 and those after.
    """

    audience: str
    ends_at_s: float
    sources: Sequence[int]
    zones: Sequence[Zone]
    select_ids: Sequence[bytes]


class SelectRecords:
    """Remembers what was given, for as long as it may be let go.

    Args:
        clock: tells the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._given: dict[bytes, SelectRecord] = {}
        """By select, oldest first."""

    def note(self, select_id: bytes, given: SelectRecord) -> None:
        """Remember what was given for a select."""
        now_s = self._clock.now_s()
        while self._given:
            oldest = next(iter(self._given))
            if self._given[oldest].ends_at_s > now_s:
                break
            del self._given[oldest]
        self._given[select_id] = given

    def audience_of(self, select_id: bytes) -> str | None:
        """Return the parent that a select was answered to; None when it is not known here."""
        given = self._given.get(select_id)
        return None if given is None else given.audience

    def let_go(self, surplus: UnusedOffers) -> tuple[int, list[tuple[Zone, UnusedOffers]]]:
        """Give up the offers of a select beyond its first; what is told now is not told again.

        Returns:
            How many of this zone's own are kept, and what children are to be told.

        Raises:
            KeyError: it is not known here.
        """
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
