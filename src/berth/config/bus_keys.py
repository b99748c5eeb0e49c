"""The file of keys that sign messages on the broker: one key in base64 on each line.

The first key signs, and all are accepted. A file has three keys: the one in use, the next one and
the previous one. Therefore no message is refused during a rotation, in whatever order the processes
get the new file. Empty lines and lines that start with `#` are skipped.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from berth.config.key_lines import KEY_BYTES, read_key_lines, text_of_keys
from berth.config.watched_files import WatchedFile, create_file, replace_file
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

_KEYS_MAX: Final = 3
_HEADING: Final = (
    "# Keys that sign Berth's messages on the broker: in use, next, previous. Anyone who has one\n"
    "# can command every scheduler and host."
)


class BusKeyFile:
    """The keys of a file, which is read again when it changes; implements `SigningKeys`.

    A changed file that is invalid is reported to telemetry, and the earlier keys stay in force.

    Args:
        path: the file; a missing one is created.
        clock: the monotonic clock; the file's status is checked at most once a second.
        telemetry: receives events of changes and failures.

    Raises:
        InvalidInputError: the file cannot be created or read, or its mode or content is invalid.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        if not path.exists():
            create_file(path, text_of_keys(_HEADING, [_new_key(), _new_key()]))
        self._file = WatchedFile(
            path,
            read_bus_keys,
            clock,
            on_read=lambda keys: telemetry.event("bus_keys_read", keys=len(keys)),
            on_refused=lambda error: telemetry.failure("bus_keys_refused", error),
        )

    @property
    def all(self) -> Sequence[bytes]:
        """The keys, the one in use first; reading them checks the file for changes."""
        return self._file.content


def read_bus_keys(path: Path) -> list[bytes]:
    """Return the keys of a file, the one in use first.

    Raises:
        InvalidInputError: the file cannot be read, or its mode or content is invalid; the message
            never quotes a key.
    """
    return read_key_lines(path, danger="forge messages", count_min=1, count_max=_KEYS_MAX)


def rotate_bus_keys(path: Path) -> None:
    """Put the next key in use, add a new next key, and keep the key that was in use.

    A second rotation drops the key that was in use.

    Args:
        path: the file; a missing one is created.

    Raises:
        InvalidInputError: the file is invalid or cannot be written.
    """
    keys = read_bus_keys(path) if path.exists() else [_new_key()]
    following = keys[1] if len(keys) > 1 else keys[0]
    replace_file(path, text_of_keys(_HEADING, [following, _new_key(), keys[0]]))


def _new_key() -> bytes:
    return os.urandom(KEY_BYTES)
