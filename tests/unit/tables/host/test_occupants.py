"""Occupants are found by host and by group."""

import pytest

from berth.tables.host.occupants import Occupant, Occupants, Resident, RowCounts


@pytest.fixture
def occupants() -> Occupants:
    """Two members of a group on row 1, one on row 2 beside an instance without a group."""
    found = Occupants()
    for uuid, row, group in (("a", 1, "g"), ("b", 1, "g"), ("c", 2, "g"), ("d", 2, None)):
        found.put(Occupant(Resident(uuid, group), row))
    return found


def test_instances_are_found_by_uuid_and_by_row(occupants: Occupants) -> None:
    """An unknown uuid has no occupant, and an unknown row is empty."""
    assert occupants.by_uuid.get("c") == Occupant(Resident("c", "g"), 2)
    assert occupants.by_uuid.get("x") is None
    assert occupants.on_row(2) == {"c", "d"}
    assert occupants.on_row(9) == frozenset()


def test_members_are_counted_by_row(occupants: Occupants) -> None:
    """Rows without members are left out."""
    assert occupants.group_rows("g") == {1: 2, 2: 1}
    assert occupants.group_rows("other") == {}


def test_a_removed_instance_is_returned_and_gone(occupants: Occupants) -> None:
    """A second removal is no error, and empty rows and groups leave no entry."""
    assert occupants.remove("c") == Occupant(Resident("c", "g"), 2)
    assert occupants.remove("c") is None
    assert occupants.group_rows("g") == {1: 2}
    for uuid in ("a", "b", "d"):
        occupants.remove(uuid)
    assert occupants.group_rows("g") == {}
    assert occupants.on_row(1) == frozenset()


def test_counts_go_up_and_down() -> None:
    """Zero counts leave no entry."""
    counts = RowCounts()
    for row in (1, 1, 2):
        counts.add("a", row)
    counts.add("b", 1)
    assert counts.rows("a") == {1: 2, 2: 1}
    counts.add("a", 2, by=-1)
    counts.add("b", 1, by=-1)
    assert counts.rows("a") == {1: 2}
    assert counts.rows("b") == {}
