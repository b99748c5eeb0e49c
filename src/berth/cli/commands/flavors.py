"""`berth flavor`: sizes of servers, through the compute API."""

from functools import partial
from operator import itemgetter

import click

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, Json, connected, part, segment
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.name_errors import unknown_name
from berth.cli.output import (
    joined,
    json_option,
    print_deleted,
    print_fields,
    print_json,
)
from berth.cli.pairs import last_values, read_pairs

_PATH = "/v2.1/flavors"
_EPHEMERAL = "OS-FLV-EXT-DATA:ephemeral"
_PUBLIC = "os-flavor-access:is_public"

property_option = click.option(
    "--property", "specs", multiple=True, callback=read_pairs, help="Extra spec KEY=VALUE."
)


@berth_group("flavor")
def flavors() -> None:
    """Manage flavors."""


@flavors.command("create")
@click.argument("name")
@click.option("--vcpus", type=click.IntRange(0), required=True)
@click.option("--memory-mb", type=click.IntRange(0), required=True)
@click.option("--disk-gb", type=click.IntRange(0), default=0, show_default=True)
@click.option("--ephemeral-gb", type=click.IntRange(0), default=0)
@click.option("--swap-mb", type=click.IntRange(0), default=0)
@click.option("--id", "flavor_id", help="Id of the flavor; generated if omitted.")
@click.option("--description", help="Description of the flavor.")
@click.option("--private", is_flag=True, help="Hide the flavor from other projects.")
@property_option
@json_option
@connected
def create(
    api: ApiConnection,
    *,
    name: str,
    vcpus: int,
    memory_mb: int,
    disk_gb: int,
    ephemeral_gb: int,
    swap_mb: int,
    flavor_id: str | None,
    description: str | None,
    private: bool,
    specs: dict[str, list[str]],
    as_json: bool,
) -> None:
    """Create a flavor named NAME."""
    body: Json = {"name": name, "vcpus": vcpus, "ram": memory_mb, "disk": disk_gb}
    body |= {_EPHEMERAL: ephemeral_gb, "swap": swap_mb, _PUBLIC: not private}
    if flavor_id is not None:
        body["id"] = flavor_id
    if description is not None:
        body["description"] = description
    made: Json = api.post(_PATH, {"flavor": body})["flavor"]
    # The API creates a flavor without extra specs; these need a second request.
    if specs:
        made["extra_specs"] = _add_specs(api, made["id"], specs)
    _print_flavor(made, as_json=as_json)


@flavors.command("list")
@list_options
@connected
def list_flavors(api: ApiConnection, *, options: ListOptions) -> None:
    """List flavors, by name."""
    columns = (
        Column("ID", itemgetter("id")),
        Column("Name", itemgetter("name"), wraps=True),
        Column("VCPUs", itemgetter("vcpus"), is_number=True),
        Column("Memory MB", itemgetter("ram"), is_number=True),
        Column("Disk GB", itemgetter("disk"), is_number=True),
        Column("Properties", _specs, wraps=True),
    )
    empty = "no flavors; create one with `berth flavor create`"
    print_list(Listing("flavors", partial(_all, api), lambda _: columns, empty, "name"), options)


@flavors.command("show")
@click.argument("flavor")
@json_option
@connected
def show(api: ApiConnection, *, flavor: str, as_json: bool) -> None:
    """Show a flavor, by id or name."""
    _print_flavor(find_flavor(api, flavor), as_json=as_json)


@flavors.command("delete")
@click.argument("flavor")
@json_option
@connected
def delete(api: ApiConnection, *, flavor: str, as_json: bool) -> None:
    """Delete a flavor, by id or name; existing servers keep it."""
    found = find_flavor(api, flavor)
    api.delete(f"{_PATH}/{segment(found['id'])}")
    print_deleted([{"id": found["id"], "name": found["name"]}], as_json=as_json)


@flavors.command("set")
@click.argument("flavor")
@property_option
@click.option("--unset", multiple=True, help="Remove the extra spec KEY.", metavar="KEY")
@json_option
@connected
def set_properties(
    api: ApiConnection,
    *,
    flavor: str,
    specs: dict[str, list[str]],
    unset: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set or remove extra specs of a flavor; existing servers are not affected."""
    if not specs and not unset:
        raise click.UsageError("nothing to change; give --property KEY=VALUE or --unset KEY")
    flavor_id = find_flavor(api, flavor)["id"]
    if specs:
        _add_specs(api, flavor_id, specs)
    for key in unset:
        api.delete(f"{_PATH}/{segment(flavor_id)}/os-extra_specs/{segment(key)}")
    _print_flavor(find_flavor(api, flavor_id), as_json=as_json)


def find_flavor(api: ApiConnection, flavor: str) -> Json:
    """Return the flavor whose id or, if no flavor has that id, whose name is `flavor`.

    Raises:
        CommandError: no flavor matches.
    """
    # "" and "detail" would address the list instead of one flavor.
    found = api.find(f"{_PATH}/{segment(flavor)}") if flavor not in ("", "detail") else None
    if found is not None:
        by_id: Json = found["flavor"]
        return by_id
    known = _all(api)
    for one in known:
        if one["name"] == flavor:
            return one
    raise unknown_name("flavor", flavor, (one["name"] for one in known), "berth flavor list")


def _all(api: ApiConnection) -> list[Json]:
    # Nova's literal "None" selects public and private flavors; administrators get both.
    return api.pages(f"{_PATH}/detail", "flavors", is_public="None")


def _add_specs(api: ApiConnection, flavor_id: str, specs: dict[str, list[str]]) -> object:
    path = f"{_PATH}/{segment(flavor_id)}/os-extra_specs"
    return api.post(path, {"extra_specs": last_values(specs)})["extra_specs"]


def _specs(flavor: Json) -> str:
    return joined(part(flavor, "extra_specs"))


def _print_flavor(flavor: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(flavor)
        return
    print_fields(
        {
            "id": flavor["id"],
            "name": flavor["name"],
            "vcpus": flavor["vcpus"],
            "memory MB": flavor["ram"],
            "disk GB": flavor["disk"],
            "ephemeral GB": flavor.get(_EPHEMERAL),
            "swap MB": flavor.get("swap") or 0,
            "public": flavor.get(_PUBLIC),
            "description": flavor.get("description"),
            "properties": _specs(flavor),
        }
    )
