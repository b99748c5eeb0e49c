"""Resource providers as JSON, from bytes prepared once a provider."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.api.codec import encode
from berth.domain.inventory.provider import Provider
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.column_set import grown
from berth.tables.provider.providers import ProviderTable

_NESTED_SINCE: Final = 14
_LINKS: Final = (
    (0, "inventories"),
    (0, "usages"),
    (1, "aggregates"),
    (6, "traits"),
    (11, "allocations"),
)
"""What is linked to, by the minor version from which it is."""
_LAYOUTS: Final = (0, 1, 6, 11, _NESTED_SINCE)
"""The minor versions from which a provider looks different."""
_LISTED: Final = (b'{"resource_providers":[', b"]}")
_LAYOUTS_KEPT: Final = 2
"""How many of these are kept, the last asked for; each takes some 750 bytes a provider."""


class ProviderWriter:
    """Writes providers of a table; only the generation is filled in each time.

    Args:
        prefix: of all links.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._table: ProviderTable | None = None
        self._pages: dict[int, _Page] = {}

    def listed(self, table: ProviderTable, rows: Rows, minor: int) -> bytes:
        """Write the answer that lists the providers of some rows."""
        page = self._page(table, minor)
        page.refresh(rows)
        places: list[int] = rows.tolist()
        # Framed before it is filled in: each copy takes as much memory as the whole answer.
        body = b",".join([page.templates[row] for row in places]).join(_LISTED)
        return body % tuple(table.generations[rows].tolist())

    def newest_s(self, table: ProviderTable, rows: Rows, minor: int) -> float | None:
        """Return when the last of some rows was changed; None if that is not known of one."""
        page = self._page(table, minor)
        page.refresh(rows)
        times_s = page.times_s[rows]
        return float(times_s.max()) if times_s.size and bool(times_s.all()) else None

    def shown(self, provider: Provider, root_uuid: str, minor: int) -> bytes:
        """Write one provider, whatever the table has."""
        return _template(self._prefix, provider, root_uuid, minor) % provider.generation

    def _page(self, table: ProviderTable, minor: int) -> "_Page":
        if self._table is not table:
            self._table = table
            self._pages.clear()
        layout = max(since for since in _LAYOUTS if since <= minor)
        page = self._pages.pop(layout, None) or _Page(self._prefix, table, layout)
        self._pages[layout] = page
        if len(self._pages) > _LAYOUTS_KEPT:
            del self._pages[next(iter(self._pages))]
        return page


class _Page:
    """The templates of one layout by row, made when they are first asked for or out of date."""

    def __init__(self, prefix: str, table: ProviderTable, layout: int) -> None:
        self.templates: list[bytes] = []
        self.times_s: NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        self._revisions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._prefix = prefix
        self._table = table
        self._layout = layout

    def refresh(self, rows: Rows) -> None:
        """Make templates and times of those rows true."""
        table, size = self._table, len(self._table)
        if size > len(self.templates):
            self.templates += [b""] * (size - len(self.templates))
            self.times_s = grown(self.times_s, size)
            self._revisions = grown(self._revisions, size)
        revisions = table.revisions[rows]
        for row in rows[self._revisions[rows] != revisions].tolist():
            stated, root_uuid = table.base_record(row), table.uuid(table.root.item(row))
            self.templates[row] = _template(self._prefix, stated, root_uuid, self._layout)
            self.times_s[row] = changed_s(stated)
        self._revisions[rows] = revisions


def changed_s(provider: Provider) -> float:
    """Return when a provider was changed last; 0 if that is not known."""
    return provider.updated_at_s or provider.created_at_s


def root_uuid_of(table: ProviderTable, provider: Provider) -> str:
    """Return the uuid of the root of a provider's tree, as far as the table knows it."""
    row = table.row_of(provider.uuid)
    return (
        provider.parent_uuid or provider.uuid if row is None else table.uuid(table.root.item(row))
    )


def _template(prefix: str, provider: Provider, root_uuid: str, minor: int) -> bytes:
    """Write a provider with a place for its generation."""
    url = f"{prefix}/resource_providers/{provider.uuid}"
    links = [{"rel": "self", "href": url}]
    links += [{"rel": name, "href": f"{url}/{name}"} for since, name in _LINKS if since <= minor]
    told: dict[str, object] = {"uuid": provider.uuid, "name": provider.name, "links": links}
    if minor >= _NESTED_SINCE:
        told |= {"parent_provider_uuid": provider.parent_uuid, "root_provider_uuid": root_uuid}
    return b'{"generation":%d,' + encode(told)[1:].replace(b"%", b"%%")


def newest(times_s: Iterable[float]) -> float | None:
    """Return the latest of some Unix times; None, which stands for now, if one is unknown (0)."""
    known = list(times_s)
    return max(known) if known and all(known) else None
