"""Long output in a pager, as `git` does it: only on a terminal, and only if it does not fit."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from typing import Final

from berth.cli.live_region import terminal_console

# The prompt of the shell takes a line.
_MARGIN: Final = 1
# F ends `less` at once if the text fits on the screen, R shows colours, X leaves the text on the
# terminal at the end.
_LESS: Final = "FRX"


def print_paged(text: str, *, pages: bool = True) -> None:
    """Print text that ends with a line feed, in a pager if it is longer than the terminal.

    Args:
        text: the text, which may have escape sequences for colours.
        pages: whether a pager may be used.
    """
    pager = _pager() if pages and _is_long(text) else []
    if not pager or not _ran(pager, text):
        sys.stdout.write(text)
        sys.stdout.flush()


def _is_long(text: str) -> bool:
    # A pager without a keyboard could never be left.
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return False
    return text.count("\n") > terminal_console(sys.stdout).height - _MARGIN


def _pager() -> list[str]:
    """Return the command of the pager, or an empty list if there is none or none is wanted."""
    chosen = os.environ.get("PAGER")
    if chosen is None:
        chosen = next((name for name in ("less", "more") if shutil.which(name)), "")
    try:
        words = shlex.split(chosen)
    except ValueError:
        return []
    return [] if words in ([], ["cat"]) else words


def _ran(pager: list[str], text: str) -> bool:
    """Show text in a pager; return False if it cannot be started."""
    environment = {**os.environ, "LESS": os.environ.get("LESS", _LESS)}
    try:
        # The user chooses the pager, as for every other program.
        process = subprocess.Popen(pager, stdin=subprocess.PIPE, env=environment)  # noqa: S603
    except OSError:
        return False
    # Ctrl-C is a command of the pager, and must not end the program that it belongs to.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # A pager that is left early closes its input, which is no error.
        process.communicate(text.encode(errors="replace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return True
