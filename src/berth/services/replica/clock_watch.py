"""Notices time that a process has not observed: steps of the clock, and pauses of the process."""

from typing import Final, NamedTuple

from berth.ports.clock import Clock

LOOK_INTERVAL_S: Final = 1.0
"""Seconds between two calls of `ClockWatch.look`."""

# The system clock was stepped if it and the monotonic clock differ by more than this. The monotonic
# clock stands still while the machine is suspended, which also looks like a step.
_STEP_S: Final = 2.0
# A process that was this late for a call stood still. A busy event loop is not that slow.
_PAUSE_S: Final = 5.0
_NS_PER_S: Final = 1_000_000_000


class Look(NamedTuple):
    """The step of the clock and the pause of the process between two calls of `ClockWatch.look`.

    Attributes:
        step_s: the seconds by which the clock was stepped; 0 if it was not.
        pause_s: the seconds for which the process stood still; 0 if it did not.
    """

    step_s: float
    pause_s: float


class ClockWatch:
    """Compares the system clock with the monotonic clock.

    Args:
        clock: provides both times.

    Attributes:
        is_regular: whether `look` is called every `LOOK_INTERVAL_S`, so that a longer time between
            two calls counts as a pause of the process.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.now_s(), self.ticks_s()
        self.is_regular = False

    def ticks_s(self) -> float:
        """Return the monotonic clock, in seconds."""
        return self._clock.ticks_ns() / _NS_PER_S

    def time_of(self, ticks_s: float) -> float:
        """Return the Unix time of a monotonic time, by the clock as it is set now."""
        return self._clock.now_s() - (self.ticks_s() - ticks_s)

    def look(self) -> Look:
        """Return the step of the clock and the pause of the process since the last call."""
        before_s, ticked_before_s = self._last
        now_s, ticked_s = self._last = self._clock.now_s(), self.ticks_s()
        passed_s = ticked_s - ticked_before_s
        step_s = (now_s - before_s) - passed_s
        stood_still = self.is_regular and passed_s > LOOK_INTERVAL_S + _PAUSE_S
        return Look(
            step_s=step_s if abs(step_s) > _STEP_S else 0.0,
            pause_s=passed_s if stood_still else 0.0,
        )
