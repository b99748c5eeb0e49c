"""Tests for the journal of changed rows."""

from berth.tables.columnar.journal import GROUPS, Journal


def test_rows_since_a_position_come_oldest_first() -> None:
    """Rows changed since a position come in the order of their last change, separately by group."""
    journal = Journal()
    journal.record(3, "used")
    position = journal.position("used")
    journal.record(4, "used")
    journal.record(9, "host")
    journal.record(3, "used")
    assert journal.since("used", position) == [4, 3]
    assert journal.since("used", journal.position("used")) == []
    assert journal.since("host", 0) == [9]
    assert journal.step == 4


def test_several_rows_are_recorded_at_once() -> None:
    """Recording several rows equals recording them one by one, even beyond the limit."""
    journal = Journal(kept=2)
    journal.record_rows([4, 3], "used")
    assert (journal.since("used", 0), journal.step) == ([4, 3], 2)
    journal.record_rows([1, 2, 3, 4, 5], "used")
    assert journal.position("used") == journal.step == 7
    assert journal.since("used", 2) is None
    assert journal.since("used", 4) == [3, 4, 5]
    journal.record_rows([], "used")
    assert journal.position("used") == 7


def test_positions_move_on_to_what_is_newest() -> None:
    """`advance` returns the groups with changes and moves the positions to the newest one."""
    journal = Journal(kept=2)
    positions = {"used": journal.position("used"), "host": journal.position("host")}
    journal.record(4, "used")
    journal.record(3, "used")
    assert journal.advance(positions) == {"used": [4, 3]}
    assert journal.advance(positions) == {}
    for row in range(5):
        journal.record(row, "host")
    assert journal.advance(positions) is None


def test_trimmed_entries_are_reported_as_missing() -> None:
    """A position older than the oldest kept entry gives None."""
    journal = Journal(kept=2)
    for row in range(5):
        journal.record(row, "used")
    assert journal.since("used", 0) is None
    assert journal.since("used", 1) is None
    assert journal.since("used", 2) == [2, 3, 4]
    assert journal.position("used") == 5


def test_a_row_can_change_in_every_group() -> None:
    """`record_all` records a row in every group."""
    journal = Journal()
    journal.record_all(7)
    assert [journal.since(group, 0) for group in GROUPS] == [[7]] * len(GROUPS)


def test_a_cleared_journal_has_no_earlier_changes() -> None:
    """After `clear` earlier positions are outdated, and positions continue to count."""
    journal = Journal()
    journal.record(1, "used")
    journal.record(2, "used")
    journal.clear()
    assert journal.since("used", 1) is None
    position = journal.position("used")
    journal.record(3, "used")
    assert (position, journal.since("used", position), journal.step) == (2, [3], 3)
