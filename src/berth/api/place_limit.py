"""A limit on what is in progress at the same time, for each key and in total."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager


class PlaceLimit:
    """Limits how many places are held at the same time.

    Args:
        each_max: the maximum number of places of a key.
        total_max: the maximum number of places of all keys.
    """

    def __init__(self, *, each_max: int, total_max: int) -> None:
        self._each_max = each_max
        self._total_max = total_max
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, key: str) -> Generator[bool]:
        """Hold a place of a key within the context; yield False if all are taken."""
        if self._held[key] >= self._each_max or self._held.total() >= self._total_max:
            yield False
            return
        self._held[key] += 1
        try:
            yield True
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
