"""Remembers the inquiries that a zone answers, so that each inquiry counts the zone once.

A zone with several parents, or in a mesh of zones that are children of each other, receives an
inquiry over several paths. Loop tokens recognise only repeated zones on a single path.
"""

from typing import Final

from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.clock import Clock

# At most this many inquiries are remembered. The oldest ones are forgotten first, so a flood of
# inquiries can make counts too high, but cannot exhaust the memory.
_KEPT_MAX: Final = 10_000
# Deadlines differ by path, because each zone on a path reserves some of the time. An inquiry is
# remembered for this many seconds beyond a deadline, as a shorter path may have a later one.
_AFTER_S: Final = 10.0


class AnsweredInquiries:
    """Recognises an inquiry that this process already answers for another parent.

    The first loop token of an order identifies the inquiry, because the zone that received the
    tenant's request makes it anew for each inquiry, and the zones below pass it on unchanged.

    Args:
        clock: provides the time of day.
        kept_max: the number of inquiries to remember.
    """

    def __init__(self, clock: Clock, *, kept_max: int = _KEPT_MAX) -> None:
        self._clock = clock
        self._kept_max = kept_max
        # The parent that gets the answer, and until when it is remembered in Unix seconds, by first
        # loop token.
        self._answered: dict[bytes, tuple[str, float]] = {}

    def is_answered(self, order: SelectOrder) -> bool:
        """Return whether another parent gets the answer to an inquiry; remember the inquiry.

        The parent that asked first may repeat the inquiry: a zone that cannot place a server group
        in its home zone asks its children again, and drops their first answers. An order without
        loop tokens is always new.
        """
        if not order.marks:
            return False
        first, now_s = order.marks[0], self._clock.now_s()
        self._forget(now_s)
        parent, until_s = self._answered.pop(first, (order.audience, 0.0))
        self._answered[first] = parent, max(until_s, order.deadline_s + _AFTER_S)
        self._forget(now_s)
        return parent != order.audience

    def _forget(self, now_s: float) -> None:
        while self._answered:
            oldest = next(iter(self._answered))
            if len(self._answered) <= self._kept_max and now_s < self._answered[oldest][1]:
                return
            del self._answered[oldest]
