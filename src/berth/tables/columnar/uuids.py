"""Uuids of rows in sixteen bytes each, without a Python object per row."""

from berth.tables.columnar.text_index import TextIndex

_TEXT_SIZE = 36
_SIZE = 16

# Maximum number of cached look-ups. A host that has just been chosen is looked up several times.
_RECENT_MAX = 1_024


class Uuids:
    """One uuid per row; any string is accepted as a uuid.

    A string that is not the canonical spelling of a uuid (upper case, no dashes, or not a uuid at
    all) is stored unchanged and takes about a hundred bytes.
    """

    def __init__(self, rows: int) -> None:
        self._packed = bytearray(rows * _SIZE)
        self._texts: dict[int, str] = {}

    def get(self, row: int) -> str:
        """Return the uuid of a row as passed to `put`; the nil uuid if the row has none."""
        # `_texts` is nearly always empty, and testing that is faster than a look-up.
        if self._texts:
            text = self._texts.get(row)
            if text is not None:
                return text
        digits = self._packed[row * _SIZE : (row + 1) * _SIZE].hex()
        return _spelled(digits)

    def has(self, row: int, text: str) -> bool:
        """Return whether a row has the given uuid, without building the row's string."""
        if self._texts:
            kept = self._texts.get(row)
            if kept is not None:
                return kept == text
        digits = self._packed[row * _SIZE : (row + 1) * _SIZE].hex()
        return (
            len(text) == _TEXT_SIZE
            and digits == text.replace("-", "")
            and text[8] == text[13] == text[18] == text[23] == "-"
        )

    def put(self, row: int, text: str) -> None:
        """Set the uuid of a row."""
        packed = _packed(text)
        if packed is None:
            self._texts[row] = text
            packed = bytes(_SIZE)
        elif self._texts:
            self._texts.pop(row, None)
        self._packed[row * _SIZE : (row + 1) * _SIZE] = packed

    def clear(self, row: int) -> None:
        """Remove the uuid of a row."""
        self._texts.pop(row, None)
        self._packed[row * _SIZE : (row + 1) * _SIZE] = bytes(_SIZE)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have none."""
        self._packed += bytes(rows * _SIZE - len(self._packed))


class HostUuids(Uuids):
    """The uuids of hosts, and the row of each uuid."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._index = TextIndex(self.has)
        self._recent: dict[str, int] = {}

    def row_of(self, text: str) -> int | None:
        """Return the row that has the given uuid, or None if no row has it."""
        row = self._recent.get(text)
        if row is None:
            row = self._index.get(text)
            if row is not None:
                if len(self._recent) >= _RECENT_MAX:
                    self._recent.clear()
                self._recent[text] = row
        return row

    def put(self, row: int, text: str) -> None:
        """Set the uuid of a row that has none; no other row may have the same uuid."""
        super().put(row, text)
        self._index.add(text, row)

    def clear(self, row: int) -> None:
        """Remove the uuid of a row."""
        text = self.get(row)
        # Only successful look-ups are cached, so only the removal of a row outdates an entry.
        self._recent.pop(text, None)
        self._index.remove(text)
        super().clear(row)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have none."""
        super().resize(rows)
        self._index.reserve(rows)


def _spelled(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _packed(text: str) -> bytes | None:
    """Return the bytes of a uuid, or None if `text` is not its canonical spelling."""
    if len(text) != _TEXT_SIZE:
        return None
    try:
        packed = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        return None
    return packed if _spelled(packed.hex()) == text else None
