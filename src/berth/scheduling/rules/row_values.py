"""A cache of values that rules derive from each row of the table.

Requests of many kinds need the same values, so they are computed once, and again for the rows that
the table's journal names. The values always equal those of a full computation.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

Matrix = NDArray[np.float64]
"""(L, N): L values of each of N rows."""

# If more than one row in four has changed, reading all rows as a slice is faster than by index.
_CHANGED_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class _Kept:
    """Values as of a position in the journal, for one stamp."""

    stamp: Hashable
    position: int
    values: Matrix


def row_values(
    hosts: HostTable,
    key: str,
    group: str,
    read: Callable[[HostTable, Selection], Matrix],
    *,
    stamp: Hashable = None,
) -> Matrix:
    """Return the values of every row of a table; the array must not be written to.

    Args:
        hosts: the table, whose caches keep the values under `key`.
        key: identifies the rule and its options.
        group: the journal's group of columns that `read` reads.
        read: (hosts, rows) -> (L, K) for K rows; the values of a row must not depend on the other
            rows in `rows`.
        stamp: anything else that the values depend on; a different stamp discards all of them.
    """
    kept = cast("_Kept | None", hosts.caches.get(key))
    position = hosts.journal.position(group)
    if kept is None or kept.stamp != stamp or kept.values.shape[1] != len(hosts):
        changed = None
    elif kept.position == position:
        return kept.values
    else:
        changed = hosts.journal.since(group, kept.position)
    if kept is None or changed is None or len(set(changed)) * _CHANGED_SHARE > len(hosts):
        values = read(hosts, hosts.all_rows)
    else:
        rows = np.array(list(set(changed)), dtype=np.intp)
        values = kept.values
        values[:, rows] = read(hosts, rows)
    hosts.caches[key] = _Kept(stamp, position, values)
    return values
