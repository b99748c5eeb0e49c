"""Tests for image counts, which are kept only for properties that were requested."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tables.host.image_counts import ImageCounts, RowTally
from berth.tables.host.occupants import Occupant, Occupants, Resident

ALL = frozenset[str]()
MANY = 300


def occupant(number: int, row: int, **properties: str) -> Occupant:
    """Return an instance on a row whose image has these properties."""
    return Occupant(Resident(f"vm-{number}", image_properties=properties), row)


def test_nothing_is_counted_before_it_is_requested() -> None:
    """A property is counted from the first request on, including existing instances."""
    occupants = Occupants()
    occupants.put(occupant(1, 0, os="linux", arch="x"))
    counts = ImageCounts()
    assert not counts.is_kept
    counts = occupants.images(frozenset({"os"}))
    assert counts.is_kept
    assert counts.count("os", "linux", slice(0, 2)).tolist() == [1.0, 0.0]
    assert counts.count("arch", "x", slice(0, 2)).tolist() == [0.0, 0.0]


def test_counts_follow_what_comes_and_goes() -> None:
    """Counts follow instances that are added and removed."""
    occupants = Occupants()
    counts = occupants.images(ALL)
    for number, row in ((1, 3), (2, 3), (3, 5)):
        occupants.put(occupant(number, row, os="linux"))
    assert counts.count("os", "linux", np.array([5, 3, 0])).tolist() == [1.0, 2.0, 0.0]
    for number in (1, 2, 3):
        occupants.remove(f"vm-{number}")
    assert counts.count("os", "linux", np.array([5, 3])).tolist() == [0.0, 0.0]


def test_asking_for_more_counts_more() -> None:
    """Requesting more properties keeps the earlier counts right."""
    occupants = Occupants()
    occupants.put(occupant(1, 0, os="linux", arch="x", pool="p"))
    for names in (frozenset({"os"}), frozenset({"arch"}), frozenset({"os"}), ALL, ALL):
        counts = occupants.images(names)
        for name in names:
            value = {"os": "linux", "arch": "x"}[name]
            assert counts.count(name, value, slice(0, 1)).tolist() == [1.0]
    assert occupants.images(ALL).count("pool", "p", slice(0, 1)).tolist() == [1.0]


def test_many_rows_are_counted_as_few_are() -> None:
    """Counts over many rows equal those over few rows."""
    tally = RowTally()
    for row in range(MANY):
        tally.add(row, 1)
    tally.add(7, 2)
    tally.add(MANY * 10, 1)
    tally.add(8, -1)
    values = tally.of(slice(0, MANY))
    assert (values[7], values[8], values.sum()) == (3.0, 0.0, MANY + 1)
    assert tally.of(np.array([MANY * 10, MANY * 100])).tolist() == [1.0, 0.0]
    assert tally.of(np.array([], dtype=np.intp)).tolist() == []
    assert tally.total == MANY + 2


@pytest.mark.parametrize("rows_max", [3, 400])
@given(data=st.data())
def test_a_tally_is_what_was_added(rows_max: int, data: st.DataObject) -> None:
    """A tally equals the sum of all additions for any rows, order and selection."""
    added = data.draw(st.lists(st.integers(0, rows_max), max_size=150))
    removed = data.draw(st.sets(st.sampled_from(range(len(added))))) if added else set[int]()
    tally = RowTally()
    expected = np.zeros(rows_max + 1)
    for row in added:
        tally.add(row, 1)
        expected[row] += 1
    for index in removed:
        tally.add(added[index], -1)
        expected[added[index]] -= 1
    everyone = tally.of(slice(0, rows_max + 1))
    assert everyone.tolist() == expected.tolist()
    some = np.array(data.draw(st.lists(st.integers(0, rows_max))), dtype=np.intp)
    assert tally.of(some).tolist() == expected[some].tolist()
    assert tally.total == expected.sum()
