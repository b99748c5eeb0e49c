"""`berth host evacuate`: recreate all servers of a failed host on other hosts."""

import click

from berth.cli.command import berth_command
from berth.cli.commands.server_actions import ask_for, evacuation_headers, force_option
from berth.cli.connection import ApiConnection, Json, connected, rows
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.name_errors import unknown_name
from berth.cli.output import json_option, print_json, print_line
from berth.cli.server_finding import find_servers, timeout_option, wait_option
from berth.cli.waiting import count_text, settled_text, until_settled, wait_for


@berth_command("evacuate")
@click.argument("host")
@click.option("--to", help="Target host of all servers; by default the scheduler chooses.")
@click.option("--stopped", is_flag=True, help="Do not start the servers on their new hosts.")
@force_option
@wait_option
@timeout_option
@json_option
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
    as_json: bool,
) -> None:
    """Recreate all servers of HOST, which must be down, on other hosts.

    Prints a line for each server, and exits with 1 when any evacuation failed. Deleted servers that
    can still be restored are not evacuated, and count as failed.
    """
    _check_down(api, host)
    report = _Report(as_json=as_json)
    servers = find_servers(api, host=host, all_tenants=1)
    for server in find_servers(api, host=host, all_tenants=1, status="SOFT_DELETED"):
        report.fail(
            server,
            f"is deleted but kept on {host}; delete it with `berth server delete --force`, or set "
            "its state to error to evacuate it",
        )
    headers = evacuation_headers(stopped=stopped, force=force)
    asked = _ask_all(api, servers, {"host": to} if to else {}, headers, report)
    if wait:
        _await_evacuations(api, asked, timeout_s, report)
    else:
        for server in asked:
            report.say(server, "evacuation requested")
    report.end(host)


class _Report:
    """Prints a line for each server, or with `--json` one object with all of them at the end."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._failed = 0
        self._servers: list[Json] = []

    def say(self, server: Json, text: str) -> None:
        """Report a server, with its status if it is not evacuated yet."""
        self._servers.append(server)
        if not self.as_json:
            print_line(f"{server['id']} {server.get('name')}: {text}")

    def fail(self, server: Json, text: str) -> None:
        """Report a server that is not evacuated."""
        self._failed += 1
        self.say({**server, "error": text}, text)

    def end(self, host: str) -> None:
        """Print what is left to print, and exit with 1 if a server was not evacuated."""
        if self.as_json:
            print_json({"host": host, "servers": self._servers})
        elif not self._servers:
            print_line(f"no servers on {host}")
        # The failures are already printed, so the exit code needs no further message.
        if self._failed:
            end_with(ExitCode.FAILED)


def _ask_all(
    api: ApiConnection, servers: list[Json], args: Json, headers: dict[str, str], report: _Report
) -> list[Json]:
    """Request the evacuation of servers, and return those for which it was accepted."""
    asked: list[Json] = []
    for server in servers:
        try:
            ask_for(api, server["id"], "evacuate", args, headers)
        except CommandError as error:
            # One server that cannot be evacuated must not hold up the others. If the service is
            # unreachable, however, no request can succeed.
            report.fail(server, str(error))
            if error.code is ExitCode.UNREACHABLE:
                break
            continue
        asked.append(server)
    return asked


def _check_down(api: ApiConnection, host: str) -> None:
    """Check that a host is down.

    The API checks this for each server as well; one clear error is better than one per server.

    Raises:
        CommandError: the host has no compute service, or one that is up.
    """
    found = rows(api.get("/v2.1/os-services", host=host), "services")
    mine = next((one for one in found if one.get("host") == host), None)
    if mine is None:
        names = (one.get("host") for one in rows(api.get("/v2.1/os-services"), "services"))
        raise unknown_name("compute service on host", host, names, "berth service list")
    if mine.get("state") != "down":
        reason = (
            f"cannot evacuate {host}, because its service is up; if the host has failed "
            f"nevertheless, first mark it down with `berth service force-down {host}`"
        )
        raise CommandError(reason, ExitCode.CONFLICT)


def _await_evacuations(
    api: ApiConnection, asked: list[Json], timeout_s: float, report: _Report
) -> None:
    """Wait for evacuations, and report their outcomes."""
    # All evacuations run simultaneously, so the timeout is for all of them together.
    doing = f"evacuating {count_text(len(asked))}"
    look = until_settled(api)
    outcomes = wait_for(asked, look, doing=doing, timeout_s=timeout_s, quiet=report.as_json)
    for before, outcome in zip(asked, outcomes, strict=True):
        if outcome.error is not None or outcome.server is None:
            report.fail(outcome.server or before, str(outcome.error))
        else:
            report.say(outcome.server, settled_text(outcome.server))
