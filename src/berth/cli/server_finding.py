"""Servers by uuid or name, and waiting for what goes on with them."""

import re
import time

import click

from berth.cli.connection import ApiConnection, Json, is_uuid, rows, segment
from berth.cli.failures import CommandError, ExitCode

PATH = "/v2.1/servers"
HOST = "OS-EXT-SRV-ATTR:host"
TASK = "OS-EXT-STS:task_state"
FIRST_POLL_S = 0.05
_LAST_POLL_S = 2.0

wait_option = click.option("--wait", is_flag=True, help="Wait until it is done.")
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds to wait at most.",
)


def find_servers(api: ApiConnection, **filters: object) -> list[Json]:
    """List servers in full; filters that are None are left out."""
    return api.pages(f"{PATH}/detail", "servers", **filters)


def find_server(api: ApiConnection, server: str) -> Json:
    """Return the server with a uuid or, if there is just one, with a name.

    Raises:
        CommandError: there is none, or more than one.
    """
    if is_uuid(server):
        found: Json = api.get(f"{PATH}/{segment(server)}")["server"]
        return found
    named = find_servers(api, name=f"^{re.escape(server)}$")
    if not named:
        reason = f"no server {server!r} in your project; see `berth server list`"
        raise CommandError(reason, ExitCode.NOT_FOUND)
    if len(named) > 1:
        reason = f"{len(named)} servers are called {server!r}; give a uuid"
        raise CommandError(reason, ExitCode.USAGE)
    return named[0]


def pause(pause_s: float, ends_s: float, late: str) -> float:
    """Sleep, and return how long to sleep next time.

    Raises:
        CommandError: the time would be over; its message begins with `late`.
    """
    if time.monotonic() + pause_s > ends_s:
        raise CommandError(f"{late}; wait longer with --timeout")
    time.sleep(pause_s)
    return min(pause_s * 2, _LAST_POLL_S)


def wait_settled(api: ApiConnection, uuid: str, ends_s: float) -> Json:
    """Wait until nothing goes on with a server, and return it.

    Args:
        api: the connection.
        uuid: of the server.
        ends_s: when to give up, of the monotonic clock.

    Raises:
        CommandError: time is over, or what was asked for last has failed.
    """
    pause_s = FIRST_POLL_S
    while True:
        found: Json = api.get(f"{PATH}/{segment(uuid)}")["server"]
        task = found.get(TASK)
        if task is None:
            break
        pause_s = pause(pause_s, ends_s, f"{uuid} is still {task}")
    history = rows(api.get(f"{PATH}/{segment(uuid)}/os-instance-actions"), "instanceActions")
    if history and history[0].get("message"):
        reason = (
            f"{history[0]['action']} failed, and server {uuid} is {found['status']}; `berth server "
            f"actions {uuid}` tells where, and `berth explain {uuid}` whether hosts had room"
        )
        raise CommandError(reason)
    return found
