"""Sources of time and identifiers, passed in so that tests and simulations can control them."""

from typing import Protocol


class Clock(Protocol):
    """A source of time."""

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
    """A source of identifiers."""

    def uuid(self) -> str:
        """Return a new random UUID in its 36-character form."""
        ...

    def request_id(self) -> str:
        """Return a new request id: `req-` and a random UUID."""
        ...
