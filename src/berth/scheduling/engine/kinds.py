"""Kinds: what follows from flavor and image alone, worked out once for the same two objects."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from berth.domain.flavor import Flavor, Needs
from berth.domain.image import Image
from berth.domain.request import Request
from berth.tables.hosts import HostTable

T = TypeVar("T")

_KEPT_MAX: Final = 4_096
_CACHE: Final = "needs"


class Kinds(Generic[T]):
    """A value for each pair of flavor and image, known by the objects themselves.

    Flavors hold mappings, so comparing them by value costs more than most of what follows from
    them; but the same objects come again and again, from whoever keeps flavors and images.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Flavor, Image | None, T]] = {}

    def get(self, request: Request, make: Callable[[], T]) -> T:
        """Return what is known of the request's flavor and image, or make it."""
        number = (id(request.flavor), id(request.image))
        known = self._known.get(number)
        if known is None:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            # The objects are kept too, so that nothing else can get their numbers.
            known = self._known[number] = (request.flavor, request.image, make())
        return known[2]


class _NeedsKnown(Kinds[Needs]):
    """What requests need, as a table's cache keeps it."""


def needs_known(hosts: HostTable, request: Request) -> Needs:
    """Return what one instance of a request needs.

    Raises:
        InvalidInputError: an extra spec or image property that cannot be read.
    """
    kept = hosts.caches.get(_CACHE)
    if not isinstance(kept, _NeedsKnown):
        kept = hosts.caches[_CACHE] = _NeedsKnown()
    return kept.get(request, lambda: request.needs)
