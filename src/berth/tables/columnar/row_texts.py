"""Strings by row and rows by string, for strings that rarely occur in more than one row."""

from berth.tables.columnar.text_index import TextIndex
from berth.tables.columnar.texts import Texts


class RowTexts:
    """A string per row, and the rows that have a given string.

    A string that only one row has takes its own size and about twenty bytes. Only strings that
    several rows have need a mapping entry.

    Attributes:
        texts: the string of each row.
        index: the row of each string that exactly one row has.
    """

    def __init__(self, rows: int) -> None:
        self.texts = Texts(rows)
        self.index = TextIndex(self.texts.has)
        # The rows of each string that several rows have.
        self._shared: dict[str, frozenset[int]] = {}

    @property
    def are_unique(self) -> bool:
        """Whether every string has at most one row."""
        return not self._shared

    def find(self, row: int) -> str | None:
        """Return the string of a row, or None if the row has none."""
        return self.texts.get(row) if self.texts.is_put(row) else None

    def rows(self, text: str) -> frozenset[int]:
        """Return the rows that have the given string."""
        if self._shared:
            rows = self._shared.get(text)
            if rows is not None:
                return rows
        row = self.index.get(text)
        return frozenset() if row is None else frozenset((row,))

    def add(self, row: int, text: str) -> None:
        """Set the string of a row that has none yet."""
        rows = self.rows(text)
        self.texts.put(row, text)
        if not rows:
            self.index.add(text, row)
        else:
            self.index.remove(text)
            self._shared[text] = rows | {row}

    def discard(self, row: int) -> frozenset[int]:
        """Remove the string of a row, and return the other rows that have the same string."""
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
        """Grow to `rows` rows; new rows have no string."""
        self.texts.resize(rows)
        self.index.reserve(rows)


class RowsByText:
    """Rows by string; adding or removing a row costs the same however many rows share a string."""

    def __init__(self) -> None:
        self._only: dict[str, int] = {}
        self._several: dict[str, set[int]] = {}

    def rows(self, text: str) -> frozenset[int]:
        """Return the rows that have the given string."""
        row = self._only.get(text)
        return frozenset(self._several.get(text, ())) if row is None else frozenset((row,))

    def add(self, text: str, row: int) -> None:
        """Record that a row has the given string."""
        several = self._several.get(text)
        if several is not None:
            several.add(row)
        elif text in self._only:
            self._several[text] = {self._only.pop(text), row}
        else:
            self._only[text] = row

    def discard(self, text: str, row: int) -> None:
        """Record that a row no longer has the given string."""
        several = self._several.get(text)
        if several is None:
            del self._only[text]
            return
        several.discard(row)
        if len(several) == 1:
            self._only[text] = several.pop()
            del self._several[text]
