"""JSON view of allocation candidates, assembled from prepared bytes.

Consecutive responses differ little. The summary of a provider is therefore encoded once, with
placeholders for its usage, and reused until the provider's record changes.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.codec import encode
from berth.domain.inventory.provider import Provider
from berth.scheduling.candidates.candidate_search import Amounts, Candidates, CompositeCandidate
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.column_set import grown
from berth.tables.provider.providers import ProviderTable
from berth.tables.vocabulary import Vocabulary

# Microversions that changed the format: allocations keyed by provider, traits, all classes of a
# provider instead of the requested ones, nested providers, and mappings.
_KEYED_SINCE: Final = 12
_TRAITS_SINCE: Final = 17
_EVERY_CLASS_SINCE: Final = 27
_NESTED_SINCE: Final = 29
_MAPPINGS_SINCE: Final = 34

# Maximum number of cached layouts. Clients before 1.27 need one for each set of requested classes,
# so the cache must be bounded.
_PAGES_MAX: Final = 4


class _Layout(NamedTuple):
    """Contents of a provider's summary: traits, position in the tree, and classes (None: all)."""

    has_traits: bool
    has_place: bool
    classes: frozenset[str] | None


class CandidateWriter:
    """Encodes the candidates of a query."""

    def __init__(self) -> None:
        self._pages: dict[_Layout, _Page] = {}

    def written(
        self,
        table: ProviderTable,
        vocabulary: Vocabulary,
        query: CandidateQuery,
        found: Candidates,
        minor: int,
    ) -> bytes:
        """Return the response body.

        Args:
            table: table in which the candidates were found.
            vocabulary: vocabulary of the table; defines the order of traits.
            query: the query.
            found: its candidates.
            minor: microversion.
        """
        page = self._page(table, vocabulary, query, minor)
        used = _used_rows(found)
        shown = _with_trees(table, used) if minor >= _NESTED_SINCE else used
        page.refresh(shown)
        if not shown.size:
            return b'{"allocation_requests":[],"provider_summaries":{}}'
        requests = _Requests(query, minor, page.uuids(used))
        allocation_requests = (*requests.alone(found), *map(requests.composed, found.composed))
        summaries = page.summaries(shown)
        return b"".join(
            (
                b'{"allocation_requests":[',
                b",".join(allocation_requests),
                b'],"provider_summaries":{',
                summaries,
                b"}}",
            )
        )

    def _page(
        self, table: ProviderTable, vocabulary: Vocabulary, query: CandidateQuery, minor: int
    ) -> "_Page":
        classes = None
        if minor < _EVERY_CLASS_SINCE:
            classes = frozenset(name for group in query.groups for name in group.amounts)
        layout = _Layout(minor >= _TRAITS_SINCE, minor >= _NESTED_SINCE, classes)
        page = self._pages.pop(layout, None)
        # A rebuilt table has other rows, so pages of the old one are worthless.
        if page is None or page.table is not table:
            page = _Page(table, vocabulary, layout)
        while len(self._pages) >= _PAGES_MAX:
            del self._pages[next(iter(self._pages))]
        # The page is reinserted at the end, so that the first key is the least recently used one.
        self._pages[layout] = page
        return page


# ---- allocation requests ----------------------------------------------------------------------


class _Uuids(dict[int, bytes]):
    """JSON-encoded uuids by row; missing ones are encoded on first access.

    Missing rows are providers of resourceless groups, which occur in mappings only.
    """

    def __init__(self, table: ProviderTable, known: Iterable[tuple[int, bytes]]) -> None:
        super().__init__(known)
        self._table = table

    def __missing__(self, row: int) -> bytes:
        written = self[row] = encode(self._table.uuid(row))
        return written


class _Requests:
    """Encodes allocation requests in the format of a microversion."""

    def __init__(self, query: CandidateQuery, minor: int, uuids: _Uuids) -> None:
        self._uuids = uuids
        self._is_keyed = minor >= _KEYED_SINCE
        self._has_mappings = minor >= _MAPPINGS_SINCE
        self._suffixes = [encode(group.suffix) + b":[" for group in query.groups]
        self._resources: dict[Amounts, bytes] = {}

    def alone(self, found: Candidates) -> tuple[bytes, ...]:
        """Encode the candidates in which one provider serves every group.

        The result has one item with all of them, or no item if there are none.
        """
        rows: list[int] = found.alone.tolist()
        if not rows:
            return ()
        # These candidates differ only in the uuid. One is encoded with NUL in its place (which
        # JSON never contains unescaped), and joining its pieces with each uuid gives the others.
        given = self._given(b"\0", found.amounts)
        mapped = [suffix + b"\0" for suffix in self._suffixes]
        pieces = self._request((given,), mapped).split(b"\0")
        uuids = self._uuids
        return (b",".join([uuids[row].join(pieces) for row in rows]),)

    def composed(self, candidate: CompositeCandidate) -> bytes:
        """Encode a candidate with several providers."""
        uuids = self._uuids
        given = [self._given(uuids[row], amounts) for row, amounts in candidate.amounts]
        mapped = [
            suffix + b",".join([uuids[row] for row in rows])
            for suffix, rows in zip(self._suffixes, candidate.mappings, strict=True)
        ]
        return self._request(given, mapped)

    def _request(self, given: Iterable[bytes], mapped: Sequence[bytes]) -> bytes:
        listed = b",".join(given)
        if not self._is_keyed:
            return b'{"allocations":[' + listed + b"]}"
        if not self._has_mappings:
            return b'{"allocations":{' + listed + b"}}"
        return b'{"allocations":{' + listed + b'},"mappings":{' + b"],".join(mapped) + b"]}}"

    def _given(self, uuid: bytes, amounts: Amounts) -> bytes:
        """Encode the resources taken from one provider."""
        resources = self._resources.get(amounts)
        if resources is None:
            resources = self._resources[amounts] = b'"resources":' + encode(dict(amounts)) + b"}"
        if self._is_keyed:
            return uuid + b":{" + resources
        return b'{"resource_provider":{"uuid":' + uuid + b"}," + resources


