"""Texts by row and rows by text, for texts that rarely occur in more than one row."""

from berth.tables.columnar.text_index import TextIndex
from berth.tables.columnar.texts import Texts


class RowTexts:
    """A text per row, and the rows that have a given text.

    A text that one row has takes its own size and about twenty bytes. Only texts that several rows
    have need a mapping entry.

    Attributes:
        texts: the text of each row.
        index: the row of each text that exactly one row has.
    """

    def __init__(self, rows: int) -> None:
        self.texts = Texts(rows)
        self.index = TextIndex(self.texts.has)
        # Rows by text, for texts of several rows.
        self._shared: dict[str, frozenset[int]] = {}

    @property
    def are_unique(self) -> bool:
        """Whether every text has at most one row."""
        return not self._shared

    def find(self, row: int) -> str | None:
        """Return the text of a row, or None if it has none."""
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
        """Set the text of a row that has none yet."""
        rows = self.rows(text)
        self.texts.put(row, text)
        if not rows:
            self.index.add(text, row)
        else:
            self.index.remove(text)
            self._shared[text] = rows | {row}

    def discard(self, row: int) -> frozenset[int]:
        """Remove the text of a row, and return the other rows that have it."""
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
        """Grow to `rows` rows; new rows have no text."""
        self.texts.resize(rows)
        self.index.reserve(rows)


class RowsByText:
    """Rows by text; adding or removing a row costs the same however many rows share the text."""

    def __init__(self) -> None:
        self._only: dict[str, int] = {}
        self._several: dict[str, set[int]] = {}

    def rows(self, text: str) -> frozenset[int]:
        """Return the rows that have a text."""
        row = self._only.get(text)
        return frozenset(self._several.get(text, ())) if row is None else frozenset((row,))

    def add(self, text: str, row: int) -> None:
        """Record that a row has a text."""
        several = self._several.get(text)
        if several is not None:
            several.add(row)
        elif text in self._only:
            self._several[text] = {self._only.pop(text), row}
        else:
            self._only[text] = row

    def discard(self, text: str, row: int) -> None:
        """Remove a row that has a text."""
        several = self._several.get(text)
        if several is None:
            del self._only[text]
            return
        several.discard(row)
        if len(several) == 1:
            self._only[text] = several.pop()
            del self._several[text]
