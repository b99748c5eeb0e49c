"""`berth host drain`, `maintain`, `resume` and `maintenance`: work on hosts that are up."""

import time
from operator import itemgetter

import click

from berth.cli.command import OneOf, berth_command
from berth.cli.connection import ApiConnection, Json, connected, part, rows
from berth.cli.drain_progress import follow, server_text, summary
from berth.cli.failures import ExitCode, end_with
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.moments import FORM, moment_s, moment_text
from berth.cli.name_errors import suggests_hosts
from berth.cli.output import json_option, print_fields, print_json, print_line, print_table
from berth.domain.compute.maintenance import PARALLEL_MAX

_LEFT = ("blocked", "failed", "waiting")
# The exit code of a command that Ctrl-C ended, as in shells.
_INTERRUPTED = 130

_reason_option = click.option("--reason", help="Reason, stored with the disabled service.")


@berth_command("drain")
@click.argument("host")
@click.option(
    "--migrate",
    type=OneOf(["live", "cold", "shelve"]),
    default="live",
    show_default=True,
    help="How servers that run are moved. With live, servers that are off are moved cold.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, PARALLEL_MAX),
    default=1,
    show_default=True,
    help="Number of servers that move at once.",
)
@click.option("--deadline", metavar="T", help=f"Begin no move after T: {FORM}.")
@click.option("--include-locked", is_flag=True, help="Move locked servers as well.")
@_reason_option
@click.option("--dry-run", is_flag=True, help="Only show the plan, and what would not fit and why.")
@click.option("--stop", is_flag=True, help="Stop the drain; moves in progress end.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Show the progress.")
@json_option
@connected
@suggests_hosts("host")
def drain(
    api: ApiConnection,
    *,
    host: str,
    migrate: str,
    parallel: int,
    deadline: str | None,
    include_locked: bool,
    reason: str | None,
    dry_run: bool,
    stop: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Disable HOST, and move its servers to other hosts.

    All destinations are chosen together. The schedulers carry the drain out, so Ctrl-C only ends
    the display. A stopped or ended drain continues when the command is repeated. Exits with 1 if
    servers are left.
    """
    drains = api.berth.drains
    if dry_run:
        plan = drains.plan.document(host, migrate=migrate, moves_locked=include_locked)
        _print_plan(plan, as_json=as_json)
        return
    if stop:
        _print_outcome(drains.stop.document(host), as_json=as_json)
        return
    begun = drains.start.document(
        host,
        migrate=migrate,
        parallel=parallel,
        deadline_s=None if deadline is None else moment_s(deadline, "--deadline", time.time()),
        moves_locked=include_locked,
        reason=reason,
    )
    if not wait:
        _print_outcome(begun, as_json=as_json)
        return
    found = _followed(api, host, as_json=as_json)
    _print_outcome(found, as_json=as_json)
    if part(found, "drain").get("state") != "drained":
        end_with(ExitCode.FAILED)


def _followed(api: ApiConnection, host: str, *, as_json: bool) -> Json:
    """Wait for the end of a drain, and return the maintenance; Ctrl-C ends the command."""
    try:
        return follow(api, host, quiet=as_json)
    except KeyboardInterrupt:
        click.echo(
            f"\nThe drain of {host} goes on. `berth host maintenance {host}` shows it, "
            f"`berth host drain {host} --stop` stops it.",
            err=True,
        )
        raise click.exceptions.Exit(_INTERRUPTED) from None


@berth_command("maintain")
@click.argument("host")
@click.option("--until", metavar="T", help=f"Enable the host again at T: {FORM}.")
@_reason_option
@json_option
@connected
@suggests_hosts("host")
def maintain(
    api: ApiConnection, *, host: str, until: str | None, reason: str | None, as_json: bool
) -> None:
    """Keep HOST disabled until a time, or until `berth host resume`; its servers stay.

    At the time the host gets back the state that it had before. A drain of the host is not
    affected, but ends with the maintenance.
    """
    until_s = None if until is None else moment_s(until, "--until", time.time())
    begun = api.berth.maintenance.begin.document(host, until_s=until_s, reason=reason)
    _print_outcome(begun, as_json=as_json)


@berth_command("resume")
@click.argument("host")
@json_option
@connected
@suggests_hosts("host")
def resume(api: ApiConnection, *, host: str, as_json: bool) -> None:
    """Enable HOST again, and end its maintenance and its drain.

    Moves in progress end as they would have. Servers that have moved stay where they are.
    """
    api.berth.maintenance.end(host)
    if as_json:
        print_json({"host": host, "status": "enabled"})
    else:
        print_line(f"{host} is enabled")


@berth_command("maintenance")
@click.argument("host", required=False)
@list_options
@connected
@suggests_hosts("host")
def show_maintenance(api: ApiConnection, *, host: str | None, options: ListOptions) -> None:
    """Show the maintenance of HOST with its drain, or list all hosts in maintenance."""
    if host is None:
        print_list(_maintenances(api), options)
        return
    if options.watch_s is not None or options.sort is not None:
        raise click.UsageError(
            "--watch and --sort are for the list; omit HOST, or follow the drain of a host with "
            f"`berth host drain {host}`"
        )
    found = api.berth.maintenance.get.document(host)
    if options.as_json:
        print_json(found)
    else:
        _print_one(found)


def _maintenances(api: ApiConnection) -> Listing:
    columns = (
        Column("Host", itemgetter("host")),
        Column("Reason", itemgetter("reason"), wraps=True),
        Column("Until", lambda one: moment_text(one["until_s"])),
        Column("Drain", lambda one: part(one, "drain").get("state")),
        Column("Servers", lambda one: summary(part(one, "drain")) if one["drain"] else None),
    )
    return Listing(
        "maintenances",
        lambda: rows(api.berth.maintenance.list.document(), "maintenances"),
        lambda _: columns,
        "no host is in maintenance",
        order="host",
    )


def _print_one(found: Json) -> None:
    drain = part(found, "drain")
    fields: Json = {
        "host": found["host"],
        "reason": found["reason"],
        "until": moment_text(found["until_s"]),
    }
    if drain:
        fields |= {
            "drain": drain["state"],
            "message": drain["message"] or None,
            "migrate": drain["migrate"],
            "parallel": drain["parallel"],
            "deadline": moment_text(drain["deadline_s"]),
            "servers": summary(drain),
        }
    print_fields(fields)
    servers = rows(drain, "servers") if drain else []
    if servers:
        _print_servers(servers)


def _print_servers(servers: list[Json]) -> None:
    table = [
        (
            one["name"],
            one["instance_uuid"],
            one["state"],
            one["method"],
            one["destination"],
            one["attempts"],
            one["request_id"],
            one["reason"],
        )
        for one in servers
    ]
    columns = ("Server", "ID", "State", "Method", "To", "Failures", "Request", "Reason")
    print_table(columns, table, title="Servers", right=("Failures",), wrap=("Reason",))


def _print_plan(plan: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    for server in rows(plan, "servers"):
        print_line(f"{server['instance_uuid']} {server['name']}: {server_text(server)}")
    print_line(f"{plan['fits']} of {plan['total']} servers would leave {plan['host']}")


def _print_outcome(found: Json, *, as_json: bool) -> None:
    """Print the state of a maintenance, and the servers that are left with their reasons."""
    if as_json:
        print_json(found)
        return
    host, drain = found["host"], part(found, "drain")
    until = moment_text(found["until_s"])
    if not drain:
        print_line(f"{host} is disabled " + (f"until {until}" if until else "until it is resumed"))
        return
    message = f" ({drain['message']})" if drain["message"] else ""
    print_line(f"{host}: drain {drain['state']}{message}; {summary(drain)}")
    for server in rows(drain, "servers"):
        if server["state"] in _LEFT and server["reason"]:
            why = f"; see `berth explain {server['request_id']}`" if server["request_id"] else ""
            print_line(f"  {server['instance_uuid']} {server['name']}: {server_text(server)}{why}")
