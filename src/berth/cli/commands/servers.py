"""`berth server`: servers, through the compute API."""

import base64
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

import click

from berth.cli.command import OneOf, berth_group
from berth.cli.commands.decisions import try_out
from berth.cli.commands.flavors import find_flavor
from berth.cli.commands.images import server_backup, server_image
from berth.cli.commands.server_actions import ACTIONS, ask_for
from berth.cli.connection import ApiConnection, Json, connected, part, segment
from berth.cli.creation_summary import ROWS_MAX, check_built, print_summary
from berth.cli.listing import (
    Column,
    Listing,
    ListOptions,
    age_column,
    list_options,
    print_items,
    print_list,
)
from berth.cli.output import (
    json_option,
    print_deleted,
    print_fields,
    print_json,
)
from berth.cli.pairs import read_pairs
from berth.cli.server_finding import (
    HOST,
    PATH,
    find_server,
    find_servers,
    timeout_option,
    wait_option,
)
from berth.cli.waiting import (
    Outcome,
    count_text,
    end_with_errors,
    outcome_documents,
    until_built,
    until_deleted,
    wait_for,
)
from berth.domain.compute.lifecycle import STATUSES_SHOWN
from berth.domain.compute.quota import FILE_BYTES_MAX

_ZONE = "OS-EXT-AZ:availability_zone"
_INJECTS = {"OpenStack-API-Version": "compute 2.56"}
"""Header for the newest microversion in which files can be injected into a server."""


@berth_group("server")
def servers() -> None:
    """Create, list, show, change and delete servers."""


for _command in (*ACTIONS, server_image, server_backup):
    servers.add_command(_command)


