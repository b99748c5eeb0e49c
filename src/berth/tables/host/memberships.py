"""The aggregates of each host, and the metadata of these aggregates.

Metadata is read in Nova's two ways (nova-behaviour.md 2.6): a value is a number, or a list of words
that is split at commas and stripped. The metadata of all aggregates of a host applies to the host:
of several numbers the lowest is used, and the words of all aggregates are combined.
"""

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.tables.columnar.bitsets import Bitset, Mask, Selection
from berth.tables.columnar.class_columns import Floats
from berth.tables.host.aggregate_sets import AggregateSets

Words = frozenset[str]


class Memberships:
    """Aggregates by id, host name, row and metadata key.

    Attributes:
        by_id: the aggregates.
        by_row: the set of aggregate ids of each row.
        by_key: the words of each aggregate, by metadata key and aggregate id.
        zones: the set of availability zones of each row.
    """

    def __init__(self, rows_of: Callable[[str], Iterable[int]]) -> None:
        """Start without aggregates.

        Args:
            rows_of: returns the rows of a host name.
        """
        self.by_id: dict[int, Aggregate] = {}
        self.zones = Bitset()
        self._rows_of = rows_of
        self._by_host: dict[str, set[int]] = {}
        self.by_key: dict[str, dict[int, Words]] = {}
        self.by_row = AggregateSets()
        # By key and lower bound: a version of `by_row`, and the least number of each of its sets.
        self._least: dict[tuple[str, float], tuple[int, Floats]] = {}

    # ---- write ------------------------------------------------------------------------------

    def put(self, aggregate: Aggregate) -> list[int]:
        """Add or replace an aggregate, and return the changed rows."""
        number = aggregate.aggregate_id
        old = self.by_id.get(number)
        before = old.hosts if old else frozenset[str]()
        is_restated = old is None or old.metadata != aggregate.metadata
        self.by_id[number] = aggregate
        if is_restated:
            if old is not None:
                self._forget_metadata(old)
            for key, text in aggregate.metadata.items():
                self.by_key.setdefault(key, {})[number] = _words(text)
                self._forget_numbers(key)
        # This must follow the change of the metadata, from which the availability zones of moved
        # rows are computed.
        moved = self._move(number, came=aggregate.hosts - before, left=before - aggregate.hosts)
        # New metadata also changes the rows that stay in the aggregate.
        if old is None or not is_restated:
            return moved
        return self._restate(old, aggregate, moved)

    def remove(self, aggregate_id: int) -> list[int]:
        """Remove an aggregate, and return the rows that were in it; none for an unknown id."""
        old = self.by_id.pop(aggregate_id, None)
        if old is None:
            return []
        self._forget_metadata(old)
        return self._move(aggregate_id, came=frozenset(), left=old.hosts)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows are in no aggregate."""
        self.by_row.resize(rows)
        self.zones.resize(rows)

    def put_row(self, row: int, name: str | None) -> None:
        """Set the aggregates of a row to those of a host name, or to none if the name is None."""
        mine = frozenset[int]() if name is None else frozenset(self._by_host.get(name, ()))
        self.by_row.put(row, mine)
        self.zones.put(row, self._zones_of(mine))

    # ---- look-ups ---------------------------------------------------------------------------

    def of_host(self, name: str) -> tuple[Aggregate, ...]:
        """Return the aggregates of a host name, sorted by id."""
        return tuple(self.by_id[number] for number in sorted(self._by_host.get(name, ())))

    def with_key(self, key: str) -> Mapping[int, Words]:
        """Return the words under a metadata key by aggregate id, without aggregates that lack it.

        An empty value has one word, the empty string, as in Nova.
        """
        return self.by_key.get(key, {})

    def words(self, key: str, row: int) -> Words:
        """Return the words that the aggregates of a row have under a key."""
        by_aggregate = self.with_key(key)
        mine = (by_aggregate.get(number, ()) for number in self.by_row.get(row))
        return frozenset(word for words in mine for word in words)

    def has_any(self, aggregate_ids: Collection[int], rows: Selection) -> Mask:
        """Deprecated: use `by_row.has_any`."""
        warnings.warn(
            "Memberships.has_any is deprecated; use Memberships.by_row.has_any",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.by_row.has_any(aggregate_ids, rows)

    def least_of(self, key: str, rows: Selection, *, above: float = -math.inf) -> Floats | None:
        """Return the least number that any aggregate of each row has under a key.

        A value that is not a finite number is ignored.

        Args:
            key: the metadata key.
            rows: K rows.
            above: numbers up to this one are ignored.

        Returns:
            (K,) float64, NaN for rows without such a number; or None if no aggregate has the key.
        """
        if key not in self.by_key:
            return None
        # The result is cached: decisions read the same few keys, and aggregates seldom change.
        version, least = self._least.get((key, above), (-1, None))
        if least is None or version != self.by_row.version:
            least = self.by_row.least(self._numbers(key, above))
            self._least[key, above] = self.by_row.version, least
        return self.by_row.spread(least, rows)

    def least_at(self, key: str, row: int, *, above: float = -math.inf) -> Aggregate | None:
        """Return the aggregate with a row's least number under a key, or None if none has a number.

        Numbers up to `above` are ignored. Of several aggregates with the same number, the one with
        the lowest id is returned.
        """
        numbers = self._numbers(key, above)
        mine = sorted(self.by_row.get(row) & numbers.keys(), key=lambda one: (numbers[one], one))
        return self.by_id[mine[0]] if mine else None

    def _numbers(self, key: str, above: float) -> dict[int, float]:
        read = ((n, _number(self.by_id[n].metadata[key])) for n in self.by_key.get(key, ()))
        return {n: number for n, number in read if number is not None and number > above}

    def _zones_of(self, numbers: Iterable[int]) -> set[str]:
        """Return the availability zones of aggregates; an empty name is not a zone."""
        by_aggregate = self.by_key.get(AZ_KEY)
        if by_aggregate is None:
            return set()
        return {zone for n in numbers for zone in by_aggregate.get(n, ()) if zone}

    def _move(self, number: int, *, came: frozenset[str], left: frozenset[str]) -> list[int]:
        """Add hosts to an aggregate and remove others, and return the rows of all these hosts."""
        for name in came:
            self._by_host.setdefault(name, set()).add(number)
        for name in left:
            mine = self._by_host[name]
            mine.discard(number)
            if not mine:
                del self._by_host[name]
        found = [(row, name) for name in came | left for row in self._rows_of(name)]
        for row, name in found:
            self.put_row(row, name)
        return [row for row, _ in found]

    def _restate(self, old: Aggregate, new: Aggregate, moved: list[int]) -> list[int]:
        """Apply new metadata of an aggregate to its rows, and return these together with `moved`.

        An aggregate may contain most hosts of a fleet, so rows are updated by distinct set of
        aggregates, not one by one.
        """
        rows = self.by_row.rows_with(new.aggregate_id)
        if old.availability_zones != new.availability_zones:
            for numbers, alike in self.by_row.grouped(rows):
                self.zones.put(alike, self._zones_of(numbers))
        changed: list[int] = np.union1d(rows, moved).tolist() if moved else rows.tolist()
        return changed

    def _forget_metadata(self, old: Aggregate) -> None:
        for key in old.metadata:
            aggregates = self.by_key[key]
            del aggregates[old.aggregate_id]
            if not aggregates:
                del self.by_key[key]
            self._forget_numbers(key)

    def _forget_numbers(self, key: str) -> None:
        for cached in [one for one in self._least if one[0] == key]:
            del self._least[cached]


def _words(text: str) -> Words:
    return frozenset(word.strip() for word in text.split(","))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
