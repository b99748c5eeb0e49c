"""The file of keys that seal tokens: one a line in base64, newest first.

Empty lines and those that start with `#` are skipped. Processes that share the file take each
other's tokens.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

from berth.config.watched_files import (
    OTHERS_BITS,
    WatchedFile,
    create_file,
    read_lines,
    replace_file,
)
from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.crypto.sealing import KEY_BYTES

KEYS_MAX = 16

_HEADING = "# Keys that seal Berth's tokens, newest first. Who has one can make tokens."


class KeyFile:
    """The keys of a file, read again when it changes; see the protocol `Keys`.

    A file that has become wrong changes nothing, and telemetry is told.

    Args:
        path: the file; it is made, with one key, when it is not there.
        clock: tells when to look at the file again, at most once a second.
        telemetry: is told of a changed file that cannot be read.

    Raises:
        InvalidInputError: the file is wrong at the start, others may read it, or it cannot be made.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        if not path.exists():
            create_key_file(path)
        self._file = WatchedFile(
            path,
            read_keys,
            clock,
            on_read=lambda keys: telemetry.event("key_file_read", keys=len(keys)),
            on_refused=lambda error: telemetry.failure("key_file_refused", error),
        )

    @property
    def newest_first(self) -> Sequence[bytes]:
        """The keys; reading them looks at the file."""
        return self._file.content


def read_keys(path: Path) -> list[bytes]:
    """Read a file of keys.

    Raises:
        InvalidInputError: naming the line, never the key.
    """
    reason = "everybody on this machine may read it, and make tokens; chmod 600 it"
    lines = read_lines(path, forbidden=OTHERS_BITS, reason=reason)
    keys = [_key(line, where) for where, line in lines]
    if not 1 <= len(keys) <= KEYS_MAX:
        raise InvalidInputError(str(path), f"must have 1 to {KEYS_MAX} keys, and has {len(keys)}")
    return keys


def create_key_file(path: Path) -> None:
    """Make a file with one new key, unless another process is faster.

    Raises:
        InvalidInputError: it cannot be made.
    """
    create_file(path, _text_of([os.urandom(KEY_BYTES)]))


def rotate_keys(path: Path, *, kept: int) -> int:
    """Put a new key first, and drop the oldest ones.

    Args:
        path: the file; it is made when it is not there.
        kept: how many keys there may be afterwards, 2 to `KEYS_MAX`; the tokens that were sealed
            with a dropped one are void.

    Returns:
        How many keys there are.

    Raises:
        InvalidInputError: the file is wrong, or cannot be written.
    """
    keys = read_keys(path) if path.exists() else []
    keys = [os.urandom(KEY_BYTES), *keys][:kept]
    replace_file(path, _text_of(keys))
    return len(keys)


def _key(line: str, where: str) -> bytes:
    try:
        key = b64decode(line, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(where, f"must be {KEY_BYTES} bytes in base64")
    return key


def _text_of(keys: Sequence[bytes]) -> str:
    return "\n".join([_HEADING, *(b64encode(key).decode() for key in keys), ""])
