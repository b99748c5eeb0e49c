"""Rankings: hosts with scores; the best few are found without sorting all of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from berth.domain.compute.decision import ScoredHost, ScorePart
from berth.scheduling.rules.rule import Scores, Weigher
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

# To find the few best values, each block of this many is reduced to its greatest value. Larger
# blocks leave more candidates to sort, and smaller ones more blocks to compare.
_BLOCK = 128


class Ranking(Protocol):
    """Hosts sorted by score, and by name where scores are equal.

    Each host has an index, which identifies it in this ranking only. Methods take indices as
    `number` and `numbers`.
    """

    @property
    def size(self) -> int:
        """The number of hosts."""
        ...

    def count(self, maximum: int) -> int:
        """Return the number of hosts, or the maximum if there are more."""
        ...

    def best(self, count: int) -> list[int]:
        """Return the indices of the `count` best hosts, best first; of all if there are fewer."""
        ...

    def tied(self) -> list[int]:
        """Return the indices of all hosts with the best score, sorted by name."""
        ...

    def row(self, number: int) -> int:
        """Return the table row of the host with the given index."""
        ...

    def find(self, row: int) -> int | None:
        """Return the index of the host in a table row, or None if it is not ranked."""
        ...

    def scored(self, numbers: Sequence[int]) -> list[ScoredHost]:
        """Return the hosts with the given indices, each with its score and the score's parts."""
        ...


@dataclass(frozen=True, slots=True)
class WeigherScores:
    """One weigher's values for K hosts."""

    weigher: Weigher
    raw: Scores
    normalised: Scores
    multiplier: float | Scores

    def part(self, index: int) -> ScorePart:
        """Return the weigher's part of the score of the host at an index.

        A raw value of NaN becomes 0, and infinity becomes the greatest or least finite number,
        because records are JSON, which cannot express either.
        """
        multiplier = self.multiplier
        if not isinstance(multiplier, float | int):
            multiplier = float(multiplier[index])
        return ScorePart(
            weigher=self.weigher.name,
            raw=float(np.nan_to_num(self.raw[index])),
            normalised=float(self.normalised[index]),
            multiplier=float(multiplier),
        )


@dataclass(frozen=True, slots=True)
class FullRanking:
    """K hosts with their scores, not sorted: `scores[i]` is the score of `rows[i]`."""

    hosts: HostTable
    rows: Rows
    scores: Scores
    parts: tuple[WeigherScores, ...] = ()

    @property
    def size(self) -> int:
        """See `Ranking.size`."""
        return self.rows.size

    def count(self, maximum: int) -> int:
        """See `Ranking.count`."""
        return min(self.rows.size, maximum)

    def best(self, count: int) -> list[int]:
        """See `Ranking.best`; the index of a host is its index in `rows`."""
        return best_first(self.scores, self.hosts.rank[self.rows], count)

    def tied(self) -> list[int]:
        """See `Ranking.tied`."""
        tied = np.flatnonzero(self.scores == self.scores.max())
        found: list[int] = tied[self.hosts.rank[self.rows[tied]].argsort()].tolist()
        return found

    def row(self, number: int) -> int:
        """See `Ranking.row`."""
        return int(self.rows[number])

    def find(self, row: int) -> int | None:
        """See `Ranking.find`."""
        found: list[int] = np.flatnonzero(self.rows == row).tolist()
        return found[0] if found else None

    def scored(self, numbers: Sequence[int]) -> list[ScoredHost]:
        """See `Ranking.scored`."""
        return [self._scored(number) for number in numbers]

    def _scored(self, number: int) -> ScoredHost:
        name, node, _ = self.hosts.identity(self.row(number))
        parts = (part.part(number) for part in self.parts)
        return ScoredHost.of(name, node, float(self.scores[number]), parts)


