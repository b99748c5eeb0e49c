"""Lookup of servers by uuid or name, and waiting for their tasks to end."""

import re
import time

import click

from berth.cli.connection import ApiConnection, Json, rows, segment
from berth.cli.failures import CommandError, ExitCode
from berth.domain.uuids import is_uuid

PATH = "/v2.1/servers"
HOST = "OS-EXT-SRV-ATTR:host"
TASK = "OS-EXT-STS:task_state"
# The first pause between two polls is short, since simulated hosts act within milliseconds. The
# pause doubles up to two seconds, so that a long wait does not load the service.
FIRST_POLL_S = 0.05
_LAST_POLL_S = 2.0

wait_option = click.option("--wait", is_flag=True, help="Wait for completion.")
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Maximum time to wait, in seconds.",
)


def find_servers(api: ApiConnection, **filters: object) -> list[Json]:
    """Return servers with all details; filters that are None are omitted.

    Raises:
        CommandError: see `ApiConnection.ask`.
    """
    return api.pages(f"{PATH}/detail", "servers", **filters)


def find_server(api: ApiConnection, server: str, *, deleted_too: bool = False) -> Json:
    """Return a server by its uuid, or by its name if that is unique.

    With `deleted_too`, a name also matches deleted servers that can still be restored.

    Raises:
        CommandError: no server or several servers match.
    """
    if is_uuid(server):
        found: Json = api.get(f"{PATH}/{segment(server)}")["server"]
        return found
    # The API's `name` filter is a regular expression that matches anywhere in the name.
    named = find_servers(api, name=f"^{re.escape(server)}$")
    if deleted_too:
        kept = find_servers(api, name=f"^{re.escape(server)}$", status="SOFT_DELETED")
        named += [one for one in kept if one not in named]
    if not named:
        reason = f"no server {server!r} in your project; see `berth server list`"
        raise CommandError(reason, ExitCode.NOT_FOUND)
    if len(named) > 1:
        reason = f"{len(named)} servers are named {server!r}; give a uuid"
        raise CommandError(reason, ExitCode.USAGE)
    return named[0]


def pause(pause_s: float, ends_s: float, late: str) -> float:
    """Sleep, and return the length of the next pause in seconds.

    Args:
        pause_s: time to sleep.
        ends_s: deadline on the monotonic clock.
        late: start of the error message if the deadline would pass.

    Raises:
        CommandError: the deadline would pass during the sleep.
    """
    if time.monotonic() + pause_s > ends_s:
        raise CommandError(f"{late}; wait longer with --timeout")
    time.sleep(pause_s)
    return min(pause_s * 2, _LAST_POLL_S)


def wait_settled(api: ApiConnection, uuid: str, ends_s: float) -> Json:
    """Wait until a server has no task in progress, and return it.

    Args:
        api: the connection.
        uuid: uuid of the server.
        ends_s: deadline on the monotonic clock.

    Raises:
        CommandError: the deadline would pass during a pause, or the last action failed.
    """
    pause_s = FIRST_POLL_S
    while True:
        found: Json = api.get(f"{PATH}/{segment(uuid)}")["server"]
        task = found.get(TASK)
        if task is None:
            break
        pause_s = pause(pause_s, ends_s, f"{uuid} is still {task}")
    # A failed action ends like a successful one, with no task; only the newest entry of the history
    # contains its error.
    history = rows(api.get(f"{PATH}/{segment(uuid)}/os-instance-actions"), "instanceActions")
    if history and history[0].get("message"):
        reason = (
            f"{history[0]['action']} failed, and server {uuid} is {found['status']}; see `berth "
            f"server actions {uuid}` for the failed step and `berth explain {uuid}` for the choice "
            "of hosts"
        )
        raise CommandError(reason)
    return found
