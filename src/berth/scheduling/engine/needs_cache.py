"""Kinds: what follows from flavor and image alone, worked out once for the same two."""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.tables.host.hosts import HostTable

T = TypeVar("T")

_KEPT_MAX: Final = 4_096
_CACHE: Final = "needs"


class _Known(NamedTuple, Generic[T]):
    """What is known of a flavor and an image."""

    flavor: Flavor
    image: Image | None
    value: T


class NeedsCache(Generic[T]):
    """A value for each pair of flavor and image.

    They are known by the objects themselves: flavors hold mappings, so comparing them by value
    costs more than most of what follows from them, and the same objects come again and again, from
    whoever keeps flavors and images. Those that come over a wire are new each time; they are held
    against the last ones with their ids.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Known[T]] = {}
        self._newest: dict[tuple[str, str | None], _Known[T]] = {}

    def get(self, request: Request, make: Callable[[], T]) -> T:
        """Return what is known of the request's flavor and image, or make it."""
        flavor, image = request.flavor, request.image
        number = (id(flavor), id(image))
        known = self._known.get(number)
        if known is not None:
            return known.value
        name = (flavor.flavor_id, None if image is None else image.image_id)
        known = self._newest.get(name)
        if known is not None and _is_same(known, flavor, image):
            return known.value
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
            self._newest.clear()
        # The objects are kept too, so that nothing else can get their numbers.
        known = self._known[number] = self._newest[name] = _Known(flavor, image, make())
        return known.value


def _is_same(known: _Known[T], flavor: Flavor, image: Image | None) -> bool:
    """Tell whether nobody could tell two pairs apart, by the order of what they say either."""
    if (known.flavor, known.image) != (flavor, image):
        return False
    mine, other = known.flavor.extra_specs, flavor.extra_specs
    if len(mine) > 1 and list(mine) != list(other):
        return False
    if image is None or known.image is None:
        return True
    return list(known.image.properties) == list(image.properties)


class _NeedsKnown(NeedsCache[Needs]):
    """What requests need, as a table's cache keeps it."""


def cached_needs(hosts: HostTable, request: Request) -> Needs:
    """Return what one instance of a request needs.

    Raises:
        InvalidInputError: an extra spec or image property that cannot be read.
    """
    kept = hosts.caches.get(_CACHE)
    if not isinstance(kept, _NeedsKnown):
        kept = hosts.caches[_CACHE] = _NeedsKnown()
    return kept.get(request, lambda: request.needs)
