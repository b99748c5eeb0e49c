"""JSON view of resource providers, assembled from bytes that are prepared once per provider."""

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
# Links of a provider with the minor version that added each.
_LINKS: Final = (
    (0, "inventories"),
    (0, "usages"),
    (1, "aggregates"),
    (6, "traits"),
    (11, "allocations"),
)
# The minor versions that changed the view of a provider.
_LAYOUTS: Final = (0, 1, 6, 11, _NESTED_SINCE)
_LISTED: Final = (b'{"resource_providers":[', b"]}")
# Maximum number of cached layouts. Each takes about 750 bytes per provider, so only the most
# recently used are kept.
_LAYOUTS_KEPT: Final = 2


class ProviderWriter:
    """Encodes providers of a table from templates into which only the generation is inserted.

    Args:
        prefix: start of all links.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._table: ProviderTable | None = None
        self._pages: dict[int, _Page] = {}

    def listed(self, table: ProviderTable, rows: Rows, minor: int) -> bytes:
        """Return the response body that lists the providers in the given rows."""
        page = self._page(table, minor)
        page.refresh(rows)
        places: list[int] = rows.tolist()
        # The body is framed before the generations are inserted: each copy of it takes as much
        # memory as the whole response.
        body = b",".join([page.templates[row] for row in places]).join(_LISTED)
        return body % tuple(table.generations[rows].tolist())

    def newest_s(self, table: ProviderTable, rows: Rows, minor: int) -> float | None:
        """Return the Unix time of the latest change of the given rows.

        Returns None if there are no rows, or if the time of any is unknown.
        """
        page = self._page(table, minor)
        page.refresh(rows)
        times_s = page.times_s[rows]
        return float(times_s.max()) if times_s.size and bool(times_s.all()) else None

    def shown(self, provider: Provider, root_uuid: str, minor: int) -> bytes:
        """Return the response body of one provider, independently of the table's state."""
        return _template(self._prefix, provider, root_uuid, minor) % provider.generation

    def _page(self, table: ProviderTable, minor: int) -> "_Page":
        # A rebuilt table has other rows, so all templates are worthless.
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
    """Templates of one layout by row.

    A template is built when its row is first requested, and rebuilt when the row's record changes.
    """

    def __init__(self, prefix: str, table: ProviderTable, layout: int) -> None:
        self.templates: list[bytes] = []
        self.times_s: NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        self._revisions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._prefix = prefix
        self._table = table
        self._layout = layout

    def refresh(self, rows: Rows) -> None:
        """Bring the templates and times of the given rows up to date."""
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
    """Return the Unix time of a provider's last change, or 0 if it is unknown."""
    return provider.updated_at_s or provider.created_at_s


def root_uuid_of(table: ProviderTable, provider: Provider) -> str:
    """Return the uuid of the root of a provider's tree.

    For a provider that has no row, this is its parent or, without a parent, the provider itself.
    """
    # A provider without a row was just removed, or its parent is unknown to the table.
    row = table.row_of(provider.uuid)
    return (
        provider.parent_uuid or provider.uuid if row is None else table.uuid(table.root.item(row))
    )


def _template(prefix: str, provider: Provider, root_uuid: str, minor: int) -> bytes:
    """Encode a provider with a placeholder for its generation."""
    url = f"{prefix}/resource_providers/{provider.uuid}"
    links = [{"rel": "self", "href": url}]
    links += [{"rel": name, "href": f"{url}/{name}"} for since, name in _LINKS if since <= minor]
    view: dict[str, object] = {"uuid": provider.uuid, "name": provider.name, "links": links}
    if minor >= _NESTED_SINCE:
        view |= {"parent_provider_uuid": provider.parent_uuid, "root_provider_uuid": root_uuid}
    # The placeholder replaces the opening brace of the object. Names may contain `%`, so it is
    # escaped.
    return b'{"generation":%d,' + encode(view)[1:].replace(b"%", b"%%")


def newest(times_s: Iterable[float]) -> float | None:
    """Return the latest of the given Unix times; None if there are none or one is unknown (0)."""
    known = list(times_s)
    return max(known) if known and all(known) else None
