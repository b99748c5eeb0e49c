"""Links to resources and to the next page of a list, and page limits."""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from berth.api.codec import View
from berth.api.header_fields import root_url
from berth.api.routing import Call
from berth.domain.errors import InvalidInputError

T = TypeVar("T")

# The pattern of keys that quoting leaves unchanged; all uuids are such keys.
_PLAIN = re.compile(r"[A-Za-z0-9_.\-~]+")
COMPUTE = "/v2.1"


class Link(View):
    """A link to a resource or to a page of a list."""

    rel: str
    href: str


class Linker(NamedTuple):
    """Builds the links of one response."""

    root: str

    def of(self, collection: str, key: str) -> tuple[Link, Link]:
        """Return the links to a compute resource: `self`, and `bookmark` without a version."""
        path = f"/{collection}/{quoted(key)}"
        return (
            Link(rel="self", href=f"{self.root}{COMPUTE}{path}"),
            Link(rel="bookmark", href=f"{self.root}{path}"),
        )

    def bookmark(self, collection: str, key: str) -> tuple[Link]:
        """Return only the `bookmark` link to a compute resource, without the API version."""
        return (Link(rel="bookmark", href=f"{self.root}/{collection}/{quoted(key)}"),)


def quoted(key: str) -> str:
    """Return a key percent-encoded for use in a path."""
    return key if _PLAIN.fullmatch(key) else quote(key, safe="")


def image_link(call: Call, image_id: str) -> str:
    """Return the URL of an image in the Image API."""
    return f"{root_url(call.scope)}/image/v2/images/{quoted(image_id)}"


def linker_of(call: Call) -> Linker:
    """Return the builder of the links in the response to a call."""
    return Linker(root_url(call.scope))


def next_page(call: Call, marker: str, limit: int) -> tuple[Link]:
    """Return the link to the page of the same list that starts after `marker`."""
    items = [(name, value) for name, value in call.query_items() if name not in {"marker", "limit"}]
    query = urlencode([*items, ("limit", str(limit)), ("marker", marker)])
    keys = {name: quoted(key) for name, key in call.scope["path_params"].items()}
    path = call.operation.path.format_map(keys)
    return (Link(rel="next", href=f"{root_url(call.scope)}{path}?{query}"),)


def page_of(items: Sequence[T], keys: Sequence[str], marker: str | None, limit: int) -> Sequence[T]:
    """Return one page of a complete list.

    Args:
        items: the complete list, in order.
        keys: the keys of the items, in the same order.
        marker: key of the last item of the previous page, or None for the first page.
        limit: maximum number of items in the page.

    Raises:
        InvalidInputError: no item has the marker as its key.
    """
    start = 0
    if marker is not None:
        if marker not in keys:
            raise InvalidInputError("marker", f"{marker[:80]!r} is not in the list")
        start = keys.index(marker) + 1
    return items[start : start + limit]


def limit_of(call: Call, requested: int | None) -> int:
    """Return the page size: the smaller of the requested limit, if any, and the API's maximum."""
    maximum = call.parts.limits.list_max
    return maximum if requested is None else min(requested, maximum)
