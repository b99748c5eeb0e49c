"""JsonFilter: the host satisfies the JSON query of the request.

The hint `query` has one value; `scheduling.rules.json_query` describes its grammar. A query that
cannot be parsed fails the request instead of removing every host.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.json_query import (
    JsonOperation,
    attributes_of,
    demands_of,
    parse,
    satisfies,
    value_of,
)
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "JsonFilter"
_HINT = "query"
# A reason quotes at most this many characters of a query.
_SHOWN_MAX = 200


def build() -> Filter:
    """Build the filter; it has no options (nova-behaviour.md 1.2, 2.6)."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=(f"hints.{_HINT}",), columns=("host", "used", "instances", "service")),
    )


def _asked(query: Query) -> JsonOperation | None:
    texts = query.request.hints.get(_HINT, ())
    if len(texts) > 1:
        raise InvalidInputError(f"hints.{_HINT}", f"has {len(texts)} values; give one")
    return parse(texts[0]) if texts and texts[0].strip() else None


def _demands(
    hosts: HostTable, query: Query, rows: Selection
) -> Iterator[tuple[JsonOperation, Mask]]:
    """Yield each part of the query with the rows that satisfy it."""
    asked = _asked(query)
    for one in () if asked is None else demands_of(asked):
        yield one, satisfies(one, hosts, rows)


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    if _asked(query) is None:
        return None
    kept = np.ones(count_of(rows), dtype=np.bool_)
    for _, meets in _demands(hosts, query, rows):
        kept &= meets
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    demands = _demands(hosts, query, np.array([row]))
    unmet = [one for one, meets in demands if not meets[0]]
    reasons: list[str] = []
    for one in unmet:
        named = dict.fromkeys(attributes_of(one))
        values = ", ".join(f"{name} is {value_of(name, hosts, row)!r}" for name in named)
        reasons.append(_short(f"{one} does not hold" + (f": {values}" if values else "")))
    return "; ".join(reasons)


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    demands = list(_demands(hosts, query, rows))
    # A relaxation is a single change, so it helps only hosts that fail no other demand.
    failed = np.sum([~meets for _, meets in demands], axis=0)
    found: list[Relaxation] = []
    for one, meets in demands:
        winners = rows[~meets & (failed == 1)]
        # Without its only part, the query demands nothing.
        what = f"{_short(str(one))} in the query" if len(demands) > 1 else f"the hint {_HINT}"
        found.extend(without(NAME, _HINT, what, hosts, winners))
    return found


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
