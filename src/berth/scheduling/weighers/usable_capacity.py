"""UsableCapacityWeigher: how much of what a host can still give an instance leaves usable.

What is left of a host is only as good as the scarcest class in it: GPUs without CPUs to feed
them are worth nothing. So the *usable share* of a host is the least share of its capacity that
is free in any class, and placing an instance loses some of it. The value compares what the
instance takes with that loss:

    taken / (taken + loss)

It is 1 where nothing is lost, because another class was scarcer before and after; 1/2 where just
what the instance takes is lost, as on every idle host; and less where more is made useless than
is taken. `taken` is the share of the devices that are asked for, or of the class that is asked
for most when none are: devices are what runs out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher, always, by_array
from berth.scheduling.rules.whole_hosts import COMMON_CLASSES, FEW, WholeHosts, asked_of
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.host.hosts import HostTable

_MOST = 1_000
_LEAST = 1e-300
"""Less than any share, so that nothing is divided by 0."""
NAME = "UsableCapacityWeigher"


def build(
    *,
    multiplier: float = 1.0,
    steps: int = 20,
    common_classes: tuple[str, ...] = COMMON_CLASSES,
) -> Weigher:
    """Make the weigher; it is Berth's own.

    Args:
        multiplier: above 0 keeps capacity usable.
        steps: values are rounded to so many steps, so that hosts which are about as good count
            as equal, and what comes next (a lower multiplier, the name) tells them apart.
        common_classes: resource classes that are no devices.

    Raises:
        ValueError: `steps` is not 1 to 1,000.
    """
    if not 1 <= steps <= _MOST:
        raise ValueError(f"steps: {steps} must be 1 to 1,000")
    common = frozenset(common_classes)

    def value(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        asked = asked_of(query.needs)
        if not asked:
            return None
        counted = asked.keys() - common or asked.keys()
        table = WholeHosts(hosts, rows)
        asks = [_Ask(name, asked.get(name, 0), name in counted) for name in table.classes]
        weigh = _of_few if count_of(rows) <= FEW else _of_many
        return weigh(table, asks, count_of(rows), steps)

    def value_of_one(hosts: HostTable, query: Query) -> ReadOne:
        asked = asked_of(query.needs)
        if len(hosts.trees) or not asked:
            return by_array(value, hosts, query)
        counted = asked.keys() - common or asked.keys()
        each = [(columns, asked.get(n, 0), n in counted) for n, columns in hosts.resources()]
        return _reader_of_one(each, steps)

    return Weigher(
        name=NAME,
        raw=value,
        reads=Reads(request=("needs.amounts", "needs.groups"), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        multiplier_key="usable_capacity_weight_multiplier",
        share=value,
        raw_of_one=value_of_one,
        share_of_one=value_of_one,
    )


class _Ask(NamedTuple):
    """A class, how much is asked for of it, and whether that counts as taken."""

    name: str
    amount: int
    counts: bool


def _reader_of_one(asks: Sequence[tuple[ClassColumns, int, bool]], steps: int) -> ReadOne:
    """Return how to read one host without children; see `_Ask` for the rest of each class."""
    if not asks:
        return always(0.0)

    # `min` and `max` would take twice as long as all the rest.
    def read(row: int) -> float:
        before, after, taken = math.inf, math.inf, 0.0
        for columns, amount, counts in asks:
            capacity = columns.capacity.item(row)
            left, share = 1.0, 0.0
            if capacity > 0:
                left, share = (capacity - columns.used.item(row)) / capacity, amount / capacity
            if left < before:  # noqa: PLR1730
                before = left
            left -= share
            if left < after:  # noqa: PLR1730
                after = left
            if counts and share > taken:
                taken = share
        return round(taken / max(before - after + taken, _LEAST) * steps) / steps

    return read


def _of_many(table: WholeHosts, asks: Sequence[_Ask], count: int, steps: int) -> Scores:
    """Return the values of so many hosts; there is an ask for every class."""
    before = after = taken = None
    for name, amount, counts in asks:
        whole = table.of(name)
        free = left = whole.free_share()
        if amount:
            share = whole.share(amount)
            left = free - share
            if counts:
                taken = share if taken is None else np.maximum(taken, share, out=taken)
        before = free if before is None else np.minimum(before, free)
        after = left if after is None else np.minimum(after, left)
    if before is None or after is None or taken is None:
        return np.zeros(count)
    loss = before - after
    loss += taken
    values: Scores = taken / np.maximum(loss, _LEAST, out=loss)
    values *= steps
    np.rint(values, out=values)
    values /= steps
    return values


def _of_few(table: WholeHosts, asks: Sequence[_Ask], count: int, steps: int) -> Scores:
    """Return what `_of_many` does, operation by operation."""
    before, after, taken = [math.inf] * count, [math.inf] * count, [0.0] * count
    for name, amount, counts in asks:
        for row, (free, capacity) in enumerate(table.pairs(name)):
            left, share = (free / capacity, amount / capacity) if capacity > 0 else (1.0, 0.0)
            # `min` and `max` would take twice as long as all the rest.
            if left < before[row]:  # noqa: PLR1730
                before[row] = left
            left -= share
            if left < after[row]:  # noqa: PLR1730
                after[row] = left
            if counts and share > taken[row]:
                taken[row] = share
    if not asks:
        return np.zeros(count)
    parts = zip(before, after, taken, strict=True)
    return np.array([round(t / max(b - a + t, _LEAST) * steps) / steps for b, a, t in parts])
