"""Namesakes: rows by a text that mostly one row has, and sometimes many."""


class Namesakes:
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
