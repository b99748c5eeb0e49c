"""Tokens that were ended before their time."""

from berth.api.errors import HttpError
from berth.ports.clock import Clock


class Revoked:
    """Remembers ended tokens until they expire by themselves; memory of one process.

    Args:
        clock: tells the time.
        kept_max: how many are remembered; none is forgotten for another one.
    """

    def __init__(self, clock: Clock, *, kept_max: int = 100_000) -> None:
        self._clock = clock
        self._kept_max = kept_max
        self._until_s: dict[str, int] = {}

    def __contains__(self, audit_id: str) -> bool:
        return audit_id in self._until_s

    def add(self, audit_id: str, expires_at_s: int) -> None:
        """Remember a token by its audit id.

        Raises:
            HttpError: 503, too many are remembered.
        """
        if len(self._until_s) >= self._kept_max:
            self._forget_expired()
        if len(self._until_s) >= self._kept_max:
            raise HttpError(503, "Too many tokens were revoked.", {"Retry-After": "60"})
        self._until_s[audit_id] = expires_at_s

    def _forget_expired(self) -> None:
        now_s = self._clock.now_s()
        for audit_id, until_s in list(self._until_s.items()):
            if until_s <= now_s:
                del self._until_s[audit_id]
