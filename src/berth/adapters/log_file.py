"""A log file that several processes may share, and that may be rotated while they write."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_MODE: Final = 0o640
_CHECK_EVERY_NS: Final = 1_000_000_000
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class LogFile:
    """Appends lines to a file. Each line is one system call, so lines of processes never mix.

    A file that was moved or removed, as logrotate does, is opened again within a second, before
    the next line. With `rotate_bytes` the file rotates itself: it is renamed to `NAME.1`, and
    older ones move up by one.

    If the file cannot be rotated or opened again, lines go on into the open one, and a second later
    this is tried again. A line that cannot be written, because the disk is full for instance, is
    dropped and counted: a log must not stop the process that writes it.

    Args:
        path: the file; it is created with the mode 0640, less the bits of the umask.
        ticks_ns: a monotonic clock in nanoseconds.
        rotate_bytes: the size at which the file rotates; 0 leaves that to other programs.
        kept: number of rotated files that are kept.

    Attributes:
        lost: number of lines that could not be written.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(
        self, path: Path, ticks_ns: Callable[[], int], *, rotate_bytes: int = 0, kept: int = 5
    ) -> None:
        self._path = path
        self._ticks_ns = ticks_ns
        self._rotate_bytes = rotate_bytes
        self._kept = kept
        self.lost = 0
        self._descriptor = os.open(path, _FLAGS, _MODE)
        self._checked_ns = ticks_ns()

    def write(self, line: str) -> None:
        """Append a line, to which the line break is added."""
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        # The open file still takes lines if its folder allows neither rotation nor a new file.
        with suppress(OSError):
            self._renew()
        try:
            written = os.write(self._descriptor, data)
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            self.lost += 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _renew(self) -> None:
        """Open the file again if it was moved, and rotate it if it is large, once a second."""
        now_ns = self._ticks_ns()
        if now_ns - self._checked_ns < _CHECK_EVERY_NS:
            return
        self._checked_ns = now_ns
        if not self._is_current():
            self._reopen()
        elif self._rotate_bytes and os.fstat(self._descriptor).st_size >= self._rotate_bytes:
            self._rotate()

    def _is_current(self) -> bool:
        try:
            at_path, is_open = self._path.stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        return (at_path.st_dev, at_path.st_ino) == (is_open.st_dev, is_open.st_ino)

    def _reopen(self) -> None:
        descriptor = os.open(self._path, _FLAGS, _MODE)
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _rotate(self) -> None:
        # Of several processes that reach the size at once, the one with the lock on the file that
        # all have open rotates. The others go on, and find another file at the path a second later.
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        try:
            if self._is_current():
                self._move()
        finally:
            # If the files cannot be moved, other processes may try as well.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._reopen()

    def _move(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._numbered(number).replace(self._numbered(number + 1))
        if self._kept:
            self._path.replace(self._numbered(1))
        else:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
