"""Tests that texts by row and rows by text agree with a dict."""

from hypothesis import given
from hypothesis import strategies as st

from berth.tables.columnar.row_texts import RowsByText, RowTexts

WRITES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(("", "a", "b"))), max_size=30)


@given(WRITES)
def test_rows_are_found_by_their_texts(writes: list[tuple[int, str]]) -> None:
    """Rows are found by their texts, whether a text has one row, several or none."""
    rows, expected = RowTexts(2), dict[int, str]()
    rows.resize(6)
    for row, text in writes:
        if row in expected:
            gone = expected.pop(row)
            assert rows.discard(row) == {r for r, has in expected.items() if has == gone}
        else:
            rows.add(row, text)
            expected[row] = text
        assert {r: rows.find(r) for r in range(6)} == {r: expected.get(r) for r in range(6)}
        for wanted in ("", "a", "b", "c"):
            having = {r for r, has in expected.items() if has == wanted}
            assert rows.rows(wanted) == having
            assert rows.index.get(wanted) == (having.pop() if len(having) == 1 else None)
        assert rows.are_unique == (len(set(expected.values())) == len(expected))


def test_a_text_has_the_rows_that_were_added() -> None:
    """A text has all rows that were added to it."""
    rows_by_text = RowsByText()
    for text, row in (("a", 1), ("b", 2), ("b", 3), ("b", 4)):
        rows_by_text.add(text, row)
    assert [rows_by_text.rows(text) for text in "abc"] == [{1}, {2, 3, 4}, set()]


def test_rows_leave_one_by_one() -> None:
    """Rows are discarded one by one, and a row can be added after the last has left."""
    rows_by_text = RowsByText()
    for row in range(3):
        rows_by_text.add("a", row)
    left = [rows_by_text.rows("a")]
    for row in range(3):
        rows_by_text.discard("a", row)
        left.append(rows_by_text.rows("a"))
    assert left == [{0, 1, 2}, {1, 2}, {2}, set()]
    rows_by_text.add("a", 7)
    assert rows_by_text.rows("a") == {7}
