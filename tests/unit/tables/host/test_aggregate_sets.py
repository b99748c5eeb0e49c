"""Tests for aggregate sets, which store equal sets of numbers once."""

import numpy as np
import pytest

from berth.tables.columnar.bitsets import Selection
from berth.tables.host.aggregate_sets import AggregateSets

ROWS = 200


@pytest.fixture
def sets() -> AggregateSets:
    """Return 200 rows: row r is in r % 5 + 10 and, if even, in 0; every tenth row is in none."""
    made = AggregateSets()
    made.resize(ROWS)
    for row in range(ROWS):
        numbers = {r for r in (0, row % 5 + 10) if r or row % 2 == 0}
        made.put(row, frozenset(numbers if row % 10 else ()))
    return made


SELECTIONS: list[Selection] = [
    slice(0, ROWS),
    np.arange(ROWS),
    np.array([7, 3, 3, 199, 10]),
    np.array([], dtype=np.intp),
]


@pytest.mark.parametrize("rows", SELECTIONS)
def test_a_set_with_any_of_the_numbers_is_found(sets: AggregateSets, rows: Selection) -> None:
    """The rows with any of the numbers are found in every kind of selection."""
    looked_at = np.arange(ROWS)[rows].tolist()
    expected = [row % 10 != 0 and (row % 2 == 0 or row % 5 == 3) for row in looked_at]
    assert sets.has_any([0, 13, 99], rows).tolist() == expected
    assert sets.has_any([99], rows).tolist() == [False] * len(looked_at)
    assert sets.has_any([], rows).tolist() == [False] * len(looked_at)


def test_what_is_found_follows_new_sets(sets: AggregateSets) -> None:
    """The rows that are found change with the sets of the rows."""
    everyone = slice(0, ROWS)
    assert not sets.has_any([77], everyone).any()
    sets.put(150, frozenset({77, 0}))
    assert np.flatnonzero(sets.has_any([77], everyone)).tolist() == [150]
    sets.put(150, frozenset({78}))
    assert sets.rows_with(78).tolist() == [150]
    assert sets.rows_with(77).tolist() == []


def test_the_least_value_of_the_members_counts(sets: AggregateSets) -> None:
    """A row gets the least value of its set, or NaN if its set has no values."""
    least = sets.least({0: 3.0, 11: 2.0, 12: 5.0, 99: -1.0})
    values = sets.spread(least, np.array([6, 2, 7, 12, 3, 10]))
    np.testing.assert_array_equal(values, [2.0, 3.0, 5.0, 3.0, np.nan, np.nan])


def test_what_no_row_has_is_forgotten() -> None:
    """Sets that no row has any more are dropped."""
    made = AggregateSets()
    made.resize(2)
    for number in range(1000):
        made.put(0, frozenset({number}))
        made.put(1, frozenset({number, -1}))
    assert len(made.least({})) <= 5
    assert made.get(0) == {999}
    made.put(0, frozenset())
    made.put(1, frozenset())
    assert made.has_any([999, -1], slice(0, 2)).tolist() == [False, False]


def test_the_version_grows_with_new_sets_alone() -> None:
    """The version changes only when a new set is added."""
    made = AggregateSets()
    made.resize(3)
    made.put(0, frozenset({1}))
    version = made.version
    made.put(1, frozenset({1}))
    made.put(2, frozenset())
    made.put(0, frozenset())
    assert made.version == version
    made.put(0, frozenset({2}))
    assert made.version > version


def test_rows_are_found_by_a_number(sets: AggregateSets) -> None:
    """The rows with a number are returned in ascending order."""
    assert sets.rows_with(13).tolist() == [r for r in range(ROWS) if r % 5 == 3]
    assert sets.rows_with(99).tolist() == []


def test_rows_with_the_same_set_come_together(sets: AggregateSets) -> None:
    """Rows are grouped by equal sets, and each row appears once."""
    rows = np.array([23, 3, 20, 8, 10])
    alike = {numbers: mine.tolist() for numbers, mine in sets.grouped(rows)}
    assert alike == {frozenset({13}): [23, 3], frozenset({0, 13}): [8], frozenset(): [20, 10]}
    assert list(sets.grouped(rows[:0])) == []


def test_rows_keep_their_sets_when_more_come() -> None:
    """Rows keep their sets when the table grows; new rows have empty sets."""
    made = AggregateSets()
    made.resize(1)
    made.put(0, frozenset({4}))
    made.resize(3)
    assert [made.get(row) for row in range(3)] == [{4}, frozenset(), frozenset()]
