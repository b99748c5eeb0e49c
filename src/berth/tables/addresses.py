"""Addresses: the IP address of each host, in a form that is compared with networks at once."""

from ipaddress import IPv4Network, IPv6Network, ip_address

import numpy as np
from numpy.typing import NDArray

from berth.tables.bitsets import Mask, Selection

Words = NDArray[np.uint64]

_WORD_BITS = 64
_LOW = 2**_WORD_BITS - 1


class Addresses:
    """The address of each row as two words, and its version: 4 or 6, 0 for none.

    Most policies never ask, so the texts are read when somebody does for the first time.
    """

    def __init__(self, rows: int) -> None:
        self._texts: dict[int, str] = {}
        self._unread: set[int] = set()
        self._version = np.zeros(rows, dtype=np.uint8)
        self._high: Words = np.zeros(rows, dtype=np.uint64)
        self._low: Words = np.zeros(rows, dtype=np.uint64)

    def within(self, network: IPv4Network | IPv6Network, rows: Selection) -> Mask:
        """Tell for each of the rows whether its address is in the network.

        A row without an address, or with a text that is none, is in no network.
        """
        for row in self._unread:
            self._read(row)
        self._unread.clear()
        first, mask = int(network.network_address), int(network.netmask)
        inside: Mask = self._version[rows] == network.version
        for words, shift in ((self._high, _WORD_BITS), (self._low, 0)):
            wanted, cared = first >> shift & _LOW, mask >> shift & _LOW
            if cared:
                inside &= (words[rows] & np.uint64(cared)) == np.uint64(wanted)
        return inside

    def put(self, row: int, text: str) -> None:
        """Set the address of a row; an empty text is none."""
        if self._texts.get(row, "") == text:
            return
        self._texts[row] = text
        self._unread.add(row)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new ones have no address."""
        more = rows - self._version.size
        self._version = np.pad(self._version, (0, more))
        self._high = np.pad(self._high, (0, more))
        self._low = np.pad(self._low, (0, more))

    def _read(self, row: int) -> None:
        version, number = 0, 0
        text = self._texts[row]
        if text:
            try:
                address = ip_address(text.strip())
            except ValueError:
                pass
            else:
                version, number = address.version, int(address)
        else:
            del self._texts[row]
        self._version[row] = version
        self._high[row] = number >> _WORD_BITS
        self._low[row] = number & _LOW
