"""The file of keys that seal tokens: one a line in base64, newest first.

Empty lines and those that start with `#` are skipped. Processes that share the file take each
other's tokens.
"""

import os
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.sealing import KEY_BYTES

KEYS_MAX = 16

_FILE_BYTES_MAX = 64 * 1024
_LOOK_EVERY_NS = 1_000_000_000
_OTHERS = 0o007
_HEADING = "# Keys that seal Berth's tokens, newest first. Who has one can make tokens."

_Stamp = tuple[int, int, int]


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
        self._path = path
        self._clock = clock
        self._telemetry = telemetry
        if not path.exists():
            make_key_file(path)
        self._looked_ns = clock.ticks_ns()
        self._stamp = self._stamp_now()
        self._keys: Sequence[bytes] = read_keys(path)

    @property
    def newest_first(self) -> Sequence[bytes]:
        """The keys; reading them looks at the file."""
        now_ns = self._clock.ticks_ns()
        if now_ns - self._looked_ns >= _LOOK_EVERY_NS:
            self._looked_ns = now_ns
            self._read_if_touched()
        return self._keys

    def _read_if_touched(self) -> None:
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = read_keys(self._path)
        except InvalidInputError as error:
            self._telemetry.failure("key_file_refused", error)
        else:
            self._telemetry.event("key_file_read", keys=len(self._keys))

    def _stamp_now(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def read_keys(path: Path) -> list[bytes]:
    """Read a file of keys.

    Raises:
        InvalidInputError: naming the line, never the key.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                reason = "everybody on this machine may read it, and make tokens; chmod 600 it"
                raise InvalidInputError(str(path), reason)
            lines = file.read(_FILE_BYTES_MAX).splitlines()
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be read: {error.strerror}") from error
    keys = [
        _key(line.strip(), f"{path}: line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith(b"#")
    ]
    if not 1 <= len(keys) <= KEYS_MAX:
        raise InvalidInputError(str(path), f"must have 1 to {KEYS_MAX} keys, and has {len(keys)}")
    return keys


def make_key_file(path: Path) -> None:
    """Make a file with one new key, unless another process is faster.

    Raises:
        InvalidInputError: it cannot be made.
    """
    try:
        part = _write_beside(path, [os.urandom(KEY_BYTES)])
        try:
            os.link(part, path)  # unlike a rename it never takes the place of another file
        except FileExistsError:
            pass
        finally:
            part.unlink()
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be made: {error.strerror}") from error


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
    try:
        _write_beside(path, keys).replace(path)
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be written: {error.strerror}") from error
    return len(keys)


def _key(line: bytes, where: str) -> bytes:
    try:
        key = b64decode(line, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(where, f"must be {KEY_BYTES} bytes in base64")
    return key


def _write_beside(path: Path, keys: Sequence[bytes]) -> Path:
    """Write a file for its owner alone, in the same folder, and return where."""
    text = "\n".join([_HEADING, *(b64encode(key).decode() for key in keys), ""])
    mode = path.stat().st_mode & 0o770 if path.exists() else 0o600
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(part).chmod(mode)
    return Path(part)
