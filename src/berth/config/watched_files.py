"""Small files that are written as a whole and that running processes read again on a change."""

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

# Minimum time between checks of a file, so that not every request costs a system call.
_CHECK_EVERY_NS = 1_000_000_000
RELOAD_WITHIN_S = 2 * _CHECK_EVERY_NS / 1e9
"""A process that keeps reading a file notices a change of the file within this many seconds."""
_GROUP_MAY = 0o770

# Time of modification in nanoseconds, size in bytes, and inode, which a rename changes even if time
# and size stay the same.
_Stamp = tuple[int, int, int]
T = TypeVar("T")


class WatchedFile(Generic[T]):
    """The content of a file, which is read again when the file changes.

    If a changed file is invalid, the earlier content stays in force, because an editing mistake
    must not disable a running service.

    Args:
        path: the file.
        read: reads the file, and raises InvalidInputError if it is invalid.
        clock: the monotonic clock; the file's status is checked at most once a second.
        on_read: called with the new content after each change.
        on_refused: called with the error of a change that is invalid.

    Raises:
        InvalidInputError: the file cannot be read or is invalid at the start.
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
        self._checked_ns = clock.ticks_ns()
        # The stamp is taken before the content is read, so a write in between is noticed next time.
        self._stamp = self._stamp_now()
        self._content = read(path)

    @property
    def content(self) -> T:
        """The content of the file; reading it checks for changes, at most once a second."""
        now_ns = self._clock.ticks_ns()
        if now_ns - self._checked_ns >= _CHECK_EVERY_NS:
            self._checked_ns = now_ns
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
    """Return the lines of a file that are neither empty nor comments.

    Args:
        path: the file.
        forbidden: the mode bits that the file must not have.
        reason: the error message if the file has one of them.

    Returns:
        For each line, its place for error messages, and its text without surrounding spaces.

    Raises:
        InvalidInputError: the file cannot be read or is too large, or a forbidden mode bit is set.
    """
    # The mode is checked on the open file, not on the path, which could be replaced in between.
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & forbidden:
                raise InvalidInputError(str(path), reason)
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(
            str(path), f"cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    if len(text) > FILE_BYTES_MAX:
        raise InvalidInputError(str(path), f"is larger than {FILE_BYTES_MAX:,} bytes, the maximum")
    lines = enumerate(text.decode("utf-8", "replace").splitlines(), start=1)
    return [
        (f"{path}: line {number}", line.strip())
        for number, line in lines
        if line.strip() and not line.lstrip().startswith("#")
    ]


def create_file(path: Path, text: str) -> bool:
    """Create a file that only its owner may read, and return whether it is new.

    An existing file is left alone, so two processes that start simultaneously use one file.

    Raises:
        InvalidInputError: the file cannot be created.
    """
    try:
        part = _write_beside(path, text, 0o600)
        try:
            os.link(part, path)  # unlike a rename, a link never replaces an existing file
        except FileExistsError:
            return False
        finally:
            part.unlink()
    except OSError as error:
        raise InvalidInputError(
            str(path), f"cannot be created ({error.strerror}); check the folder and its permissions"
        ) from error
    return True


def replace_file(path: Path, text: str) -> None:
    """Write a file atomically; keep its mode, but remove the rights of all other users.

    A new file is readable only by its owner.

    Raises:
        InvalidInputError: the file cannot be written.
    """
    try:
        mode = path.stat().st_mode & _GROUP_MAY if path.exists() else 0o600
        _write_beside(path, text, mode).replace(path)
    except OSError as error:
        raise InvalidInputError(
            str(path), f"cannot be written ({error.strerror}); check the folder and its permissions"
        ) from error


def _write_beside(path: Path, text: str, mode: int) -> Path:
    """Write a temporary file in the same folder, and return its path."""
    # The temporary file is in the same folder because a rename or a link works only within one file
    # system. The content is synced before the rename, because the name must not refer to an empty
    # file after a power failure.
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(part).chmod(mode)
    return Path(part)
