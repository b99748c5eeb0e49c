"""A region at the end of a terminal's output that is redrawn in place.

The region is on standard error, so that standard output has only the result. It is erased at its
end, also after Ctrl-C, and it changes no mode of the terminal that would have to be restored.
"""

import os
import re
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType

# A line of the terminal that the region leaves to the prompt or to a wrapped line above it.
_MARGIN: Final = 1
_STYLES: Final = re.compile(r"\x1b\[[0-9;]*m")
_ERASE_BELOW: Final = "\x1b[J"


class LiveRegion:
    """Draws renderables on a terminal, each in place of the previous one.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # The widths in cells of the lines that are on the terminal.
        self._widths: list[int] = []

    @property
    def console(self) -> Console:
        """A console for the present size of the terminal."""
        return terminal_console(self._stream)

    @property
    def height(self) -> int:
        """The number of lines that the region may have."""
        return max(self.console.height - _MARGIN, 1)

    def draw(self, content: RenderableType) -> None:
        """Replace the region by a renderable, cut at the lower end of the terminal."""
        console = self.console
        with console.capture() as captured:
            console.print(content, no_wrap=True, overflow="ellipsis", crop=True)
        lines = captured.get().splitlines()[: self.height]
        self._replace(lines, console.width)

    def erase(self) -> None:
        """Remove the region; the cursor is where the region began."""
        self._replace([], self.console.width)

    def _replace(self, lines: list[str], width: int) -> None:
        # A terminal that has become narrower wraps the lines of the region, so it has more lines
        # than were drawn.
        drawn = sum(max(-(-wide // max(width, 1)), 1) for wide in self._widths)
        up = f"\x1b[{drawn}A" if drawn else ""
        start = f"\r{up}{_ERASE_BELOW}" if self._widths else ""
        text = start + "".join(f"{line}\n" for line in lines)
        if text:
            self._stream.write(text)
            self._stream.flush()
        self._widths = [cell_len(_STYLES.sub("", line)) for line in lines]


@contextmanager
def live_region() -> Generator[LiveRegion | None]:
    """Yield a region on standard error, or None if that is no terminal."""
    if not is_live():
        yield None
        return
    region = LiveRegion(sys.stderr)
    try:
        yield region
    finally:
        region.erase()


def terminal_console(stream: TextIO) -> Console:
    """Return a console with the present size of a terminal."""
    # rich prefers the variables COLUMNS and LINES, which do not change with the terminal.
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size()
    # A terminal that does not know its size reports 0.
    width, height = size.columns or 80, size.lines or 24
    return Console(
        file=stream, width=width, height=height, highlight=False, markup=False, emoji=False
    )


def is_live() -> bool:
    """Return whether standard error is a terminal on which lines can be redrawn."""
    return sys.stderr.isatty() and not terminal_console(sys.stderr).is_dumb_terminal
