"""Texts by row and rows by text, where few texts have several rows."""

from berth.tables.columnar.text_index import TextIndex
from berth.tables.columnar.texts import Texts


class RowTexts:
    """A text for each row, and the rows that have one.

    A row whose text no other row has costs its letters and some twenty bytes; only texts of
    several rows stand in a mapping.
    """

    def __init__(self, rows: int) -> None:
        self.texts = Texts(rows)
        self.index = TextIndex(self.texts.has)
        """Rows whose text is their own."""
        self._shared: dict[str, frozenset[int]] = {}
        """Rows by a text that several have."""

    @property
    def are_unique(self) -> bool:
        """No text has several rows."""
        return not self._shared

    def find(self, row: int) -> str | None:
        """Return the text of a row, or None."""
        return self.texts.get(row) if self.texts.is_put(row) else None

    def rows(self, text: str) -> frozenset[int]:
        """Return the rows that have a text."""
        if self._shared:
            rows = self._shared.get(text)
            if rows is not None:
                return rows
        row = self.index.get(text)
        return frozenset() if row is None else frozenset((row,))

    def add(self, row: int, text: str) -> None:
        """Give a row, which has none, a text."""
        rows = self.rows(text)
        self.texts.put(row, text)
        if not rows:
            self.index.add(text, row)
        else:
            self.index.remove(text)
            self._shared[text] = rows | {row}

    def discard(self, row: int) -> frozenset[int]:
        """Take the text of a row away, and return the rows that still have it."""
        text = self.texts.get(row)
        left = self.rows(text) - {row}
        self.index.remove(text)
        self._shared.pop(text, None)
        self.texts.clear(row)
        if len(left) == 1:
            self.index.add(text, next(iter(left)))
        elif left:
            self._shared[text] = left
        return left

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new ones have no text."""
        self.texts.resize(rows)
        self.index.reserve(rows)


class RowsByText:
    """Rows by text; adding or taking away one costs the same however many have the text."""

    def __init__(self) -> None:
        self._only: dict[str, int] = {}
        self._several: dict[str, set[int]] = {}

    def rows(self, text: str) -> frozenset[int]:
        """Return the rows that have a text."""
        row = self._only.get(text)
        return frozenset(self._several.get(text, ())) if row is None else frozenset((row,))

    def add(self, text: str, row: int) -> None:
        """Note that a row has a text."""
        several = self._several.get(text)
        if several is not None:
            several.add(row)
        elif text in self._only:
            self._several[text] = {self._only.pop(text), row}
        else:
            self._only[text] = row

    def discard(self, text: str, row: int) -> None:
        """Undo `add`."""
        several = self._several.get(text)
        if several is None:
            del self._only[text]
            return
        several.discard(row)
        if len(several) == 1:
            self._only[text] = several.pop()
            del self._several[text]
