"""`berth group`: server groups, through the compute API."""

from functools import partial
from operator import itemgetter

import click

from berth.cli.command import OneOf, berth_group
from berth.cli.connection import ApiConnection, Json, connected, part, rows, segment, texts
from berth.cli.failures import CommandError, ExitCode
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.name_errors import unknown_name
from berth.cli.output import (
    json_option,
    print_deleted,
    print_fields,
    print_json,
)
from berth.domain.compute.server_group import GroupPolicy
from berth.domain.uuids import is_uuid

# The maximum number of items on a page of the service.
_PAGE_MAX = 1000
_PATH = "/v2.1/os-server-groups"
_MAX = "max_server_per_host"


@berth_group("group")
def groups() -> None:
    """Manage server groups."""


@groups.command("create")
@click.argument("name")
@click.option("--policy", type=OneOf([str(one) for one in GroupPolicy]), required=True)
@click.option(
    "--max-per-host",
    type=click.IntRange(1),
    help="Maximum number of servers per host, for anti-affinity; by default 1.",
)
@json_option
@connected
def create(
    api: ApiConnection, *, name: str, policy: str, max_per_host: int | None, as_json: bool
) -> None:
    """Create a server group named NAME."""
    body: Json = {"name": name, "policy": policy}
    if max_per_host is not None:
        body["rules"] = {_MAX: max_per_host}
    _print_group(api.post(_PATH, {"server_group": body})["server_group"], as_json=as_json)


@groups.command("list")
@click.option("--all", "all_projects", is_flag=True, help="List groups of all projects.")
@list_options
@connected
def list_groups(api: ApiConnection, *, all_projects: bool, options: ListOptions) -> None:
    """List server groups, by name."""
    columns = (
        Column("ID", itemgetter("id")),
        Column("Name", itemgetter("name"), wraps=True),
        Column("Policy", lambda one: one.get("policy")),
        Column("Members", lambda one: len(texts(one, "members")), is_number=True),
    )
    fetch = partial(_all, api, all_projects=all_projects)
    listing = Listing("server_groups", fetch, lambda _: columns, "no server groups", "name")
    print_list(listing, options)


@groups.command("show")
@click.argument("group")
@json_option
@connected
def show(api: ApiConnection, *, group: str, as_json: bool) -> None:
    """Show a server group, by uuid or name."""
    _print_group(find_group(api, group), as_json=as_json)


@groups.command("delete")
@click.argument("group")
@json_option
@connected
def delete(api: ApiConnection, *, group: str, as_json: bool) -> None:
    """Delete a server group, by uuid or name; its members keep running."""
    found = find_group(api, group)
    api.delete(f"{_PATH}/{segment(found['id'])}")
    print_deleted([{"id": found["id"], "name": found["name"]}], as_json=as_json)


def find_group(api: ApiConnection, group: str) -> Json:
    """Return the server group with the given uuid or name.

    Raises:
        CommandError: no group or several groups match.
    """
    if is_uuid(group):
        by_uuid: Json = api.get(f"{_PATH}/{segment(group)}")["server_group"]
        return by_uuid
    # Names are not unique, and an administrator may refer to another project's group. The API
    # ignores `all_projects` for other callers.
    known = _all(api, all_projects=True)
    named = [one for one in known if one["name"] == group]
    if not named:
        names = (one["name"] for one in known)
        raise unknown_name("server group", group, names, "berth group list")
    if len(named) > 1:
        reason = f"{len(named)} server groups are named {group!r}; give a uuid"
        raise CommandError(reason, ExitCode.USAGE)
    return named[0]


def _all(api: ApiConnection, *, all_projects: bool) -> list[Json]:
    everyone = "true" if all_projects else None
    found: list[Json] = []
    while True:
        page = rows(api.get(_PATH, all_projects=everyone, offset=len(found)), "server_groups")
        found += page
        # The service links no next page, since Nova does not.
        if len(page) < _PAGE_MAX:
            return found


def _print_group(group: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(group)
        return
    print_fields(
        {
            "id": group["id"],
            "name": group["name"],
            "policy": group.get("policy"),
            "max per host": part(group, "rules").get(_MAX),
            "members": ", ".join(texts(group, "members")) or None,
        }
    )
