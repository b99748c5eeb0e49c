"""Tests for bitsets, which store one set of names per row."""

import numpy as np
import pytest

from berth.tables.columnar.bitsets import Bitset


@pytest.fixture
def sets() -> Bitset:
    """Return three rows, the first with a and b, the second with b."""
    bitset = Bitset()
    bitset.resize(3)
    bitset.put(0, ["a", "b"])
    bitset.put(1, ["b"])
    return bitset


def test_a_row_has_what_was_put(sets: Bitset) -> None:
    """Each row returns its own set."""
    assert [sets.get(row) for row in range(3)] == [{"a", "b"}, {"b"}, set()]


def test_several_rows_get_one_set_at_once(sets: Bitset) -> None:
    """Putting a set into several rows replaces their sets and keeps those of other rows."""
    sets.put(np.array([0, 2]), ["b", "new"])
    assert [sets.get(row) for row in range(3)] == [{"b", "new"}, {"b"}, {"b", "new"}]


def test_rows_are_found_by_name(sets: Bitset) -> None:
    """The rows whose sets have a name are found; an unknown name is in no set."""
    assert sets.has("b", slice(0, 3)).tolist() == [True, True, False]
    assert sets.has("never", slice(0, 3)).tolist() == [False] * 3
    assert sets.has("b", slice(0, 1)).tolist() == [True]
    assert sets.has("b", slice(0, 0)).tolist() == []


def test_rows_are_found_by_any_of_several_names(sets: Bitset) -> None:
    """The rows whose sets have any of the names are found; no names find no rows."""
    assert sets.has_any(["a", "never"], slice(0, 3)).tolist() == [True, False, False]
    assert sets.has_any([], slice(0, 3)).tolist() == [False] * 3


def test_names_of_a_set_are_counted(sets: Bitset) -> None:
    """Only the given names are counted, across any number of words."""
    assert sets.count_among(sets.words_of(["a", "b", "never"]), slice(0, 3)).tolist() == [2, 1, 0]
    assert sets.count_among(sets.words_of(["a"]), np.array([2, 0, 0])).tolist() == [0, 1, 1]
    assert sets.count_among(sets.words_of([]), slice(0, 3)).tolist() == [0, 0, 0]
    names = [f"n{number}" for number in range(150)]
    sets.put(2, names)
    assert sets.count_among(sets.words_of(names[10:140]), slice(0, 3)).tolist() == [0, 0, 130]


def test_a_put_replaces_the_set(sets: Bitset) -> None:
    """Putting a set removes all names of the former set."""
    sets.put(0, ["c"])
    sets.put(1, [])
    assert [sets.get(row) for row in range(3)] == [{"c"}, set(), set()]
    assert sets.is_empty(slice(0, 3)).tolist() == [False, True, True]


def test_a_mask_is_the_callers_own(sets: Bitset) -> None:
    """Changing a returned mask does not change the sets."""
    for mask in (
        sets.has("b", slice(0, 3)),
        sets.has("never", slice(0, 3)),
        sets.is_empty(slice(0, 3)),
    ):
        np.logical_not(mask, out=mask)
    assert sets.has("b", slice(0, 3)).tolist() == [True, True, False]


def test_sets_may_have_more_than_64_names() -> None:
    """A set may have more than 64 names, which span several words."""
    names = [f"n{number}" for number in range(200)]
    bitset = Bitset()
    bitset.resize(2)
    bitset.put(1, names)
    assert bitset.get(1) == set(names)
    for number in (0, 63, 64, 127, 128, 199):
        assert bitset.has(names[number], slice(0, 2)).tolist() == [False, True]
    bitset.put(1, [names[63], names[64]])
    assert bitset.get(1) == {names[63], names[64]}
    assert bitset.is_empty(slice(0, 2)).tolist() == [True, False]


def test_growing_keeps_the_sets(sets: Bitset) -> None:
    """Rows keep their sets when the bitset grows, and new rows are empty."""
    sets.resize(100)
    sets.put(99, [f"n{number}" for number in range(70)])
    assert sets.get(0) == {"a", "b"}
    assert sets.get(98) == set()
    assert len(sets.get(99)) == 70
