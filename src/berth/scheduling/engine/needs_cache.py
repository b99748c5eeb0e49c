"""A cache of values that depend on flavor and image only."""

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
    """A flavor, an image and the value computed from them."""

    flavor: Flavor
    image: Image | None
    value: T


class NeedsCache(Generic[T]):
    """A cache with one value per pair of flavor and image.

    A pair is first looked up by object identity, because most callers pass the same objects each
    time, and flavors contain mappings, so comparing them by value costs more than most of the
    derived values. Requests decoded from the network have new objects each time; these are compared
    by value with the newest pair of the same ids.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Known[T]] = {}
        self._newest: dict[tuple[str, str | None], _Known[T]] = {}

    def get(self, request: Request, make: Callable[[], T]) -> T:
        """Return the value for the request's flavor and image; call `make` if it is not cached."""
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
        # The entry keeps both objects alive: Python may reuse the id of a freed object.
        known = self._known[number] = self._newest[name] = _Known(flavor, image, make())
        return known.value


def _is_same(known: _Known[T], flavor: Flavor, image: Image | None) -> bool:
    """Return whether a pair equals the known one, including the order of its mappings."""
    if (known.flavor, known.image) != (flavor, image):
        return False
    # Equal dicts may differ in order, and derived values may depend on it.
    mine, other = known.flavor.extra_specs, flavor.extra_specs
    if len(mine) > 1 and list(mine) != list(other):
        return False
    if image is None or known.image is None:
        return True
    return list(known.image.properties) == list(image.properties)


class _NeedsKnown(NeedsCache[Needs]):
    """The cache of request needs of one table."""


def cached_needs(hosts: HostTable, request: Request) -> Needs:
    """Return the needs of one instance of a request, cached with the table.

    Raises:
        InvalidInputError: the flavor or the image is invalid.
    """
    kept = hosts.caches.get(_CACHE)
    if not isinstance(kept, _NeedsKnown):
        kept = hosts.caches[_CACHE] = _NeedsKnown()
    return kept.get(request, lambda: request.needs)
