"""Tests for the texts of rows, which are stored in one byte buffer."""

from hypothesis import given
from hypothesis import strategies as st

from berth.tables.columnar.texts import Texts

TEXTS = st.one_of(
    st.text(st.characters(codec=None), max_size=12),
    st.integers(250, 300).map("é".__mul__),
    st.integers(250, 300).map("x".__mul__),
)


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), TEXTS)), max_size=40))
def test_a_row_has_the_text_that_it_was_given_last(writes: list[tuple[int, str | None]]) -> None:
    """A row returns the text that was put last; None clears the row."""
    texts, expected = Texts(5), dict.fromkeys(range(5), "")
    for row, text in writes:
        if text is None:
            texts.clear(row)
        else:
            texts.put(row, text)
        expected[row] = text or ""
        assert {row: texts.get(row) for row in expected} == expected
        for row_there, there in expected.items():
            assert texts.has(row_there, there)
            assert not texts.has(row_there, f"{there}x")


def test_replaced_texts_do_not_pile_up() -> None:
    """The bytes of replaced texts are reclaimed, and other rows keep their texts."""
    texts = Texts(3)
    texts.put(0, "first")
    texts.put(2, "l" * 300)
    for number in range(5_000):
        texts.put(1, f"name-{number}")
    assert (texts.get(0), texts.get(1), texts.get(2)) == ("first", "name-4999", "l" * 300)
    assert texts.size < 10_000


def test_growing_keeps_texts() -> None:
    """Rows keep their texts when the buffer grows, and new rows have none."""
    texts = Texts(1)
    texts.put(0, "a")
    texts.resize(3)
    texts.put(2, "c")
    assert [texts.get(row) for row in range(3)] == ["a", "", "c"]
