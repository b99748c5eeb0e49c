"""The file of the keys with which the control plane proves itself to agents over a broker.

It has two private Ed25519 keys in base64, one on each line: the one in use, and the one that will
be used after the next rotation. Hosts pin both public halves, so they accept the next key in
advance. Empty lines and lines that start with `#` are skipped.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from berth.config.key_lines import read_key_lines, text_of_keys
from berth.config.watched_files import WatchedFile, create_file, replace_file
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

KEYS: Final = 2
"""The number of keys in the file: the one in use and the next one."""

_HEADING: Final = (
    "# Private keys of the control plane, the one in use first. Anyone who has one can act towards "
    "hosts\n# as the control plane."
)


class ControlKeyFile:
    """The keys of a file, which is read again when it changes.

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
            create(path)
        self._file = WatchedFile(
            path,
            read,
            clock,
            on_read=lambda keys: telemetry.event("control_keys_read", keys=len(keys)),
            on_refused=lambda error: telemetry.failure("control_keys_refused", error),
        )

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data` by the key in use."""
        return self._file.content[0].sign(data)

    def public_keys(self) -> tuple[bytes, ...]:
        """Return the public halves, 32 bytes each, the one in use first."""
        return tuple(key.public_key().public_bytes_raw() for key in self._file.content)


def create(path: Path) -> None:
    """Create a file with new keys, unless the file exists.

    Raises:
        InvalidInputError: the file cannot be created.
    """
    create_file(path, _text_of([Ed25519PrivateKey.generate() for _ in range(KEYS)]))


def rotate(path: Path) -> None:
    """Make the next key the one in use, and add a new one after it.

    Raises:
        InvalidInputError: the file is invalid or cannot be written.
    """
    _, following = read(path)
    replace_file(path, _text_of([following, Ed25519PrivateKey.generate()]))


def read(path: Path) -> tuple[Ed25519PrivateKey, ...]:
    """Return the keys of a file, the one in use first.

    Raises:
        InvalidInputError: the file cannot be read, or its mode or content is invalid; the message
            never quotes a key.
    """
    keys = read_key_lines(path, danger="give orders to hosts", count_min=KEYS, count_max=KEYS)
    return tuple(map(Ed25519PrivateKey.from_private_bytes, keys))


def _text_of(keys: Sequence[Ed25519PrivateKey]) -> str:
    return text_of_keys(_HEADING, (key.private_bytes_raw() for key in keys))