# ---- provider summaries -----------------------------------------------------------------------


class _Page:
    """Templates of the provider summaries of a table in one layout, by row.

    A template is built when its row is first requested, and rebuilt when the row's record changes.
    """

    def __init__(self, table: ProviderTable, vocabulary: Vocabulary, layout: _Layout) -> None:
        self.table = table
        self._vocabulary = vocabulary
        self._layout = layout
        self._templates: list[bytes] = []
        self._uuids: list[bytes] = []
        self._revisions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        # Rows with the same classes in the same order are of one kind: their templates take the
        # same placeholders, so one column per class fills all of them.
        self._kinds: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._kind_of: dict[tuple[str, ...], int] = {}

    def refresh(self, rows: Rows) -> None:
        """Bring the templates of the given rows up to date."""
        table, size = self.table, len(self.table)
        if size > len(self._templates):
            more = [b""] * (size - len(self._templates))
            self._templates += more
            self._uuids += more
            self._revisions = grown(self._revisions, size)
            self._kinds = grown(self._kinds, size)
        # Claims change usage and generation but not the revision, so most rows are up to date.
        revisions = table.revisions[rows]
        for row in rows[self._revisions[rows] != revisions].tolist():
            stated = table.base_record(row)
            names = tuple(
                name
                for name in stated.inventories
                if self._layout.classes is None or name in self._layout.classes
            )
            root_uuid = table.uuid(table.root.item(row))
            self._uuids[row] = encode(stated.uuid)
            self._templates[row] = self._template(stated, root_uuid, names)
            self._kinds[row] = self._kind_of.setdefault(names, len(self._kind_of))
        self._revisions[rows] = revisions

    def uuids(self, rows: Rows) -> _Uuids:
        """Return the uuids of the given rows, which must be up to date."""
        places: list[int] = rows.tolist()
        uuids = self._uuids
        return _Uuids(self.table, [(row, uuids[row]) for row in places])

    def summaries(self, rows: Rows) -> bytes:
        """Encode the summaries of the given rows with their current usage."""
        kinds = self._kinds[rows]
        names_of = list(self._kind_of)
        templates = self._templates
        written: list[bytes] = []
        present: list[int] = np.unique(kinds).tolist()
        for kind in present:
            of_kind = rows[kinds == kind]
            places: list[int] = of_kind.tolist()
            # One formatting call fills all templates of a kind, instead of one call per row.
            body = b",".join([templates[row] for row in places])
            used = [self._used(name, of_kind) for name in names_of[kind]]
            amounts: list[int] = np.column_stack(used).ravel().tolist() if used else []
            written.append(body % tuple(amounts))
        return b",".join(written)

    def _used(self, name: str, rows: Rows) -> NDArray[np.int64]:
        columns = self.table.resource(name)
        return np.zeros(rows.size, dtype=np.int64) if columns is None else columns.used[rows]

    def _template(self, provider: Provider, root_uuid: str, names: Iterable[str]) -> bytes:
        """Encode a provider's summary with placeholders for its usage."""
        resources: list[bytes] = []
        for name in names:
            inventory = provider.inventories[name]
            # `inventory.capacity` is clamped, whereas Placement reports the exact number.
            capacity = int((inventory.total - inventory.reserved) * inventory.allocation_ratio)
            resources.append(_plain(name) + b':{"capacity":%d,"used":%%d}' % capacity)
        summary = _plain(provider.uuid) + b':{"resources":{' + b",".join(resources) + b"}"
        if self._layout.has_traits:
            summary += b',"traits":' + _plain(self._vocabulary.traits.in_order(provider.traits))
        if self._layout.has_place:
            summary += b',"parent_provider_uuid":' + _plain(provider.parent_uuid)
            summary += b',"root_provider_uuid":' + _plain(root_uuid)
        return summary + b"}"


def _plain(value: object) -> bytes:
    """Encode a value for use in a template, with `%` escaped."""
    return encode(value).replace(b"%", b"%%")


def _used_rows(found: Candidates) -> Rows:
    """Return the rows that supply resources in any candidate, ascending."""
    composed = {row for candidate in found.composed for row, _ in candidate.amounts}
    if not composed:
        return np.sort(found.alone)
    rows = np.fromiter(composed, dtype=np.intp, count=len(composed))
    return np.union1d(rows, found.alone)


def _with_trees(table: ProviderTable, rows: Rows) -> Rows:
    """Return all rows of the trees that contain the given rows."""
    forest = table.forest()
    roots = np.unique(table.root[rows])
    sizes = forest.sizes[roots]
    if not rows.size or int(sizes.max()) == 1:
        return roots.astype(np.intp)
    # Each tree is a contiguous run of `members`. This builds the positions of all runs without a
    # Python loop: a running count, shifted to the start of each run.
    ends = sizes.cumsum()
    places = np.arange(int(ends[-1])) + np.repeat(forest.starts[roots] - (ends - sizes), sizes)
    return forest.members[places]
