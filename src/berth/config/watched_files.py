"""Kept files: small ones that programs write whole, and that running processes read again."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock

FILE_BYTES_MAX = 64 * 1024
OTHERS_BITS = 0o007
OTHERS_WRITE_BIT = 0o002

_LOOK_EVERY_NS = 1_000_000_000
RELOAD_WITHIN_S = 2 * _LOOK_EVERY_NS / 1e9
"""After so long every process that uses a file has what was written into it."""
_GROUP_MAY = 0o770

_Stamp = tuple[int, int, int]
T = TypeVar("T")


class WatchedFile(Generic[T]):
    """What a file holds, read again when it changes.

    A file that has become wrong changes nothing.

    Args:
        path: the file.
        read: reads it, and raises InvalidInputError when it is wrong.
        clock: tells when to look at the file again, at most once a second.
        on_read: is told of each change.
        on_refused: is told of a change that cannot be read.

    Raises:
        InvalidInputError: the file is wrong at the start.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], T],
        clock: Clock,
        *,
        on_read: Callable[[T], None],
        on_refused: Callable[[InvalidInputError], None],
    ) -> None:
        self._path = path
        self._read = read
        self._clock = clock
        self._on_read = on_read
        self._on_refused = on_refused
        self._looked_ns = clock.ticks_ns()
        self._stamp = self._stamp_now()
        self._content = read(path)

    @property
    def content(self) -> T:
        """What the file holds; reading this looks at the file."""
        now_ns = self._clock.ticks_ns()
        if now_ns - self._looked_ns >= _LOOK_EVERY_NS:
            self._looked_ns = now_ns
            self._read_if_touched()
        return self._content

    def _read_if_touched(self) -> None:
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._content = self._read(self._path)
        except InvalidInputError as error:
            self._on_refused(error)
        else:
            self._on_read(self._content)

    def _stamp_now(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def read_lines(path: Path, *, forbidden: int, reason: str) -> list[tuple[str, str]]:
    """Read the lines of a file that are neither empty nor comments.

    Args:
        path: the file.
        forbidden: bits that its mode may not have.
        reason: what is said of a file that has them.

    Returns:
        Each line, stripped, after what to call it in errors.

    Raises:
        InvalidInputError: it cannot be read, is no text, or has such a mode.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & forbidden:
                raise InvalidInputError(str(path), reason)
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be read: {error.strerror}") from error
    if len(text) > FILE_BYTES_MAX:
        raise InvalidInputError(str(path), f"is above {FILE_BYTES_MAX} bytes")
    lines = enumerate(text.decode("utf-8", "replace").splitlines(), start=1)
    return [
        (f"{path}: line {number}", line.strip())
        for number, line in lines
        if line.strip() and not line.lstrip().startswith("#")
    ]


def create_file(path: Path, text: str) -> bool:
    """Make a file for its owner alone; False when there is one by now.

    Raises:
        InvalidInputError: it cannot be made.
    """
    try:
        part = _write_beside(path, text, 0o600)
        try:
            os.link(part, path)  # unlike a rename it never takes the place of another file
        except FileExistsError:
            return False
        finally:
            part.unlink()
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be made: {error.strerror}") from error
    return True


def replace_file(path: Path, text: str) -> None:
    """Write a file in one step, with the mode that it had, or for its owner alone.

    Raises:
        InvalidInputError: it cannot be written.
    """
    try:
        mode = path.stat().st_mode & _GROUP_MAY if path.exists() else 0o600
        _write_beside(path, text, mode).replace(path)
    except OSError as error:
        raise InvalidInputError(str(path), f"cannot be written: {error.strerror}") from error


def _write_beside(path: Path, text: str, mode: int) -> Path:
    """Write a file in the same folder, and return where."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(part).chmod(mode)
    return Path(part)
