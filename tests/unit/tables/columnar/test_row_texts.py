"""Texts by row and rows by text, beside a dict."""

from hypothesis import given
from hypothesis import strategies as st

from berth.tables.columnar.row_texts import RowTexts

WRITES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(("", "a", "b"))), max_size=30)


@given(WRITES)
def test_rows_are_found_by_their_texts(writes: list[tuple[int, str]]) -> None:
    """One, several or none; a row that has a text loses it, one that has none gets it."""
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
            assert rows.only_row(wanted) == (having.pop() if len(having) == 1 else None)
        assert rows.are_unique == (len(set(expected.values())) == len(expected))
