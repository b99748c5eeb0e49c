"""The progress of a drain: a live table on a terminal, lines in a pipe."""

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from rich.live import Live
from rich.table import Table
from rich.text import Text

from berth.cli.connection import ApiConnection, Json, part, rows, segment
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import console, plain, print_line

RUNNING: Final = "running"
_MOVING: Final = "moving"
_MOVED: Final = "moved"
_POLL_S: Final = 1.0
# The schedulers go on while the API restarts, so the command waits for it.
_AWAY_MAX_S: Final = 120.0
# Lines of a terminal that the table leaves to the heading and to the prompt.
_MARGIN: Final = 6
_ORDER: Final[Mapping[str, int]] = {
    name: place for place, name in enumerate(("moving", "failed", "blocked", "waiting", "moved"))
}


def follow(api: ApiConnection, host: str, *, quiet: bool = False) -> Json:
    """Show a drain until no move is in progress and none will begin; return the maintenance.

    Args:
        api: the connection.
        host: the name of the host.
        quiet: whether to wait without showing anything.

    Raises:
        CommandError: the maintenance has ended, or the service was unreachable for two minutes.
    """
    with _shown(quiet=quiet) as show:
        seen_s = time.monotonic()
        while True:
            try:
                found = api.get(f"/berth/v1/hosts/{segment(host)}/maintenance")
            except CommandError as error:
                is_away = error.code is ExitCode.UNREACHABLE
                if not is_away or time.monotonic() - seen_s > _AWAY_MAX_S:
                    raise
            else:
                seen_s = time.monotonic()
                drain = part(found, "drain")
                show(drain)
                if not drain or _is_over(drain):
                    return found
            time.sleep(_POLL_S)


def _is_over(drain: Json) -> bool:
    return drain["state"] != RUNNING and not part(drain, "counts").get(_MOVING)


@contextmanager
def _shown(*, quiet: bool) -> Generator[Callable[[Json], None]]:
    """Yield the function that shows the present state of a drain."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stdout.isatty():
        yield _Lines().show
        return
    screen = console()
    with Live(console=screen, auto_refresh=False, transient=True) as live:

        def show(drain: Json) -> None:
            live.update(_table(drain, max(screen.height - _MARGIN, 1)), refresh=True)

        yield show


class _Lines:
    """Prints a line for each server whose state has changed since the last call."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def show(self, drain: Json) -> None:
        """Print what has changed."""
        for server in rows(drain, "servers"):
            text = server_text(server)
            if self._told.get(server["instance_uuid"]) != text:
                self._told[server["instance_uuid"]] = text
                print_line(f"{server['instance_uuid']} {server['name']}: {text}")


def server_text(server: Json) -> str:
    """Return what a drain does with one server as text."""
    state, method, host = server["state"], server.get("method"), server.get("destination")
    reason = server.get("reason")
    words = [state]
    if state in {_MOVING, "planned"} and method:
        words.append(method)
    if host and state in {_MOVING, _MOVED, "planned"}:
        words.append(f"to {host}")
    text = " ".join(words)
    return f"{text}: {reason}" if reason else text


def summary(drain: Json) -> str:
    """Return the number of servers in each state as text."""
    counts = {name: number for name, number in part(drain, "counts").items() if number}
    total = sum(counts.values())
    others = [f"{counts[name]} {name}" for name in sorted(counts, key=_place) if name != _MOVED]
    moved = f"{counts.get(_MOVED, 0)} of {total} moved"
    return ", ".join([moved, *others])


def _place(state: str) -> int:
    return _ORDER.get(state, len(_ORDER))


def _table(drain: Json, lines_max: int) -> Table:
    """Return the table of a terminal: the servers that move first, those that moved last."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    message = drain.get("message")
    title = summary(drain) + (f"; {message}" if message else "")
    table.title = Text(plain(title))
    for column in ("Server", "State", "Method", "To", "Reason"):
        table.add_column(column, no_wrap=column != "Reason", overflow="fold")
    servers = sorted(rows(drain, "servers"), key=lambda one: (_place(one["state"]), one["name"]))
    for server in servers[:lines_max]:
        cells = (server.get(key) for key in ("name", "state", "method", "destination", "reason"))
        table.add_row(*(Text(plain(cell)) for cell in cells))
    if len(servers) > lines_max:
        table.add_row(Text(f"… and {len(servers) - lines_max} more"))
    return table
