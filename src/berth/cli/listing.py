"""Lists of resources: as a table, in a pager, sorted, watched, or as JSON, the same everywhere."""

import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Final, ParamSpec, TypeAlias, TypeVar, cast

import click
from rich.text import Text

from berth.cli.connection import Json, command_errors
from berth.cli.failures import CommandError, ExitCode
from berth.cli.moments import age_s, age_text
from berth.cli.output import json_option, plain, print_json, print_line, table_text
from berth.cli.paging import print_paged

P = ParamSpec("P")
R = TypeVar("R")

_WATCH_S: Final = 2.0
_WATCH_S_MIN: Final = 0.1
_DIGITS: Final = re.compile(r"(\d+)")
_DESCENDING: Final = ":desc"

Cell: TypeAlias = Callable[[Json], object]
"""(item) -> the value to show."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list.

    Attributes:
        title: its heading; `--sort` takes it in lower case, with dashes for spaces.
        cell: returns the value of an item.
        is_number: whether it is aligned to the right.
        wraps: whether its texts may be wrapped.
        order: returns the value to sort by; None for that of the cell.
    """

    title: str
    cell: Cell
    is_number: bool = False
    wraps: bool = False
    order: Cell | None = None

    @property
    def key(self) -> str:
        """The name of the column for `--sort`."""
        return self.title.lower().replace(" ", "-")

    def rank(self, item: Json) -> tuple[bool, bool, object]:
        """Return the key by which items are sorted: numbers, then texts, then missing values."""
        value = (self.order or self.cell)(item)
        if value is None:
            return True, True, 0
        if isinstance(value, (int, float)):
            return False, False, value
        return False, True, natural_key(str(value))


Columns: TypeAlias = Sequence[Column]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list to print.

    Attributes:
        key: the name of the list in JSON.
        fetch: returns all items, in the order of the service.
        columns: returns the columns, which may depend on the items.
        empty: the line that is printed if there are no items.
        order: the name of the column by which items are sorted unless `--sort` names another; empty
            for the order of the service.
    """

    key: str
    fetch: Callable[[], list[Json]]
    columns: Callable[[Sequence[Json]], Columns]
    empty: str
    order: str = ""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list: `--json`, `--sort`, `--watch` and `--no-pager`."""

    as_json: bool = False
    sort: str | None = None
    watch_s: float | None = None
    pages: bool = field(default=True)


def list_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options of lists to a command, which takes them as `options`."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        kwargs["options"] = ListOptions(
            as_json=cast("bool", kwargs.pop("as_json")),
            sort=cast("str | None", kwargs.pop("sort")),
            watch_s=cast("float | None", kwargs.pop("watch_s")),
            pages=not kwargs.pop("no_pager"),
        )
        return command(*args, **kwargs)

    added = (
        click.option("--no-pager", is_flag=True, help="Print long lists without $PAGER."),
        click.option(
            "--watch",
            "watch_s",
            metavar="[SECONDS]",
            is_flag=False,
            flag_value=_WATCH_S,
            type=click.FloatRange(_WATCH_S_MIN),
            help=f"Print the list again every SECONDS, by default {_WATCH_S:g}, until Ctrl-C.",
        ),
        click.option(
            "--sort",
            metavar="COLUMN",
            help=f"Sort by a column, such as name, or name{_DESCENDING} for the reverse order.",
        ),
    )
    decorated = json_option(cast("Callable[P, R]", run))
    for option in added:
        decorated = option(decorated)
    return decorated


def print_list(listing: Listing, options: ListOptions) -> None:
    """Print a list once, or again and again with `--watch`.

    Raises:
        CommandError: `--sort` names no column, or see `ApiConnection.ask`.
    """
    if options.watch_s is not None:
        _watch(listing, options, options.watch_s)
        return
    found = arranged(listing, options)
    if options.as_json:
        print_json({listing.key: found})
    elif not found:
        print_line(listing.empty)
    else:
        print_paged(text_of(listing, found), pages=options.pages)


def _watch(listing: Listing, options: ListOptions, pause_s: float) -> None:
    # Most lists are printed once, and need neither signals nor the terminal.
    from berth.cli.watching import View, watch  # noqa: PLC0415

    view = View(
        read=partial(arranged, listing, options),
        draw=partial(_drawn, listing),
        text=partial(_snapshot, listing),
        document=lambda found, at: {"at": at, listing.key: found},
    )
    watch(view, pause_s, as_json=options.as_json)


def _snapshot(listing: Listing, found: Sequence[Json], at: str) -> str:
    text = text_of(listing, found) if found else f"{plain(listing.empty)}\n"
    return f"{at}\n{text}\n"


def _drawn(
    listing: Listing, found: Sequence[Json], at: str, width: int, height: int
) -> Sequence[Text]:
    """Return the lines of a list on a terminal, as many as it has room for."""
    command = shlex.join(["berth", *sys.argv[1:]])
    head = [Text(plain(f"{at}  {len(found):,} in the list  {command}"), style="bold"), Text()]
    room = max(height - len(head), 1)
    if not found:
        return [*head, Text(plain(listing.empty))]
    # Rows that cannot be seen are not laid out.
    lines = text_of(listing, found[:room], width=width).splitlines()
    if len(lines) > room:
        left = "… (the list is longer than the terminal; see --sort)"
        lines = [*lines[: room - 1], left]
    return [*head, *map(Text.from_ansi, lines)]


def arranged(listing: Listing, options: ListOptions) -> list[Json]:
    """Return the items of a list in the order that the options ask for.

    Raises:
        CommandError: `--sort` names no column, or see `ApiConnection.ask`.
    """
    with command_errors():
        found = listing.fetch()
    key = (options.sort or listing.order).removesuffix(_DESCENDING)
    if not key:
        return found
    columns = {one.key: one for one in listing.columns(found)}
    if key not in columns:
        reason = f"--sort {key[:80]!r} names no column; use one of {', '.join(columns)}"
        raise CommandError(reason, ExitCode.USAGE)
    is_reversed = (options.sort or "").endswith(_DESCENDING)
    return sorted(found, key=columns[key].rank, reverse=is_reversed)


def print_items(found: Sequence[Json], columns: Columns) -> None:
    """Print items as a table, without a pager."""
    sys.stdout.write(_table_text(found, columns))


def text_of(listing: Listing, found: Sequence[Json], *, width: int | None = None) -> str:
    """Return items as the text of a table; `width` is None for that of standard output."""
    return _table_text(found, listing.columns(found), width=width)


def age_column(key: str) -> Column:
    """Return the column `Age`: the time since the ISO time under a key of an item."""
    return Column(
        "Age",
        lambda one: age_text(one.get(key), time.time()),
        is_number=True,
        order=lambda one: age_s(one.get(key), time.time()),
    )


def _table_text(found: Sequence[Json], columns: Columns, *, width: int | None = None) -> str:
    return table_text(
        [one.title for one in columns],
        [[one.cell(item) for one in columns] for item in found],
        right=[one.title for one in columns if one.is_number],
        wrap=[one.title for one in columns if one.wraps],
        width=width,
    )


def natural_key(text: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers within texts by value: rack2 before rack10."""
    parts = _DIGITS.split(text.lower())
    return tuple((int(one), "") if one.isdigit() else (-1, one) for one in parts if one)
