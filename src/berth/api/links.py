"""Links: where the client reaches this API, and the pages of its lists."""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from berth.api.codec import View
from berth.api.header_fields import root_url
from berth.api.routing import Call
from berth.domain.errors import InvalidInputError

T = TypeVar("T")

_PLAIN = re.compile(r"[A-Za-z0-9_.\-~]+")
"""Keys that are the same when they are quoted: all uuids."""
COMPUTE = "/v2.1"


class Link(View):
    """Where to find something."""

    rel: str
    href: str


class Linker(NamedTuple):
    """Makes the links of one answer."""

    root: str

    def of(self, collection: str, key: str) -> tuple[Link, Link]:
        """Link to one thing of the compute API: `self`, and `bookmark` without the version."""
        path = f"/{collection}/{quoted(key)}"
        return (
            Link(rel="self", href=f"{self.root}{COMPUTE}{path}"),
            Link(rel="bookmark", href=f"{self.root}{path}"),
        )

    def bookmark(self, collection: str, key: str) -> tuple[Link]:
        """Link to one thing without the version."""
        return (Link(rel="bookmark", href=f"{self.root}/{collection}/{quoted(key)}"),)


def quoted(key: str) -> str:
    """Quote a key for a path."""
    return key if _PLAIN.fullmatch(key) else quote(key, safe="")


def linker_of(call: Call) -> Linker:
    """Make the links for the answer to a call."""
    return Linker(root_url(call.scope))


def next_page(call: Call, marker: str, limit: int) -> tuple[Link]:
    """Link to the page of the same list that starts after `marker`."""
    items = [(name, value) for name, value in call.query_items() if name not in {"marker", "limit"}]
    query = urlencode([*items, ("limit", str(limit)), ("marker", marker)])
    keys = {name: quoted(key) for name, key in call.scope["path_params"].items()}
    path = call.operation.path.format_map(keys)
    return (Link(rel="next", href=f"{root_url(call.scope)}{path}?{query}"),)


def page_of(items: Sequence[T], keys: Sequence[str], marker: str | None, limit: int) -> Sequence[T]:
    """Cut a page out of a list that is at hand.

    Args:
        items: the whole list, in its order.
        keys: the key of each item.
        marker: key of the last item of the page before, or None for the first page.
        limit: most items of the page.

    Raises:
        InvalidInputError: no item has the marker's key.
    """
    start = 0
    if marker is not None:
        if marker not in keys:
            raise InvalidInputError("marker", f"{marker[:80]!r} is not in the list")
        start = keys.index(marker) + 1
    return items[start : start + limit]


def limit_of(call: Call, asked: int | None) -> int:
    """Return how long a page may be: what was asked for, up to the limit of the API."""
    maximum = call.parts.limits.list_max
    return maximum if asked is None else min(asked, maximum)