class RestrictedRanking:
    """The hosts of another ranking that pass a test; see `Ranking`.

    Hosts are tested in order and only as far as they are read, because a test may be expensive.
    Indices are those of the other ranking.

    Args:
        ranked: the other ranking.
        permits: returns whether the host in a table row passes.
    """

    def __init__(self, ranked: Ranking, permits: Callable[[int], bool]) -> None:
        self._ranked = ranked
        self._permits = permits
        self._tested: list[int] = []
        self._permitted: list[int] = []

    @property
    def size(self) -> int:
        """See `Ranking.size`; tests all hosts."""
        return len(self.best(self._ranked.size))

    def count(self, maximum: int) -> int:
        """See `Ranking.count`; tests hosts until `maximum` pass."""
        return len(self.best(maximum))

    def best(self, count: int) -> list[int]:
        """See `Ranking.best`."""
        while len(self._permitted) < count and len(self._tested) < self._ranked.size:
            # Each round reads four times as many, so even many failures take few rounds.
            wanted = min(max(4 * len(self._tested), count), self._ranked.size)
            order = self._ranked.best(wanted)
            for number in islice(order, len(self._tested), None):
                self._tested.append(number)
                if self._permits(self._ranked.row(number)):
                    self._permitted.append(number)
                if len(self._permitted) == count:
                    break
        return self._permitted[:count]

    def tied(self) -> list[int]:
        """See `Ranking.tied`."""
        first = self.best(1)
        if not first:
            return []
        tied = self._ranked.tied()
        if first[0] not in tied:
            tied = list(self._equal_to(first[0]))
        return [number for number in tied if self._permits(self._ranked.row(number))]

    def _equal_to(self, number: int) -> Iterator[int]:
        """Yield the indices of the hosts with the score of a host, in order."""
        (wanted,) = self._ranked.scored((number,))
        order = self._ranked.best(self._ranked.size)
        for other in islice(order, order.index(number), None):
            (scored,) = self._ranked.scored((other,))
            if scored.score != wanted.score:
                return
            yield other

    def row(self, number: int) -> int:
        """See `Ranking.row`."""
        return self._ranked.row(number)

    def find(self, row: int) -> int | None:
        """See `Ranking.find`."""
        number = self._ranked.find(row)
        return number if number is not None and self._permits(row) else None

    def scored(self, numbers: Sequence[int]) -> list[ScoredHost]:
        """See `Ranking.scored`."""
        return self._ranked.scored(numbers)


def best_first(scores: Scores, rank: Ints, count: int) -> list[int]:
    """Return indices of the `count` greatest scores, best first.

    Args:
        scores: (K,).
        rank: (K,) all different; among equal scores, the lower rank comes first.
        count: the number of indices; at most K are returned.
    """
    count = min(count, scores.size)
    if not count:
        return []
    near = _near_best(scores, count)
    near_scores = scores[near]
    # All scores above the lowest of the `count` greatest are chosen. Of the hosts tied at that
    # score, those with the lowest ranks are chosen.
    least = np.partition(near_scores, near.size - count)[near.size - count]
    above = near[near_scores > least]
    tied = near[near_scores == least]
    best = np.concatenate((above, _lowest(rank[tied], tied, count - above.size)))
    order = np.lexsort((rank[best], -scores[best]))
    chosen: list[int] = best[order].tolist()
    return chosen


def _near_best(values: Scores | Ints, count: int) -> Rows:
    """Return indices that include the `count` greatest values, and not many others.

    The greatest values of the blocks are values themselves, so anything below the `count`-th of
    them cannot be among the `count` greatest.
    """
    blocks = values.size // _BLOCK
    if blocks <= count:
        return np.arange(values.size)
    greatest = values[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
    bound = np.partition(greatest, blocks - count)[blocks - count]
    return np.flatnonzero(values >= bound)


def _lowest(rank: Ints, indices: Rows, count: int) -> Rows:
    """Return the `count` of the indices that have the lowest ranks."""
    if indices.size > count:
        near = _near_best(-rank, count)
        rank, indices = rank[near], indices[near]
    return indices[rank.argsort()[:count]]
