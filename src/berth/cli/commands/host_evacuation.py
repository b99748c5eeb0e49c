"""`berth host evacuate`: all servers of a host that is down are made anew elsewhere."""

import time

import click

from berth.cli.commands.server_actions import KEEPS_POWER, ask_for
from berth.cli.connection import ApiConnection, Json, connected, rows
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.output import print_line
from berth.cli.server_finding import (
    HOST,
    find_servers,
    timeout_option,
    wait_option,
    wait_settled,
)


@click.command("evacuate")
@click.argument("host")
@click.option("--to", help="The one host for all; the scheduler spreads them otherwise.")
@click.option("--stopped", is_flag=True, help="Leave them off there.")
@wait_option
@timeout_option
@connected
def evacuate(
    api: ApiConnection, *, host: str, to: str | None, stopped: bool, wait: bool, timeout_s: float
) -> None:
    """Make all servers of HOST anew on other hosts, since it is down.

    Says a line for each of them, and ends with 1 when that of one did not go well.
    """
    _check_down(api, host)
    args = {"host": to} if to else {}
    asked: list[Json] = []
    failed = 0
    for server in find_servers(api, host=host, all_tenants=1):
        try:
            ask_for(api, server["id"], "evacuate", args, None if stopped else KEEPS_POWER)
        except CommandError as error:
            failed += 1
            _say(server, str(error))
            if error.code is ExitCode.UNREACHABLE:
                break
            continue
        asked.append(server)
        if not wait:
            _say(server, "is evacuated")
    ends_s = time.monotonic() + timeout_s
    for server in asked if wait else ():
        failed += not _has_left(api, server, ends_s)
    if not asked and not failed:
        print_line(f"no servers on {host}")
    if failed:
        end_with(ExitCode.FAILED)


def _check_down(api: ApiConnection, host: str) -> None:
    """Refuse to evacuate a host that lives.

    Raises:
        CommandError: it has no compute service, or one that is up.
    """
    found = rows(api.get("/v2.1/os-services", host=host), "services")
    mine = next((one for one in found if one.get("host") == host), None)
    if mine is None:
        reason = f"no compute service on host {host!r}; see `berth service list`"
        raise CommandError(reason, ExitCode.NOT_FOUND)
    if mine.get("state") != "down":
        reason = (
            f"the service of {host} is up; if the host is dead all the same, say so first with "
            f"`berth service force-down {host}`"
        )
        raise CommandError(reason, ExitCode.CONFLICT)


def _has_left(api: ApiConnection, server: Json, ends_s: float) -> bool:
    """Wait until a server is elsewhere, and say where, or why it is not."""
    try:
        now = wait_settled(api, server["id"], ends_s)
    except CommandError as error:
        _say(server, str(error))
        return False
    _say(server, f"is {now['status']} on {now.get(HOST)}")
    return True


def _say(server: Json, text: str) -> None:
    print_line(f"{server['id']} {server.get('name')}: {text}")
