"""Base64 with the URL-safe alphabet and without padding.

The functions use binascii directly, because those of `base64` take several times as long for short
strings, and a select over ten zones encodes and decodes a hundred of them.
"""

from binascii import a2b_base64, b2a_base64
from typing import Final

_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")


def url_text_of(raw: bytes) -> str:
    """Return bytes encoded as a URL-safe string."""
    return b2a_base64(raw, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def raw_of(url_text: str) -> bytes:
    """Return the bytes that `url_text_of` has encoded; invalid characters are skipped.

    Raises:
        ValueError: the string is not ASCII, or its length is impossible.
    """
    text = url_text.encode("ascii").translate(_FROM_URL)
    return a2b_base64(text + b"=" * (-len(text) % 4))
