"""`berth top`: a live view of hosts, the queue and the schedulers."""

import sys
from collections.abc import Sequence
from functools import partial

import click
from rich.text import Text

from berth.cli.command import berth_command
from berth.cli.connection import ApiConnection, Json, command_errors, connected
from berth.cli.live_region import terminal_console
from berth.cli.output import console, json_option, print_json
from berth.cli.top_view import top_lines
from berth.cli.watching import View, watch

# The hosts that are shown where there is no screen, and the most that the service returns.
_HOSTS = 20
_HOSTS_MAX = 1000


@berth_command("top")
@click.option(
    "--sort",
    default="load",
    show_default=True,
    metavar="KEY",
    help="Order of the hosts: load (the largest used share of a resource class), name, instances, "
    "tasks, or a resource class such as MEMORY_MB.",
)
@click.option("--az", help="Only hosts of this availability zone.")
@click.option(
    "--hosts",
    "hosts_max",
    type=click.IntRange(0, _HOSTS_MAX),
    help=f"Number of hosts to show; by default as many as fit on the terminal, elsewhere {_HOSTS}.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.2),
    default=2.0,
    show_default=True,
    help="Seconds between two views.",
)
@click.option("--once", is_flag=True, help="Print one view and exit.")
@json_option
@connected
def top(
    api: ApiConnection,
    *,
    sort: str,
    az: str | None,
    hosts_max: int | None,
    interval_s: float,
    once: bool,
    as_json: bool,
) -> None:
    """Show the load of hosts, the queue, rates and schedulers, again and again until q or Ctrl-C.

    In a pipe each view follows the previous one; with --json it is a line, or a document with
    --once. Each view costs one request.
    """
    read = partial(_read, api, sort, az, hosts_max, is_live=not once and not as_json)
    if not once:
        view = View(read=read, draw=_drawn, text=_text, document=lambda answer, _: answer)
        watch(view, interval_s, as_json=as_json)
    elif as_json:
        print_json(read())
    else:
        sys.stdout.write(_text(read(), ""))


def _read(
    api: ApiConnection, sort: str, az: str | None, hosts_max: int | None, *, is_live: bool
) -> Json:
    limit = hosts_max
    if limit is None:
        is_live = is_live and sys.stdout.isatty()
        # More hosts than the terminal has lines would never be seen.
        limit = min(terminal_console(sys.stdout).height, _HOSTS_MAX) if is_live else _HOSTS
    with command_errors():
        return api.berth.top.document(sort=sort, availability_zone=az, limit=limit)


def _drawn(answer: Json, _: str, width: int, height: int) -> Sequence[Text]:
    return top_lines(answer, width=width, height=height)


def _text(answer: Json, _: str) -> str:
    """Return a view as text for standard output, with colours if that is a terminal."""
    screen = console()
    with screen.capture() as captured:
        for line in top_lines(answer, width=screen.width, height=None):
            line.rstrip()
            screen.print(line, soft_wrap=True)
        screen.print()
    return captured.get()
