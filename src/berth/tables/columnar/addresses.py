"""IP addresses of rows, stored as columns that NumPy compares with a network."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Mask, Selection

Words = NDArray[np.uint64]

_WORD_BITS = 64
_LOW = 2**_WORD_BITS - 1
_V4 = 4
_V4_SIZE_MAX = len("255.255.255.255")


class Addresses:
    """The IP address of each row as two 64-bit words, and its version: 4, 6, or 0 for none.

    The original string is stored as well only if it differs from the canonical spelling of its
    address.
    """

    def __init__(self, rows: int) -> None:
        self._version = np.zeros(rows, dtype=np.uint8)
        self._high: Words = np.zeros(rows, dtype=np.uint64)
        self._low: Words = np.zeros(rows, dtype=np.uint64)
        self._texts: dict[int, str] = {}

    def within(self, network: IPv4Network | IPv6Network, rows: Selection) -> Mask:
        """Return, for each row, whether its address is in the network.

        A row without an address, or with a string that is not an address, is in no network.
        """
        first, mask = int(network.network_address), int(network.netmask)
        inside: Mask = self._version[rows] == network.version
        for words, shift in ((self._high, _WORD_BITS), (self._low, 0)):
            wanted, cared = first >> shift & _LOW, mask >> shift & _LOW
            # Words outside the netmask are skipped: IPv4 and short IPv6 prefixes need one
            # comparison.
            if cared:
                inside &= (words[rows] & np.uint64(cared)) == np.uint64(wanted)
        return inside

    def text(self, row: int) -> str:
        """Return the address of a row as passed to `put`; empty if the row has none."""
        version = self._version.item(row)
        if row in self._texts or not version:
            return self._texts.get(row, "")
        low = self._low.item(row)
        return _spelled(version, self._high.item(row) << _WORD_BITS | low)

    def put(self, row: int, text: str) -> None:
        """Set the address of a row; an empty string removes it."""
        packed = _packed(text)
        version, number = (_V4, int.from_bytes(packed, "big")) if packed else _read(text)
        self._version[row] = version
        self._high[row] = number >> _WORD_BITS
        self._low[row] = number & _LOW
        if packed or not text or (version and _spelled(version, number) == text):
            self._texts.pop(row, None)
        else:
            self._texts[row] = text

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have no address."""
        more = rows - self._version.size
        self._version = np.pad(self._version, (0, more))
        self._high = np.pad(self._high, (0, more))
        self._low = np.pad(self._low, (0, more))


def _packed(text: str) -> bytes | None:
    """Return the four bytes of a canonical IPv4 address, or None for any other string.

    This takes a fifth of the time of `ip_address`, and nearly all hosts have IPv4 addresses.
    """
    if text.count(".") != _V4 - 1 or len(text) > _V4_SIZE_MAX:
        return None
    try:
        packed = bytes(map(int, text.split(".")))
    except ValueError:
        return None
    return packed if ".".join(map(str, packed)) == text else None


def _read(text: str) -> tuple[int, int]:
    """Return the version and the integer value of an address; (0, 0) if `text` is not one."""
    if not text:
        return 0, 0
    try:
        address = ip_address(text.strip())
    except ValueError:
        return 0, 0
    return address.version, int(address)


def _spelled(version: int, number: int) -> str:
    if version == _V4:
        return ".".join(map(str, number.to_bytes(4, "big")))
    return str(IPv6Address(number))