@servers.command("create")
@click.argument("name")
@click.option("--flavor", required=True, help="Id or name of the flavor.")
@click.option("--image", help="Id of the image.")
@click.option("--count", type=click.IntRange(1), help="Number of servers; all or none are created.")
@click.option("--min", "count_min", type=click.IntRange(1), help="Minimum number of servers.")
@click.option("--max", "count_max", type=click.IntRange(1), help="Maximum number of servers.")
@click.option("--az", help="Availability zone; ZONE:HOST forces a host.")
@click.option("--hint", "hints", multiple=True, callback=read_pairs, help="Scheduler hint K=V.")
@click.option("--group", help="Server group: uuid or name.")
@click.option(
    "--file",
    "files",
    multiple=True,
    callback=read_pairs,
    help="PATH=FILE puts a file of this machine on the config drive, for PATH in the guest.",
)
@click.option("--key", help="Idempotency key; repeating the command with it creates nothing more.")
@click.option("--dry-run", is_flag=True, help="Only decide and explain, without creating servers.")
@wait_option
@timeout_option
@json_option
@connected
def create(
    api: ApiConnection,
    *,
    name: str,
    flavor: str,
    image: str | None,
    count: int | None,
    count_min: int | None,
    count_max: int | None,
    az: str | None,
    hints: dict[str, list[str]],
    group: str | None,
    files: dict[str, list[str]],
    key: str | None,
    dry_run: bool,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Create one or more servers named NAME.

    Exits with 3 when no host has room for them, and with 1 when one is in ERROR for another
    reason.
    """
    least, most = _counts(count, count_min, count_max)
    if dry_run and wait:
        raise click.UsageError("--dry-run creates no servers to wait for; omit --wait")
    # The API requires `networks` from microversion 2.37 on.
    server: Json = {"name": name, "flavorRef": find_flavor(api, flavor)["id"], "networks": "none"}
    # The response to a create names one server only; the reservation id finds all of them.
    server |= {"min_count": least, "max_count": most, "return_reservation_id": most > 1}
    if image is not None:
        server["imageRef"] = image
    if az is not None:
        server["availability_zone"] = az
    if group is not None:
        hints = {**hints, "group": [_group_uuid(api, group)]}
    body: Json = {"server": server, "os:scheduler_hints": _scalars(hints)}
    headers = {} if key is None else {"Idempotency-Key": key}
    if files:
        server["personality"] = _files(files)
        headers |= _INJECTS
    if dry_run:
        try_out(api, body, key, as_json=as_json)
        return
    answer = api.ask("POST", PATH, body=body, headers=headers)
    _show_created(api, _made(api, answer), timeout_s if wait else None, as_json=as_json)


def _show_created(
    api: ApiConnection, made: list[Json], timeout_s: float | None, *, as_json: bool
) -> None:
    """Print new servers, once they are built unless `timeout_s` is None; see `check_built`."""
    outcomes: list[Outcome] = []
    if timeout_s is not None:
        doing = f"building {count_text(len(made))}"
        outcomes = wait_for(made, until_built(api), doing=doing, timeout_s=timeout_s, quiet=as_json)
        made = [one.server for one in outcomes if one.server is not None]
    if as_json:
        print_json({"servers": made})
    elif len(made) > ROWS_MAX:
        print_summary(api, made)
    else:
        print_items(made, _columns(made))
    check_built(api, made)
    end_with_errors(outcomes)


def _counts(count: int | None, count_min: int | None, count_max: int | None) -> tuple[int, int]:
    """Return the minimum and maximum number of servers.

    Raises:
        UsageError: the options contradict each other.
    """
    if count is not None and (count_min is not None or count_max is not None):
        raise click.UsageError("give --count, or --min and --max, not both")
    # As in the compute API, --min alone also sets the maximum, and --max alone keeps the minimum 1.
    least, most = count_min or count or 1, count_max or count or count_min or 1
    if least > most:
        raise click.UsageError(f"--min {least} must not be above --max {most}")
    return least, most


def _files(files: dict[str, list[str]]) -> list[Json]:
    """Return the files to inject; for a path that is given several times, the last file counts.

    Raises:
        UsageError: see `_contents`.
    """
    return [{"path": path, "contents": _contents(names[-1])} for path, names in files.items()]


def _contents(name: str) -> str:
    """Return the contents of a file in base64.

    Raises:
        UsageError: the file cannot be read, or is larger than any quota allows.
    """
    try:
        with Path(name).open("rb") as file:
            contents = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}") from error
    if len(contents) > FILE_BYTES_MAX:
        raise click.UsageError(f"{name} is larger than {FILE_BYTES_MAX} bytes; use an image")
    return base64.b64encode(contents).decode()


@servers.command("list")
@click.option("--host", help="Only servers on this host.")
@click.option(
    "--status",
    type=OneOf((*STATUSES_SHOWN, "DELETED"), case_sensitive=False),
    metavar="STATUS",
    help="Only servers with this status, for example ACTIVE.",
)
@click.option("--reservation-id", help="Only servers of one request.")
@click.option("--name", help="Only servers whose name matches this regular expression.")
@click.option("--all", "all_projects", is_flag=True, help="List servers of all projects.")
@list_options
@connected
def list_servers(
    api: ApiConnection,
    *,
    host: str | None,
    status: str | None,
    reservation_id: str | None,
    name: str | None,
    all_projects: bool,
    options: ListOptions,
) -> None:
    """List servers, newest first."""
    fetch = partial(
        find_servers,
        api,
        host=host,
        status=status,
        reservation_id=reservation_id,
        name=name,
        all_tenants=1 if all_projects else None,
    )
    print_list(Listing("servers", fetch, _columns, "no servers"), options)


@servers.command("show")
@click.argument("server")
@json_option
@connected
def show(api: ApiConnection, *, server: str, as_json: bool) -> None:
    """Show a server, by uuid or name."""
    found = find_server(api, server)
    if as_json:
        print_json(found)
        return
    fields: Json = {
        "id": found["id"],
        "name": found.get("name"),
        "status": found.get("status"),
        "task": found.get("OS-EXT-STS:task_state"),
        "host": found.get(HOST),
        "availability zone": found.get(_ZONE),
        "flavor": _flavor_name(found),
        "reservation": found.get("OS-EXT-SRV-ATTR:reservation_id"),
        "created": found.get("created"),
    }
    if found.get("fault"):
        fields["fault"] = part(found, "fault").get("message")
    print_fields(fields)


@servers.command("delete")
@click.argument("server", nargs=-1, required=True)
@click.option(
    "--force",
    is_flag=True,
    help="Delete the servers for good, even if deleted servers can be restored for a while.",
)
@wait_option
@timeout_option
@json_option
@connected
def delete(
    api: ApiConnection,
    *,
    server: Sequence[str],
    force: bool,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Delete servers; with --wait, return when they are deleted or kept to be restored."""
    # All names are resolved first, so that a misspelt one stops the command before any deletion.
    found = [find_server(api, one, deleted_too=force) for one in server]
    for uuid in [one["id"] for one in found]:
        if force:
            ask_for(api, uuid, "forceDelete")
        else:
            api.delete(f"{PATH}/{segment(uuid)}")
    outcomes: list[Outcome] = []
    if wait:
        look = until_deleted(api, for_good=force)
        doing = f"deleting {count_text(len(found))}"
        outcomes = wait_for(found, look, doing=doing, timeout_s=timeout_s, quiet=as_json)
    ended = outcome_documents(found, outcomes) if wait else found
    keys = ("id", "name", "error")
    print_deleted([{key: one[key] for key in keys if key in one} for one in ended], as_json=as_json)
    end_with_errors(outcomes)


def _group_uuid(api: ApiConnection, group: str) -> str:
    from berth.cli.commands.server_groups import find_group  # noqa: PLC0415 - only for --group

    uuid: str = find_group(api, group)["id"]
    return uuid


def _scalars(hints: dict[str, list[str]]) -> dict[str, str | list[str]]:
    # Some hints of the API accept a single string only.
    return {key: values[0] if len(values) == 1 else values for key, values in hints.items()}


def _made(api: ApiConnection, answer: Json) -> list[Json]:
    """Return the servers that a create request has created."""
    reservation_id = answer.get("reservation_id")
    if reservation_id is not None:
        return find_servers(api, reservation_id=reservation_id)
    return [api.get(f"{PATH}/{segment(answer['server']['id'])}")["server"]]


def _flavor_name(server: Json) -> object:
    flavor = part(server, "flavor")
    return flavor.get("original_name") or flavor.get("id")


def _columns(_: Sequence[Json]) -> Sequence[Column]:
    return (
        Column("ID", itemgetter("id")),
        Column("Name", lambda one: one.get("name"), wraps=True),
        Column("Status", lambda one: one.get("status")),
        Column("Host", lambda one: one.get(HOST)),
        Column("Zone", lambda one: one.get(_ZONE)),
        Column("Flavor", _flavor_name),
        age_column("created"),
    )
