"""`berth host evacuate`: recreate all servers of a failed host on other hosts."""

import click

from berth.cli.command import berth_command
from berth.cli.commands.server_actions import ask_for, evacuation_headers, force_option
from berth.cli.connection import ApiConnection, Json, connected, rows
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.output import print_line
from berth.cli.server_finding import find_servers, timeout_option, wait_option
from berth.cli.waiting import count_text, settled_text, until_settled, wait_for


@berth_command("evacuate")
@click.argument("host")
@click.option("--to", help="Target host of all servers; by default the scheduler chooses.")
@click.option("--stopped", is_flag=True, help="Do not start the servers on their new hosts.")
@force_option
@wait_option
@timeout_option
@connected
def evacuate(
    api: ApiConnection,
    *,
    host: str,
    to: str | None,
    stopped: bool,
    force: bool,
    wait: bool,
    timeout_s: float,
) -> None:
    """Recreate all servers of HOST, which must be down, on other hosts.

    Prints a line for each server, and exits with 1 when any evacuation failed. Deleted servers that
    can still be restored are not evacuated, and count as failed.
    """
    _check_down(api, host)
    args = {"host": to} if to else {}
    asked: list[Json] = []
    servers = find_servers(api, host=host, all_tenants=1)
    kept = find_servers(api, host=host, all_tenants=1, status="SOFT_DELETED")
    failed = len(kept)
    for server in kept:
        _say(
            server,
            f"is deleted but kept on {host}; delete it with `berth server delete --force`, or set "
            "its state to error to evacuate it",
        )
    for server in servers:
        try:
            headers = evacuation_headers(stopped=stopped, force=force)
            ask_for(api, server["id"], "evacuate", args, headers)
        except CommandError as error:
            # One server that cannot be evacuated must not hold up the others. If the service is
            # unreachable, however, no request can succeed.
            failed += 1
            _say(server, str(error))
            if error.code is ExitCode.UNREACHABLE:
                break
            continue
        asked.append(server)
        if not wait:
            _say(server, "evacuation requested")
    if wait:
        failed += _await_evacuations(api, asked, timeout_s)
    if not asked and not failed:
        print_line(f"no servers on {host}")
    # The failures are already printed, so the exit code needs no further message.
    if failed:
        end_with(ExitCode.FAILED)


def _check_down(api: ApiConnection, host: str) -> None:
    """Check that a host is down.

    The API checks this for each server as well; one clear error is better than one per server.

    Raises:
        CommandError: the host has no compute service, or one that is up.
    """
    found = rows(api.get("/v2.1/os-services", host=host), "services")
    mine = next((one for one in found if one.get("host") == host), None)
    if mine is None:
        reason = f"no compute service on host {host!r}; see `berth service list`"
        raise CommandError(reason, ExitCode.NOT_FOUND)
    if mine.get("state") != "down":
        reason = (
            f"cannot evacuate {host}, because its service is up; if the host has failed "
            f"nevertheless, first mark it down with `berth service force-down {host}`"
        )
        raise CommandError(reason, ExitCode.CONFLICT)


def _await_evacuations(api: ApiConnection, asked: list[Json], timeout_s: float) -> int:
    """Wait for evacuations, print their outcomes, and return how many have failed."""
    # All evacuations run simultaneously, so the timeout is for all of them together.
    doing = f"evacuating {count_text(len(asked))}"
    outcomes = wait_for(asked, until_settled(api), doing=doing, timeout_s=timeout_s)
    for before, outcome in zip(asked, outcomes, strict=True):
        if outcome.error is not None or outcome.server is None:
            _say(before, str(outcome.error))
        else:
            _say(before, settled_text(outcome.server))
    return sum(one.error is not None for one in outcomes)


def _say(server: Json, text: str) -> None:
    print_line(f"{server['id']} {server.get('name')}: {text}")
