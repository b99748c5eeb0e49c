"""Namesakes: rows by text."""

from berth.tables.columnar.row_texts import Namesakes


def test_a_text_has_the_rows_that_were_added() -> None:
    """One, several or none."""
    namesakes = Namesakes()
    for text, row in (("a", 1), ("b", 2), ("b", 3), ("b", 4)):
        namesakes.add(text, row)
    assert [namesakes.rows(text) for text in "abc"] == [{1}, {2, 3, 4}, set()]


def test_rows_leave_one_by_one() -> None:
    """Down to the last, and may come again."""
    namesakes = Namesakes()
    for row in range(3):
        namesakes.add("a", row)
    left = [namesakes.rows("a")]
    for row in range(3):
        namesakes.discard("a", row)
        left.append(namesakes.rows("a"))
    assert left == [{0, 1, 2}, {1, 2}, {2}, set()]
    namesakes.add("a", 7)
    assert namesakes.rows("a") == {7}
