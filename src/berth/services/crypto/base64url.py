"""URL texts: bytes in base64 with the characters of URLs and without its padding.

Straight from binascii, as base64's own functions take several times as long for bytes as few as
these, and a select over ten zones writes and reads a hundred of them.
"""

from binascii import a2b_base64, b2a_base64
from typing import Final

_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")


def url_text_of(raw: bytes) -> str:
    """Write bytes as a text."""
    return b2a_base64(raw, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def raw_of(url_text: str) -> bytes:
    """Read what `url_text_of` writes; characters that do not belong there are passed over.

    Raises:
        ValueError: it is no such text.
    """
    text = url_text.encode("ascii").translate(_FROM_URL)
    return a2b_base64(text + b"=" * (-len(text) % 4))
