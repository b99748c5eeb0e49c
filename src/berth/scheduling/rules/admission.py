"""Admission: aggregates that list, under a key of their metadata, whom their hosts are for.

The words of all aggregates of a host are put together; a host that has none of the keys is open
to all (nova-behaviour.md 2.6).
"""

from collections.abc import Iterable

from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.host.hosts import HostTable

_NAMED_MAX = 5


def admits(hosts: HostTable, keys: Iterable[str], word: str, rows: Selection) -> Mask:
    """Tell for each of the rows whether it is open to all, or lists the word under a key.

    Args:
        hosts: the table.
        keys: of metadata.
        word: what to look for; an empty one is on no list.
        rows: K rows.

    Returns:
        (K,) bool.
    """
    listing: set[int] = set()
    naming: set[int] = set()
    for key in keys:
        for number, words in hosts.memberships.with_key(key).items():
            listing.add(number)
            if word and word in words:
                naming.add(number)
    admitted: Mask = ~hosts.memberships.has_any(listing, rows)
    if naming:
        admitted |= hosts.memberships.has_any(naming, rows)
    return admitted


def listed(hosts: HostTable, keys: Iterable[str], row: int) -> str:
    """Say what the aggregates of a row list under the keys, a few words of it."""
    words = sorted({word for key in keys for word in hosts.memberships.words(key, row)} - {""})
    if not words:
        return "nothing"
    more = len(words) - _NAMED_MAX
    return ", ".join(words[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
