"""Row values: what rules work out of each row of the table, kept until the row changes.

What many kinds of requests ask about the same rows is worked out once: the journal names the rows
that have to be looked at again. The values are always those of a table read anew.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

Matrix = NDArray[np.float64]
"""(L, N): so many values of each row."""

_CHANGED_SHARE: Final = 4
"""When more than one row in so many has changed, everything is read anew."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """Values as they were at a position of the journal."""

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
    """Return what `read` says of every row of a table; it must not be written to.

    Args:
        hosts: the table; it keeps the values, under `key`.
        key: says who asks, and with what options.
        group: the columns that `read` looks at, as the journal names them.
        read: (hosts, rows) -> (L, K) for K rows; the values of a row must not depend on the
            other rows that are looked at.
        stamp: what else the values depend on; when it changes, everything is read anew.
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
