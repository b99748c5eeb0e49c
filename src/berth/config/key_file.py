"""The file of keys that seal tokens: one key in base64 on each line, newest first.

Empty lines and lines that start with `#` are skipped. Processes that share the file accept each
other's tokens.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from berth.config.key_lines import read_key_lines, text_of_keys
from berth.config.watched_files import WatchedFile, create_file, replace_file
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.crypto.sealing import KEY_BYTES

# Maximum number of keys. To unseal a token, each key is tried in turn, so many keys would slow down
# all requests.
KEYS_MAX = 16

_HEADING = "# Keys that seal Berth's tokens, newest first. Anyone who has one can make tokens."


class KeyFile:
    """The keys of a file, which is read again when it changes; implements the protocol `Keys`.

    A changed file that is invalid is reported to telemetry, and the earlier keys stay in force.

    Args:
        path: the file; a missing one is created with one key.
        clock: the monotonic clock; the file's status is checked at most once a second.
        telemetry: receives events of changes and failures.

    Raises:
        InvalidInputError: the file cannot be created or read, or its mode or content is invalid.
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
        """The keys; reading them checks the file for changes."""
        return self._file.content


def read_keys(path: Path) -> list[bytes]:
    """Return the keys of a file, newest first.

    Raises:
        InvalidInputError: the file cannot be read, or its mode or content is invalid; the message
            never quotes a key.
    """
    return read_key_lines(path, danger="forge tokens", count_min=1, count_max=KEYS_MAX)


def create_key_file(path: Path) -> None:
    """Create a file with one new key, unless the file exists.

    Raises:
        InvalidInputError: the file cannot be created.
    """
    create_file(path, text_of_keys(_HEADING, [os.urandom(KEY_BYTES)]))


def rotate_keys(path: Path, *, kept: int) -> int:
    """Add a new key in front, drop the oldest ones, and return the number of keys in the file.

    Args:
        path: the file; a missing one is created.
        kept: the number of keys to keep, between 2 and `KEYS_MAX`. Tokens sealed with a dropped
            key become invalid.

    Raises:
        InvalidInputError: the file is invalid or cannot be written.
    """
    keys = read_keys(path) if path.exists() else []
    keys = [os.urandom(KEY_BYTES), *keys][:kept]
    replace_file(path, text_of_keys(_HEADING, keys))
    return len(keys)
