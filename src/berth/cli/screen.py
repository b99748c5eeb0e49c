"""The whole terminal as a screen for live views, which is restored when the view ends."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final, TextIO

import click
from rich.console import Console, RenderableType

from berth.cli.live_region import terminal_console

# The exit code of a program that SIGTERM ended, as in shells.
_TERMINATED: Final = 143
# A resized terminal is drawn again after at most this time.
_FRAME_S: Final = 0.2
# The alternate screen without a cursor, so that the previous content of the terminal comes back.
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_ERASE_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"

Draw = Callable[[Console], RenderableType]
"""(console) -> what to show on a terminal of this size."""


class Screen:
    """Draws frames on a whole terminal, and reads single keys.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._draw: Draw | None = None
        self._size = (0, 0)

    def show(self, draw: Draw) -> None:
        """Draw a frame; it is drawn again when the terminal is resized during `wait`."""
        self._draw = draw
        self._show()

    def _show(self) -> None:
        if self._draw is None:
            return
        console = terminal_console(self._stream)
        self._size = (console.width, console.height)
        with console.capture() as captured:
            console.print(self._draw(console), no_wrap=True, overflow="ellipsis", crop=True)
        lines = captured.get().splitlines()[: console.height]
        # The screen is not erased before it is drawn, which would flicker.
        text = f"{_ERASE_LINE}\r\n".join(lines)
        self._stream.write(f"{_HOME}{text}{_ERASE_LINE}{_ERASE_BELOW}")
        self._stream.flush()

    def wait(self, pause_s: float) -> str:
        """Wait, and return the key that ended the wait early, or an empty text."""
        ends_s = time.monotonic() + pause_s
        while (left_s := ends_s - time.monotonic()) > 0:
            key = _key_within(min(left_s, _FRAME_S))
            if key:
                return key
            console = terminal_console(self._stream)
            if self._size != (console.width, console.height):
                self._show()
        return ""

    def enter(self) -> None:
        """Switch to the alternate screen."""
        self._stream.write(_ENTER)
        self._show()
        self._stream.flush()

    def leave(self) -> None:
        """Switch back to the normal screen."""
        self._stream.write(_LEAVE)
        self._stream.flush()


def _key_within(pause_s: float) -> str:
    if not _has_keys():
        time.sleep(pause_s)
        return ""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], pause_s)
    if not ready:
        return ""
    pressed = os.read(sys.stdin.fileno(), 64)
    if not pressed:
        # The terminal was closed, and reading again would return at once for ever.
        raise click.Abort
    return pressed.decode(errors="replace")


def _has_keys() -> bool:
    return sys.stdin.isatty()


@contextmanager
def full_screen(stream: TextIO) -> Generator[Screen]:
    """Yield the screen of a terminal, and restore the terminal at the end.

    The terminal is restored after Ctrl-C, errors and SIGTERM, and while Ctrl-Z suspends the
    program.
    """
    screen = Screen(stream)
    with ExitStack() as stack:
        if _has_keys():
            stack.enter_context(_single_keys())
        stack.enter_context(_handling(signal.SIGTERM, _terminate))
        stack.enter_context(_handling(signal.SIGTSTP, _suspender(screen)))
        stack.callback(screen.leave)
        screen.enter()
        yield screen


@contextmanager
def _single_keys() -> Generator[None]:
    """Read keys without waiting for a line, and do not print them."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def _handling(number: signal.Signals, handler: _Handler) -> Generator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _terminate(_: int, __: FrameType | None) -> None:
    raise click.exceptions.Exit(_TERMINATED)


def _suspender(screen: Screen) -> _Handler:
    def suspend(number: int, _: FrameType | None) -> None:
        screen.leave()
        # Only the default action of the signal stops the process; it goes on here after SIGCONT.
        handler = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, handler)
        screen.enter()

    return suspend
