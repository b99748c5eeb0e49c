"""Time and chance, as arguments."""

from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        ...

    def ticks_ns(self) -> int:
        """Return a monotonic count of nanoseconds, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...


class Ids(Protocol):
    """Makes identifiers."""

    def uuid(self) -> str:
        """Return a new random uuid in its 36-character form."""
        ...

    def request_id(self) -> str:
        """Return a new `req-` id with a uuid."""
        ...
