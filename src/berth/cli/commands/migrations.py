"""`berth migration`: migrations of servers between hosts."""

from functools import partial
from operator import itemgetter

import click

from berth.cli.command import OneOf, berth_group
from berth.cli.connection import ApiConnection, connected
from berth.cli.listing import (
    Column,
    Listing,
    ListOptions,
    age_column,
    list_options,
    print_list,
)
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
@list_options
@connected
def list_migrations(
    api: ApiConnection,
    *,
    host: str | None,
    server: str | None,
    status: str | None,
    kind: str | None,
    since: str | None,
    options: ListOptions,
) -> None:
    """List migrations of servers, newest first."""
    filters = {
        "host": host,
        "instance_uuid": server,
        "status": status,
        "migration_type": kind,
        "changes-since": since,
    }
    print_list(migration_list(api, **filters), options)


def migration_list(api: ApiConnection, **filters: object) -> Listing:
    """Return the list of the migrations that match filters of the API, newest first."""
    fetch = partial(api.pages, _PATH, "migrations", "uuid", **filters)
    return Listing("migrations", fetch, lambda _: _COLUMNS, "no migrations")


_COLUMNS = (
    Column("ID", itemgetter("id")),
    Column("Server", itemgetter("instance_uuid")),
    Column("Type", lambda one: one.get("migration_type")),
    Column("Status", itemgetter("status")),
    Column("From", itemgetter("source_compute")),
    Column("To", itemgetter("dest_compute")),
    Column("Changed", lambda one: one["updated_at"] or one["created_at"]),
    age_column("created_at"),
)
