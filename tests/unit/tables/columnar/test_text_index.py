"""Tests that the text index agrees with a dict."""

import random

import pytest

from berth.tables.columnar.text_index import TextIndex


class Shelf:
    """Texts by row, with an index of them."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.index = TextIndex(lambda row, text: self.texts[row] == text)

    def add(self, row: int, text: str) -> None:
        """Set the text of a row."""
        self.texts[row] = text
        self.index.add(text, row)

    def remove(self, row: int) -> None:
        """Remove the text of a row."""
        self.index.remove(self.texts[row])
        del self.texts[row]


@pytest.mark.parametrize("rows", [1, 12, 13, 100, 2_000])
def test_rows_are_found_by_their_texts_whatever_came_and_went(rows: int) -> None:
    """Rows are found by their texts while texts are added and removed at random."""
    draw, shelf = random.Random(rows), Shelf()
    row_of: dict[str, int] = {}
    free = list(range(rows))
    for _ in range(12 * rows):
        text = f"host-{draw.randrange(2 * rows)}"
        if text in row_of:
            free.append(row_of.pop(text))
            shelf.remove(free[-1])
        elif free:
            row_of[text] = free.pop(draw.randrange(len(free)))
            shelf.add(row_of[text], text)
        assert len(shelf.index) == len(row_of)
    for number in range(2 * rows):
        assert shelf.index.get(f"host-{number}") == row_of.get(f"host-{number}")


def test_texts_that_come_and_go_for_long_do_not_fill_the_index() -> None:
    """Slots of removed texts are reclaimed."""
    shelf = Shelf()
    for number in range(1_000):
        shelf.add(number % 7, str(number))
        assert shelf.index.get(str(number)) == number % 7
        shelf.remove(number % 7)
        assert shelf.index.get(str(number)) is None
    assert len(shelf.index) == 0


def test_a_text_that_no_row_has_can_be_removed() -> None:
    """Removing a text that no row has changes nothing."""
    shelf = Shelf()
    shelf.add(3, "a")
    shelf.index.remove("b")
    assert (shelf.index.get("a"), shelf.index.get("b"), len(shelf.index)) == (3, None, 1)


def test_room_can_be_made_beforehand() -> None:
    """Reserving room keeps the rows, and a smaller reservation changes nothing."""
    shelf = Shelf()
    shelf.add(0, "a")
    shelf.index.reserve(500)
    shelf.index.reserve(5)
    for row in range(1, 500):
        shelf.add(row, str(row))
    assert shelf.index.get("a") == 0
    assert [shelf.index.get(str(row)) for row in range(1, 500)] == list(range(1, 500))
