"""Tests for the open rows of slots, stored as bits."""

from collections.abc import Sequence
from itertools import product
from random import Random

from berth.scheduling.candidates.lookahead import OpenRows, can_satisfy, each_bit, union


def test_bits_and_rows() -> None:
    """Each row has one bit, which is the same at every depth."""
    open_rows = OpenRows([[7, 3], [3, 9], []])
    assert {row: open_rows.row_of(bit) for row, bit in open_rows.bit_of.items()} == {
        7: 7,
        3: 3,
        9: 9,
    }
    assert open_rows.open == [open_rows.bits([3, 7]), open_rows.bits([9, 3]), 0]
    assert list(each_bit(open_rows.open[0])) == [open_rows.bit_of[7], open_rows.bit_of[3]]
    assert union(open_rows.open) == open_rows.bits([3, 7, 9])
    assert union([]) == 0


def test_what_is_taken_away_comes_back() -> None:
    """`reopen` restores the rows that were removed."""
    open_rows = OpenRows([[7, 3], [3, 9]])
    before = list(open_rows.open)
    open_rows.open[0] &= ~open_rows.bit_of[7]
    assert (open_rows.is_narrowed(0), open_rows.is_narrowed(1)) == (True, False)
    open_rows.reopen()
    assert open_rows.open == before
    assert not open_rows.is_narrowed(0)


def can_be_given(wanted: Sequence[Sequence[int]], capacity: Sequence[int]) -> bool:
    """Return whether any choice of rows stays within the capacities, by trying all."""
    return any(
        all(chosen.count(row) <= most for row, most in enumerate(capacity))
        for chosen in product(*wanted)
    )


def test_matching_finds_what_trying_finds() -> None:
    """`can_satisfy` agrees with trying all choices."""
    random = Random(5)
    verdicts: set[bool] = set()
    for _ in range(400):
        capacity = [random.choice((1, 1, 2, 3)) for _ in range(random.randint(2, 4))]
        rows = range(len(capacity))
        wanted = [
            random.sample(rows, random.randint(1, len(rows))) for _ in range(random.randint(1, 6))
        ]
        bits = [union(1 << row for row in mine) for mine in wanted]
        most = {1 << row: count for row, count in enumerate(capacity)}
        found = can_satisfy(bits, most.__getitem__)
        assert found == can_be_given(wanted, capacity)
        verdicts.add(found)
    assert verdicts == {True, False}
