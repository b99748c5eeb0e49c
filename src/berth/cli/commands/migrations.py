"""`berth migration`: migrations of servers between hosts."""

import click

from berth.cli.command import OneOf, berth_group
from berth.cli.connection import ApiConnection, Json, connected
from berth.cli.output import json_option, print_json, print_line, print_table
from berth.domain.compute.migration import STATUSES_SHOWN

_PATH = "/v2.1/os-migrations"


@berth_group("migration")
def migrations() -> None:
    """List migrations of servers."""


@migrations.command("list")
@click.option("--host", help="Only migrations from or to this host.")
@click.option("--server", help="Only migrations of the server with this uuid.")
@click.option(
    "--status",
    type=OneOf(STATUSES_SHOWN, case_sensitive=False),
    metavar="STATUS",
    help="Only migrations with this status, for example running.",
)
@click.option(
    "--type",
    "kind",
    type=OneOf(["resize", "migration", "live-migration", "evacuation"]),
    help="Only migrations of this type.",
)
@click.option("--since", help="Only migrations changed since this time (ISO 8601).")
@json_option
@connected
def list_migrations(
    api: ApiConnection,
    *,
    host: str | None,
    server: str | None,
    status: str | None,
    kind: str | None,
    since: str | None,
    as_json: bool,
) -> None:
    """List migrations of servers, newest first."""
    filters = {
        "host": host,
        "instance_uuid": server,
        "status": status,
        "migration_type": kind,
        "changes-since": since,
    }
    print_migrations(api.pages(_PATH, "migrations", "uuid", **filters), as_json=as_json)


def print_migrations(found: list[Json], *, as_json: bool) -> None:
    """Print migrations as a table, or as JSON."""
    if as_json:
        print_json({"migrations": found})
        return
    if not found:
        print_line("no migrations")
        return
    table = [
        (
            one["id"],
            one["instance_uuid"],
            one.get("migration_type"),
            one["status"],
            one["source_compute"],
            one["dest_compute"],
            one["updated_at"] or one["created_at"],
        )
        for one in found
    ]
    print_table(("ID", "Server", "Type", "Status", "From", "To", "Changed"), table)
