"""`berth aggregate`: named sets of hosts with metadata, through the compute API."""

from functools import partial
from operator import itemgetter

import click

from berth.cli.command import berth_group
from berth.cli.commands.server_actions import FORCES
from berth.cli.connection import ApiConnection, Json, connected, part, rows, segment, texts
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.name_errors import suggests_hosts, unknown_name
from berth.cli.output import (
    joined,
    json_option,
    print_deleted,
    print_fields,
    print_json,
)
from berth.cli.pairs import last_values, read_pairs

_PATH = "/v2.1/os-aggregates"

force_option = click.option(
    "--force",
    is_flag=True,
    help="Allow a host to leave an availability zone to which servers on it are bound.",
)


@berth_group("aggregate")
def aggregates() -> None:
    """Manage host aggregates. AGGREGATE is an id or a name."""


@aggregates.command("list")
@list_options
@connected
def list_aggregates(api: ApiConnection, *, options: ListOptions) -> None:
    """List aggregates, by name."""
    columns = (
        Column("ID", itemgetter("id"), is_number=True),
        Column("Name", itemgetter("name"), wraps=True),
        Column("Availability zone", lambda one: one.get("availability_zone"), wraps=True),
        Column("Hosts", lambda one: len(texts(one, "hosts")), is_number=True),
    )
    listing = Listing("aggregates", partial(_all, api), lambda _: columns, "no aggregates", "name")
    print_list(listing, options)


@aggregates.command("show")
@click.argument("aggregate")
@json_option
@connected
def show(api: ApiConnection, *, aggregate: str, as_json: bool) -> None:
    """Show an aggregate."""
    _print_aggregate(_find(api, aggregate), as_json=as_json)


@aggregates.command("create")
@click.argument("name")
@click.option("--az", help="Availability zone of the aggregate's hosts.")
@json_option
@connected
def create(api: ApiConnection, *, name: str, az: str | None, as_json: bool) -> None:
    """Create an aggregate named NAME."""
    body: Json = {"name": name}
    if az is not None:
        body["availability_zone"] = az
    _print_aggregate(api.post(_PATH, {"aggregate": body})["aggregate"], as_json=as_json)


@aggregates.command("set")
@click.argument("aggregate")
@click.option("--name", help="New name.")
@click.option("--az", help="New availability zone.")
@click.option(
    "--property", "pairs", multiple=True, callback=read_pairs, help="Set metadata KEY=VALUE."
)
@click.option("--unset", multiple=True, metavar="KEY", help="Remove the metadata KEY.")
@force_option
@json_option
@connected
def set_aggregate(
    api: ApiConnection,
    *,
    aggregate: str,
    name: str | None,
    az: str | None,
    pairs: dict[str, list[str]],
    unset: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Change the name, the availability zone or the metadata of an aggregate."""
    body = {"name": name, "availability_zone": az}
    body = {key: value for key, value in body.items() if value is not None}
    # The API removes a key whose value is null.
    metadata: dict[str, str | None] = {**last_values(pairs), **dict.fromkeys(unset)}
    if not body and not metadata:
        raise click.UsageError("nothing to change; give --name, --az, --property or --unset")
    found = _find(api, aggregate)
    path = f"{_PATH}/{found['id']}"
    if body:
        found = _ask(api, "PUT", path, {"aggregate": body}, force=force)
    if metadata:
        action = {"set_metadata": {"metadata": metadata}}
        found = _ask(api, "POST", f"{path}/action", action, force=force)
    _print_aggregate(found, as_json=as_json)


@aggregates.command("add-host")
@click.argument("aggregate")
@click.argument("host")
@force_option
@json_option
@connected
@suggests_hosts("host")
def add_host(api: ApiConnection, *, aggregate: str, host: str, force: bool, as_json: bool) -> None:
    """Add a host to an aggregate."""
    _act_on_host(api, aggregate, {"add_host": {"host": host}}, force=force, as_json=as_json)


@aggregates.command("remove-host")
@click.argument("aggregate")
@click.argument("host")
@force_option
@json_option
@connected
def remove_host(
    api: ApiConnection, *, aggregate: str, host: str, force: bool, as_json: bool
) -> None:
    """Remove a host from an aggregate."""
    _act_on_host(api, aggregate, {"remove_host": {"host": host}}, force=force, as_json=as_json)


@aggregates.command("delete")
@click.argument("aggregate")
@json_option
@connected
def delete(api: ApiConnection, *, aggregate: str, as_json: bool) -> None:
    """Delete an aggregate, which must have no hosts."""
    found = _find(api, aggregate)
    api.delete(f"{_PATH}/{found['id']}")
    print_deleted([{"id": found["id"], "name": found["name"]}], as_json=as_json)


def _act_on_host(
    api: ApiConnection, aggregate: str, action: Json, *, force: bool, as_json: bool
) -> None:
    path = f"{_PATH}/{segment(str(_find(api, aggregate)['id']))}/action"
    _print_aggregate(_ask(api, "POST", path, action, force=force), as_json=as_json)


def _ask(api: ApiConnection, method: str, path: str, body: Json, *, force: bool) -> Json:
    """Change an aggregate, and return it."""
    headers = FORCES if force else None
    return part(api.ask(method, path, body=body, headers=headers), "aggregate")


def _all(api: ApiConnection) -> list[Json]:
    return rows(api.get(_PATH), "aggregates")


def _find(api: ApiConnection, aggregate: str) -> Json:
    """Return the aggregate with the given id, uuid or name, in this order of precedence.

    Raises:
        CommandError: no aggregate matches.
    """
    known = _all(api)
    for key in ("id", "uuid", "name"):
        for one in known:
            if str(one.get(key)) == aggregate:
                return one
    names = (one["name"] for one in known)
    raise unknown_name("aggregate", aggregate, names, "berth aggregate list")


def _print_aggregate(aggregate: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(aggregate)
        return
    print_fields(
        {
            "id": aggregate["id"],
            "uuid": aggregate.get("uuid"),
            "name": aggregate["name"],
            "availability zone": aggregate.get("availability_zone"),
            "hosts": ", ".join(texts(aggregate, "hosts")) or None,
            "metadata": joined(part(aggregate, "metadata")),
        }
    )
