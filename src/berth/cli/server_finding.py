"""Lookup of servers by uuid or name, and the options of commands that wait for them."""

import re

import click

from berth.cli.connection import ApiConnection, Json, rows, segment
from berth.cli.failures import CommandError, ExitCode
from berth.cli.name_errors import unknown_name
from berth.domain.uuids import is_uuid

PATH = "/v2.1/servers"
HOST = "OS-EXT-SRV-ATTR:host"
TASK = "OS-EXT-STS:task_state"

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
        # One page has the newest servers, which are the ones that users mean most often.
        known = rows(api.get(PATH), "servers")
        names = (one.get("name") for one in known)
        raise unknown_name("server", server, names, "berth server list", " in your project")
    if len(named) > 1:
        reason = f"{len(named)} servers are named {server!r}; give a uuid"
        raise CommandError(reason, ExitCode.USAGE)
    return named[0]
