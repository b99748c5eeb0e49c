"""Tests for finding occupants by uuid, row and group."""

import pytest

from berth.tables.host.occupants import Occupant, Occupants, Resident, RowCounts


@pytest.fixture
def occupants() -> Occupants:
    """Return two members of a group on row 1, and one on row 2 next to an ungrouped instance."""
    found = Occupants()
    for uuid, row, group in (("a", 1, "g"), ("b", 1, "g"), ("c", 2, "g"), ("d", 2, None)):
        found.put(Occupant(Resident(uuid, group), row))
    return found


def test_instances_are_found_by_uuid_and_by_row(occupants: Occupants) -> None:
    """Instances are found by uuid and by row; unknown uuids and rows give nothing."""
    assert occupants.by_uuid.get("c") == Occupant(Resident("c", "g"), 2)
    assert occupants.by_uuid.get("x") is None
    assert occupants.on_row(2) == {"c", "d"}
    assert occupants.on_row(9) == frozenset()


def test_members_are_counted_by_row(occupants: Occupants) -> None:
    """Members of a group are counted by row, and rows without members are left out."""
    assert occupants.groups.rows("g") == {1: 2, 2: 1}
    assert occupants.groups.rows("other") == {}


def test_a_removed_instance_is_returned_and_gone(occupants: Occupants) -> None:
    """A removed instance is returned once and no longer found or counted."""
    assert occupants.remove("c") == Occupant(Resident("c", "g"), 2)
    assert occupants.remove("c") is None
    assert occupants.groups.rows("g") == {1: 2}
    for uuid in ("a", "b", "d"):
        occupants.remove(uuid)
    assert occupants.groups.rows("g") == {}
    assert occupants.on_row(1) == frozenset()


def test_counts_go_up_and_down() -> None:
    """Counts follow additions and removals, and zero counts leave no entry."""
    counts = RowCounts()
    for row in (1, 1, 2):
        counts.add("a", row)
    counts.add("b", 1)
    assert counts.rows("a") == {1: 2, 2: 1}
    counts.add("a", 2, by=-1)
    counts.add("b", 1, by=-1)
    assert counts.rows("a") == {1: 2}
    assert counts.rows("b") == {}
