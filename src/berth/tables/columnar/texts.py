"""Short strings of rows, stored one after another in a single byte buffer."""

from array import array

# Stands in place of the size for a string that is too long for a size byte and stored separately.
_LONG = 255

# The buffer is not compacted while it has at most this many unused bytes.
_WASTED_MIN = 4_096
_NONE = -1


class Texts:
    """One string per row, as a size byte followed by UTF-8.

    The bytes of a replaced string stay in place until more than half of the buffer, and at least a
    few thousand bytes, are unused. Then the buffer is compacted.
    """

    def __init__(self, rows: int) -> None:
        self._starts = array("q", [_NONE]) * rows
        self._bytes = bytearray()
        self._long: dict[int, str] = {}
        self._wasted = 0

    @property
    def size(self) -> int:
        """The number of bytes in the buffer, including unused ones."""
        return len(self._bytes)

    def get(self, row: int) -> str:
        """Return the string of a row; empty if the row has none."""
        start = self._starts[row]
        if start < 0:
            return ""
        size = self._bytes[start]
        if size == _LONG:
            return self._long[row]
        # Names come from agents and state files, which may contain lone surrogates.
        return self._bytes[start + 1 : start + 1 + size].decode("utf-8", "surrogatepass")

    def is_put(self, row: int) -> bool:
        """Return whether a row has a string, possibly an empty one."""
        return self._starts[row] >= 0

    def has(self, row: int, text: str) -> bool:
        """Return whether `get` would return the given string, without decoding the row's string."""
        start = self._starts[row]
        if start < 0:
            return not text
        encoded, size = text.encode("utf-8", "surrogatepass"), self._bytes[start]
        if size == _LONG:
            return self._long[row] == text
        return size == len(encoded) and self._bytes.startswith(encoded, start + 1)

    def put(self, row: int, text: str) -> None:
        """Set the string of a row."""
        self.clear(row)
        encoded = text.encode("utf-8", "surrogatepass")
        self._starts[row] = len(self._bytes)
        if len(encoded) < _LONG:
            self._bytes.append(len(encoded))
            self._bytes += encoded
        else:
            self._bytes.append(_LONG)
            self._long[row] = text

    def clear(self, row: int) -> None:
        """Remove the string of a row, if the row has one."""
        start = self._starts[row]
        if start < 0:
            return
        size = self._bytes[start]
        self._wasted += 1 if size == _LONG else 1 + size
        self._long.pop(row, None)
        self._starts[row] = _NONE
        if self._wasted > max(_WASTED_MIN, len(self._bytes) // 2):
            self._compact()

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have no string."""
        self._starts.extend(array("q", [_NONE]) * (rows - len(self._starts)))

    def _compact(self) -> None:
        kept = bytearray()
        for row, start in enumerate(self._starts):
            if start < 0:
                continue
            size = self._bytes[start]
            self._starts[row] = len(kept)
            kept += self._bytes[start : start + 1 + (0 if size == _LONG else size)]
        self._bytes, self._wasted = kept, 0
