"""The progress of commands that wait: a bar and a table on a terminal, lines with times elsewhere.

All commands that wait use `Progress`, on standard error, so that `--json` and pipes have only the
result on standard output.
"""

import sys
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final

import click
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from berth.cli.live_region import LiveRegion, live_region
from berth.cli.output import plain

# Without a terminal, each change of more items than this would hide the failures among them.
_ITEMS_TOLD_MAX: Final = 100
_TOLD_EVERY_S: Final = 5.0
_REASONS_TOLD_MAX: Final = 20
_FRAME_S: Final = 0.2
_BAR_WIDTH: Final = 30
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600


class Phase(IntEnum):
    """The phase of an item; a table on a terminal has the items in this order."""

    FAILED = 0
    ACTIVE = 1
    WAITING = 2
    DONE = 3


@dataclass(frozen=True, slots=True)
class Item:
    """An item that a command waits for, such as a server: its name and its present state."""

    name: str
    text: str
    phase: Phase

    @property
    def has_ended(self) -> bool:
        """Whether the item has reached its final state."""
        return self.phase in {Phase.DONE, Phase.FAILED}


class Progress:
    """Shows the progress of a command that waits.

    Args:
        doing: what the command waits for, such as `building servers`.
        region: the region of a terminal; None prints lines instead.
        quiet: whether nothing is printed without a terminal.
    """

    def __init__(self, doing: str, region: LiveRegion | None, *, quiet: bool) -> None:
        self._doing = doing
        self._region = region
        self._is_silent = quiet and region is None
        self._items: Mapping[str, Item] = {}
        self._note = ""
        self._began_s = time.monotonic()
        self._told: dict[str, str] = {}
        self._reasons: set[str] = set()
        self._told_note = self._told_counts = ""
        self._told_s = -_TOLD_EVERY_S

    def show(self, items: Mapping[str, Item], note: str = "") -> None:
        """Show the present state of all items, by key, and a note about the whole."""
        self._items, self._note = items, note
        if self._region is not None:
            self._draw(self._region)
        elif not self._is_silent:
            self._tell()

    def pause(self, pause_s: float) -> None:
        """Sleep, while the display keeps its clock running and adapts to a resized terminal."""
        if self._region is None:
            time.sleep(pause_s)
            return
        frames = max(round(pause_s / _FRAME_S), 1)
        for _ in range(frames):
            time.sleep(pause_s / frames)
            self._draw(self._region)

    # --- a terminal ---

    def _draw(self, region: LiveRegion) -> None:
        open_items = sorted(
            (one for one in self._items.values() if one.phase is not Phase.DONE),
            key=lambda one: one.phase,
        )
        parts: list[RenderableType] = [self._head()]
        room = region.height - 1 - bool(self._note)
        if self._note:
            parts.append(Text(f"  {plain(self._note)}", style="yellow"))
        if room > 1 and open_items:
            parts.append(_table_of(open_items, room))
        region.draw(Group(*parts))

    def _head(self) -> Table:
        counts = Counter(one.phase for one in self._items.values())
        total, done = len(self._items), counts[Phase.DONE]
        head = Table.grid(padding=(0, 2))
        cells: list[RenderableType] = [
            Text(self._doing, style="bold"),
            # A bar without a total would be drawn as an animation.
            ProgressBar(total=max(total, 1), completed=done, width=_BAR_WIDTH),
            Text(self._counts()),
            Text(span_text(time.monotonic() - self._began_s), style="dim"),
        ]
        head.add_row(*cells)
        return head

    def _counts(self) -> str:
        counts = Counter(one.phase for one in self._items.values())
        text = f"{counts[Phase.DONE]:,} of {len(self._items):,}"
        return f"{text}, {counts[Phase.FAILED]:,} failed" if counts[Phase.FAILED] else text

    # --- lines ---

    def _tell(self) -> None:
        is_long = len(self._items) > _ITEMS_TOLD_MAX
        for key, item in self._items.items():
            is_told = not is_long or self._is_news(item)
            if is_told and self._told.get(key) != item.text:
                self._told[key] = item.text
                _say(f"{key} {item.name}: {item.text}")
        if self._note != self._told_note:
            self._told_note = self._note
            if self._note:
                _say(self._note)
        if is_long:
            self._tell_counts()

    def _is_news(self, item: Item) -> bool:
        """Return whether an item of many has failed for a reason that is not yet reported."""
        # A thousand servers of one request usually fail for the same reason.
        if item.phase is not Phase.FAILED or item.text in self._reasons:
            return False
        self._reasons.add(item.text)
        return len(self._reasons) <= _REASONS_TOLD_MAX

    def _tell_counts(self) -> None:
        now_s, counts = time.monotonic(), self._counts()
        is_end = all(one.has_ended for one in self._items.values())
        if counts != self._told_counts and (is_end or now_s - self._told_s >= _TOLD_EVERY_S):
            self._told_s, self._told_counts = now_s, counts
            _say(f"{self._doing}: {counts}")


def _say(text: str) -> None:
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    click.echo(f"{now} {plain(text)}", file=sys.stderr)


def _table_of(items: Sequence[Item], lines_max: int) -> Table:
    table = Table.grid(padding=(0, 2))
    shown = items if len(items) <= lines_max else items[: lines_max - 1]
    for item in shown:
        style = "red" if item.phase is Phase.FAILED else ""
        table.add_row("", Text(plain(item.name)), Text(plain(item.text), style=style))
    if len(items) > len(shown):
        table.add_row("", Text(f"… and {len(items) - len(shown):,} more", style="dim"))
    return table


def span_text(span_s: float) -> str:
    """Return a duration as `42 s`, `7:05` or `1:07:05`."""
    whole_s = int(span_s)
    if whole_s < _MINUTE_S:
        return f"{whole_s} s"
    hours, minutes, seconds = whole_s // _HOUR_S, whole_s // _MINUTE_S % 60, whole_s % _MINUTE_S
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


@contextmanager
def progress(doing: str, *, quiet: bool = False) -> Generator[Progress]:
    """Yield the display of a wait; a terminal is as before at its end, also after Ctrl-C.

    Args:
        doing: what the command waits for, such as `building servers`.
        quiet: whether to print nothing if standard error is no terminal, as with `--json`.
    """
    with live_region() as region:
        yield Progress(doing, region, quiet=quiet)
