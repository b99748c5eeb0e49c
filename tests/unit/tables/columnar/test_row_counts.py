"""Row counts: by key and row."""

from berth.tables.host.occupants import RowCounts


def test_counts_go_up_and_down() -> None:
    """Rows with none are left out, and keys with none are gone."""
    counts = RowCounts()
    for row in (1, 1, 2):
        counts.add("a", row)
    counts.add("b", 1)
    assert counts.rows("a") == {1: 2, 2: 1}
    counts.add("a", 2, by=-1)
    counts.add("b", 1, by=-1)
    assert counts.rows("a") == {1: 2}
    assert counts.rows("b") == {}
