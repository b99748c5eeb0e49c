"""Aggregate metadata that admits requests to hosts, or confines them to hosts."""

from collections.abc import Iterable

from berth.domain.compute.aggregate import AZ_KEY
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.host.hosts import HostTable

TENANT_PREFIX = "filter_tenant_id"
"""Every metadata key with this prefix lists projects."""

_NAMED_MAX = 5


def admits(hosts: HostTable, keys: Iterable[str], word: str, rows: Selection) -> Mask:
    """Return, for each row, whether it is open to all, or lists the word under one of the keys.

    The lists of all aggregates of a host are combined; a host with none of the keys is open to
    all (nova-behaviour.md 2.6).

    Args:
        hosts: the table.
        keys: the metadata keys.
        word: the word to look up; an empty word is on no list.
        rows: K rows.

    Returns:
        (K,) bool.
    """
    listing: set[int] = set()
    naming: set[int] = set()
    for key in keys:
        for number, words in hosts.memberships.with_key(key).items():
            listing.add(number)
            # A trailing comma makes an empty word, which must not admit requests without a value.
            if word and word in words:
                naming.add(number)
    admitted: Mask = ~hosts.memberships.by_row.has_any(listing, rows)
    if naming:
        admitted |= hosts.memberships.by_row.has_any(naming, rows)
    return admitted


def listed(hosts: HostTable, keys: Iterable[str], row: int) -> str:
    """Return the first few words that the aggregates of a row list under the keys, as text.

    The text is "nothing" if they list no word.
    """
    words = sorted({word for key in keys for word in hosts.memberships.words(key, row)} - {""})
    if not words:
        return "nothing"
    more = len(words) - _NAMED_MAX
    return ", ".join(words[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")


# `project_aggregates` and `zone_aggregates` look at all aggregates, even those without hosts: an
# aggregate that loses its last host must not release its project to all other hosts.


def project_aggregates(hosts: HostTable, query: Query) -> frozenset[int]:
    """Return the ids of the aggregates whose metadata names the request's project."""
    project_id = query.request.project_id
    if not project_id:
        return frozenset()
    memberships = hosts.memberships
    keys = [key for key in memberships.by_key if key.startswith(TENANT_PREFIX)]
    tables = [memberships.with_key(key) for key in keys]
    return frozenset(n for table in tables for n, words in table.items() if project_id in words)


def zone_aggregates(hosts: HostTable, query: Query) -> frozenset[int]:
    """Return the ids of the aggregates that form the requested availability zone."""
    zone = query.request.availability_zone
    if not zone:
        return frozenset()
    by_aggregate = hosts.memberships.with_key(AZ_KEY)
    return frozenset(number for number, words in by_aggregate.items() if zone in words)


def names_of(hosts: HostTable, aggregate_ids: frozenset[int]) -> str:
    """Return the names of aggregates as text, separated by commas and sorted by id."""
    return ", ".join(hosts.aggregates[number].name for number in sorted(aggregate_ids))
