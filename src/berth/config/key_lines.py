"""Files of keys: one key of 32 bytes in base64 on each line, the one in use first.

Empty lines and lines that start with `#` are skipped.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from berth.config.watched_files import OTHERS_BITS, read_lines
from berth.domain.errors import InvalidInputError

KEY_BYTES: Final = 32


def read_key_lines(path: Path, *, danger: str, count_min: int, count_max: int) -> list[bytes]:
    """Return the keys of a file, in order.

    Args:
        path: the file, which only its owner and group may read.
        danger: what users who can read the file could do, for the error message.
        count_min: the minimum number of keys.
        count_max: the maximum number of keys.

    Raises:
        InvalidInputError: the file cannot be read, or its mode or content is invalid; the message
            never quotes a key.
    """
    reason = f"every user of this machine can read it and {danger}; run chmod 600 on it"
    lines = read_lines(path, forbidden=OTHERS_BITS, reason=reason)
    keys = [decode_key(line, where) for where, line in lines]
    if not count_min <= len(keys) <= count_max:
        is_fixed = count_min == count_max
        counts = str(count_min) if is_fixed else f"between {count_min} and {count_max}"
        raise InvalidInputError(str(path), f"has {len(keys)} keys, but must have {counts}")
    return keys


def decode_key(text: str, where: str) -> bytes:
    """Return a key from its base64 text.

    Args:
        text: the text.
        where: the place of the text, for the error message.

    Raises:
        InvalidInputError: the text is not 32 bytes in base64; the message does not quote it.
    """
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(where, f"a key must be {KEY_BYTES} bytes in base64")
    return key


def text_of_keys(heading: str, keys: Iterable[bytes]) -> str:
    """Return the text of a file with keys.

    Args:
        heading: comment lines at the top, each with a `#` at its start.
        keys: the keys, the one in use first.
    """
    return "\n".join([heading, *(b64encode(key).decode() for key in keys), ""])
