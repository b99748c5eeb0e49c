"""A pseudo-terminal for the commands, and the screen that its user sees."""

import fcntl
import os
import re
import struct
import termios
from typing import Final, TextIO

import pytest

_SEQUENCE: Final = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\x1b.|[^\x1b]")


class View:
    """The part of a terminal that commands need: text, lines, and the erasing of both.

    A line that is longer than the terminal is cut, as with wrapping switched off.
    """

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = self.column = 0
        self.cursor_shown = True
        self._normal: tuple[list[str], int, int] | None = None

    @property
    def is_alternate(self) -> bool:
        """Whether the alternate screen is shown."""
        return self._normal is not None

    @property
    def text(self) -> str:
        """What the user sees, without trailing spaces."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip()

    def feed(self, written: str) -> None:
        """Show what a program has written."""
        for found in _SEQUENCE.finditer(written):
            private, numbers, kind = found.groups()
            if kind is None:
                self._put(found[0])
            elif private:
                self._switch(numbers, kind)
            else:
                self._control(numbers, kind)

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1

    def _control(self, numbers: str, kind: str) -> None:
        if kind == "A":
            self.row = max(self.row - int(numbers or 1), 0)
        elif kind == "H":
            self.row = self.column = 0
        elif kind == "K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif kind == "J":
            self.lines[self.row :] = [self.lines[self.row][: self.column]]

    def _switch(self, numbers: str, kind: str) -> None:
        is_on = kind == "h"
        if numbers == "25":
            self.cursor_shown = is_on
        elif numbers == "1049" and is_on:
            self._normal = (self.lines, self.row, self.column)
            self.lines, self.row, self.column = [""], 0, 0
        elif numbers == "1049" and self._normal is not None:
            (self.lines, self.row, self.column), self._normal = self._normal, None


class PseudoTerminal:
    """A pseudo-terminal in place of the standard streams of this process.

    Args:
        monkeypatch: replaces the streams.
        names: the streams: `stdin`, `stdout`, `stderr`.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *names: str, width: int = 80, height: int = 24
    ) -> None:
        self._outer, self._inner = os.openpty()
        self.view = View()
        self.resize(width, height)
        monkeypatch.setenv("TERM", "xterm-256color")
        for name in ("COLUMNS", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)
        self._streams: list[TextIO] = []
        for name in names:
            stream = open(  # noqa: SIM115 - closed by `close`
                self._inner, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False
            )
            self._streams.append(stream)
            monkeypatch.setattr(f"sys.{name}", stream)
        os.set_blocking(self._outer, False)

    def resize(self, width: int, height: int) -> None:
        """Set the size in characters."""
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self._inner, termios.TIOCSWINSZ, size)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._outer, keys.encode())

    @property
    def attributes(self) -> list[object]:
        """The settings of the terminal, such as whether it prints the keys that are typed."""
        return list(termios.tcgetattr(self._inner))

    def read(self) -> str:
        """Return what was written since the last call, and show it in `view`."""
        written = b""
        try:
            while piece := os.read(self._outer, 65_536):
                written += piece
        except BlockingIOError:
            pass
        text = written.decode()
        self.view.feed(text)
        return text

    def close(self) -> None:
        """Close the terminal."""
        for stream in self._streams:
            stream.close()
        os.close(self._inner)
        os.close(self._outer)
