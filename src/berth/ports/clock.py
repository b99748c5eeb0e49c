"""Clocks and generators of identifiers, passed in so that tests and simulations control them."""

from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now_s(self) -> float:
        """Return the Unix time in seconds."""
        ...

    def ticks_ns(self) -> int:
        """Return a monotonic counter in nanoseconds, for measuring durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for the given number of seconds."""
        ...


class Ids(Protocol):
    """Generates unique identifiers."""

    def uuid(self) -> str:
        """Return a new random UUID in its 36-character form."""
        ...

    def request_id(self) -> str:
        """Return a new request id: `req-` and a random UUID."""
        ...
