"""Row counts: how many of something each row has, by a key."""


class RowCounts:
    """Counts by key and row; what is counted down to nothing leaves nothing behind."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, int]] = {}

    def rows(self, key: str) -> dict[int, int]:
        """Return the count of each row, rows with none left out."""
        return self._rows.get(key, {})

    def add(self, key: str, row: int, *, by: int = 1) -> None:
        """Count one more on a row, or with -1 one less; it must not fall below none."""
        rows = self._rows.setdefault(key, {})
        rows[row] = rows.get(row, 0) + by
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._rows[key]
