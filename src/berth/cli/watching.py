"""Live views: drawn again in place on a terminal, and appended in a pipe, until Ctrl-C."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.text import Text

from berth.cli.connection import command_errors
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import plain
from berth.cli.screen import Screen, full_screen

T = TypeVar("T")

_QUIT: Final = frozenset({"q", "Q"})


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """What a live view shows.

    Attributes:
        read: reads the content from the service.
        draw: returns the lines for a terminal, from the content, the time of the reading, the
            width and the height.
        text: returns the text for a pipe, from the content and the time.
        document: returns the JSON document for a program, from the content and the time.
    """

    read: Callable[[], T]
    draw: Callable[[T, str, int, int], Sequence[Text]]
    text: Callable[[T, str], str]
    document: Callable[[T, str], object]


def watch(view: View[T], pause_s: float, *, as_json: bool) -> None:
    """Show a view every `pause_s` seconds until `q` or Ctrl-C.

    Once it was read, the last content stays while the service cannot be reached.

    Raises:
        CommandError: the service cannot be reached the first time, or refuses to answer.
    """
    reading = _Reading(view)
    try:
        if as_json or not sys.stdout.isatty():
            _append(reading, pause_s, as_json=as_json)
        else:
            with full_screen(sys.stdout) as screen:
                _redraw(reading, screen, pause_s)
    except KeyboardInterrupt:
        # Ctrl-C is the normal end of a watch, so it is no failure.
        raise click.exceptions.Exit(0) from None


class _Reading(Generic[T]):
    """The newest content of a view, when it was read, and why it is not newer."""

    def __init__(self, view: View[T]) -> None:
        self.view = view
        with command_errors():
            self.content = view.read()
        self.at = _now()
        self.outage = ""

    def renew(self) -> None:
        """Read again; an outage of the service is only noted.

        Raises:
            CommandError: the service refuses to answer.
        """
        try:
            with command_errors():
                self.content = self.view.read()
        except CommandError as error:
            if error.code is not ExitCode.UNREACHABLE:
                raise
            self.outage = f"{error}; trying again"
        else:
            self.outage, self.at = "", _now()


def _append(reading: _Reading[T], pause_s: float, *, as_json: bool) -> None:
    told = ""
    while True:
        if reading.outage and not told:
            click.echo(f"berth: {plain(reading.outage)}", err=True)
        if told and not reading.outage:
            click.echo(f"berth: the service answers again at {reading.at}", err=True)
        if not reading.outage:
            sys.stdout.write(_snapshot(reading, as_json=as_json))
            sys.stdout.flush()
        told = reading.outage
        time.sleep(pause_s)
        reading.renew()


def _snapshot(reading: _Reading[T], *, as_json: bool) -> str:
    if not as_json:
        return reading.view.text(reading.content, reading.at)
    # One line for each snapshot, so that a program can read them one by one.
    return msgspec.json.encode(reading.view.document(reading.content, reading.at)).decode() + "\n"


def _redraw(reading: _Reading[T], screen: Screen, pause_s: float) -> None:
    def draw(console: Console) -> RenderableType:
        height = console.height - bool(reading.outage)
        lines = list(reading.view.draw(reading.content, reading.at, console.width, height))
        if reading.outage:
            lines.insert(1, Text(plain(reading.outage), style="bold red"))
        return Group(*lines)

    while True:
        screen.show(draw)
        if screen.wait(pause_s) in _QUIT:
            return
        reading.renew()


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
