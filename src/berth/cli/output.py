"""Output of commands: tables for people, JSON for programs."""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import TypeVar

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from berth.cli.command import GLOBAL_FLAGS, GlobalOption

F = TypeVar("F", bound=Callable[..., object])

# Spaces between two columns of a table.
_GAP = 2
# Minimum width in characters of a wrapped column; below it, texts become unreadable.
_TEXT_MIN = 16
# Width of files and pipes in characters, so large that rich never wraps.
_UNLIMITED = 1_000_000


def json_option(command: F) -> F:
    """Add the option `--json` to a command, as the parameter `as_json`."""
    option = click.option(
        "--json", "as_json", cls=GlobalOption, is_flag=True, help=GLOBAL_FLAGS["--json"]
    )
    return option(command)


def print_json(value: object) -> None:
    """Print a value as indented JSON."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_deleted(things: Iterable[Mapping[str, object]], *, as_json: bool) -> None:
    """Print what a command has deleted as JSON, or nothing without `--json`.

    Args:
        things: what identifies each deleted thing: its id and name, for example.
        as_json: whether `--json` was given.
    """
    if as_json:
        print_json({"deleted": [dict(one) for one in things]})


def plain(value: object) -> str:
    """Return the text of a table cell, with control characters replaced.

    Names come from users of the cloud. An escape sequence in one must not act on the terminal of
    an administrator who lists it.
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case _:
            text = str(value)
    return "".join("\ufffd" if unicodedata.category(char) == "Cc" else char for char in text)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Iterable[str] = (),
    wrap: Iterable[str] = (),
) -> None:
    """Print a table, or one value per line if the terminal is too narrow.

    Args:
        columns: headings of the columns.
        rows: rows with one cell per column.
        title: line above the table.
        right: headings of right-aligned columns (numbers).
        wrap: headings of text columns, which wrap within the width that the others leave.
    """
    if title is not None:
        print_line(f"\n{title}", style="bold")
    sys.stdout.write(table_text(columns, rows, right=right, wrap=wrap))


def table_text(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    wrap: Iterable[str] = (),
    width: int | None = None,
) -> str:
    """Return a table as text for standard output, with colours if that is a terminal.

    Args:
        columns: headings of the columns.
        rows: rows with one cell per column.
        right: headings of right-aligned columns (numbers).
        wrap: headings of text columns, which wrap within the width that the others leave.
        width: the width of the terminal in characters; None for that of standard output.
    """
    shown = [[plain(cell) for cell in row] for row in rows]
    screen = console(width)
    widths = _widths_of(columns, shown, set(wrap), screen.width)
    layout: list[tuple[int, bool]] = []
    with screen.capture() as captured:
        # A cut uuid or host name is useless, so a narrow terminal gets one value per line.
        if widths is None:
            _print_records(screen, columns, shown)
            shown = []
        else:
            numbers = set(right)
            layout = [(wide, name in numbers) for wide, name in zip(widths, columns, strict=True)]
            screen.print(Text(_line(columns, layout), style="bold"))
    return captured.get() + "".join(
        f"{line}\n" for row in shown for line in _lines(screen, row, layout)
    )


def _widths_of(
    columns: Sequence[str], rows: Sequence[Sequence[str]], texts: AbstractSet[str], width: int
) -> list[int] | None:
    """Return the width of each column in characters; None if the terminal is too narrow."""
    by_column = zip(*rows, strict=True) if rows else [()] * len(columns)
    widest = [
        max(cell_len(name), max(map(cell_len, cells), default=0))
        for name, cells in zip(columns, by_column, strict=True)
    ]
    # Only texts may become narrower; the widest give their room first.
    over = sum(widest) + _GAP * (len(columns) - 1) - width
    narrowable = [at for at, name in enumerate(columns) if name in texts]
    while over > 0:
        at = max(narrowable, key=lambda at: widest[at], default=None)
        if at is None or widest[at] <= max(_TEXT_MIN, cell_len(columns[at])):
            return None
        widest[at] -= 1
        over -= 1
    return widest


_Layout = Sequence[tuple[int, bool]]
"""For each column its width in characters, and whether it is aligned to the right."""


def _lines(screen: Console, row: Sequence[str], layout: _Layout) -> Iterator[str]:
    """Yield the lines of a row; a text that is wider than its column is wrapped."""
    if all(cell_len(cell) <= wide for cell, (wide, _) in zip(row, layout, strict=True)):
        yield _line(row, layout)
        return
    wrapped = [
        [part.plain for part in Text(cell).wrap(screen, wide)]
        for cell, (wide, _) in zip(row, layout, strict=True)
    ]
    for parts in zip_longest(*wrapped, fillvalue=""):
        yield _line(parts, layout)


def _line(cells: Sequence[str], layout: _Layout) -> str:
    padded: list[str] = []
    for cell, (wide, is_right) in zip(cells, layout, strict=True):
        space = " " * (wide - cell_len(cell))
        padded.append(space + cell if is_right else cell + space)
    return (" " * _GAP).join(padded).rstrip()


def _print_records(screen: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a block with one line per column."""
    for number, row in enumerate(rows):
        if number:
            screen.print("")
        screen.print(_fields(dict(zip(columns, row, strict=True))))


def print_fields(fields: Mapping[str, object]) -> None:
    """Print the fields of one object, one per line."""
    console().print(_fields(fields))


def _fields(fields: Mapping[str, object]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(plain(value)))
    return table


def print_line(text: str, *, style: str = "") -> None:
    """Print text verbatim, without interpreting markup."""
    lines = (plain(line) for line in text.split("\n"))
    console().print(Text("\n".join(lines), style=style), soft_wrap=True)


def console(width: int | None = None) -> Console:
    """Return a new console on standard output.

    Only a terminal has a width: output to a file or a pipe is never wrapped or cut, regardless of
    COLUMNS.

    Args:
        width: the width in characters; None for that of the terminal.
    """
    # A console keeps the stream that it was created with, and tests replace standard output.
    if width is None and not sys.stdout.isatty():
        width = _UNLIMITED
    return Console(highlight=False, markup=False, emoji=False, width=width)


def joined(pairs: Mapping[str, object]) -> str:
    """Return a mapping as the text of one cell: `a=1, b=2`, or `-` if it is empty."""
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items())) or "-"
