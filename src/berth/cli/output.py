"""Output of commands: tables for people, JSON for programs."""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from berth.cli.command import GLOBAL_FLAGS, GlobalOption

F = TypeVar("F", bound=Callable[..., object])

# Spaces between two columns of a table; rich's default padding.
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
    numbers, texts = set(right), set(wrap)
    shown = [[plain(cell) for cell in row] for row in rows]
    # rich would squeeze or cut cells; a cut uuid or host name is useless.
    if _width_of(columns, shown, texts) > console().width:
        _print_records(columns, shown)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            Text(column),
            justify="right" if column in numbers else "left",
            no_wrap=column not in texts,
            min_width=len(column),
            overflow="fold",
        )
    for row in shown:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def _width_of(
    columns: Sequence[str], rows: Sequence[Sequence[str]], texts: AbstractSet[str]
) -> int:
    """Return the minimum width in characters at which no cell is cut."""
    width = _GAP * (len(columns) - 1)
    for index, column in enumerate(columns):
        widest = max((cell_len(row[index]) for row in rows), default=0)
        least = min(widest, _TEXT_MIN) if column in texts else widest
        width += max(least, cell_len(column))
    return width


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a block with one line per column."""
    for number, row in enumerate(rows):
        if number:
            print_line("")
        print_fields(dict(zip(columns, row, strict=True)))


def print_fields(fields: Mapping[str, object]) -> None:
    """Print the fields of one object, one per line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(plain(value)))
    console().print(table)


def print_line(text: str, *, style: str = "") -> None:
    """Print text verbatim, without interpreting markup."""
    lines = (plain(line) for line in text.split("\n"))
    console().print(Text("\n".join(lines), style=style), soft_wrap=True)


def console() -> Console:
    """Return a new console on standard output.

    Only a terminal has a width: output to a file or a pipe is never wrapped or cut, regardless of
    COLUMNS.
    """
    # A console keeps the stream that it was created with, and tests replace standard output.
    width = None if sys.stdout.isatty() else _UNLIMITED
    return Console(highlight=False, markup=False, emoji=False, width=width)


def joined(pairs: Mapping[str, object]) -> str:
    """Return a mapping as the text of one cell: `a=1, b=2`, or `-` if it is empty."""
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items())) or "-"
