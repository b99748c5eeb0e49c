"""`berth zone`: child zones, through the API between zones."""

from collections.abc import Callable
from math import isfinite
from operator import itemgetter
from typing import TypeVar

import click

from berth.cli.command import berth_group
from berth.cli.commands.zone_account import account_options, password_of
from berth.cli.commands.zone_keys import keys, parents
from berth.cli.connection import ApiConnection, Json, connected, rows
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.name_errors import unknown_name
from berth.cli.output import (
    joined,
    json_option,
    print_deleted,
    print_fields,
    print_json,
    print_line,
)

F = TypeVar("F", bound=Callable[..., object])

_PATH = "/zones"


def _read_weight(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """Return the value of a weight option; refuse NaN and infinities, which JSON does not have."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} must be a finite number")
    return value


def _weights(command: F) -> F:
    """Add the options that convert a child zone's weights to this zone's scale."""
    scale = click.option(
        "--weight-scale",
        type=float,
        callback=_read_weight,
        help="Factor by which the zone's weights are multiplied; initially 1.",
    )
    offset = click.option(
        "--weight-offset",
        type=float,
        callback=_read_weight,
        help="Number that is added to the zone's weights; initially 0.",
    )
    return offset(scale(command))


@berth_group("zone")
def zones() -> None:
    """Manage child zones, and keys between zones. ZONE is a name or an id."""


zones.add_command(keys)
zones.add_command(parents)


@zones.command("add")
@click.argument("name")
@click.argument("api_url")
@account_options
@_weights
@click.option("--disable", is_flag=True, help="Send the zone no requests yet.")
@json_option
@connected
def add(
    api: ApiConnection,
    *,
    name: str,
    api_url: str,
    zone_user: str | None,
    zone_password_file: str | None,
    weight_offset: float | None,
    weight_scale: float | None,
    disable: bool,
    as_json: bool,
) -> None:
    """Add the child zone named NAME, with its API at API_URL."""
    if zone_user is None and zone_password_file is not None:
        raise click.UsageError(
            "--zone-password-file requires --zone-user; add it, or omit the file"
        )
    fields = {
        "name": name,
        "api_url": api_url,
        "username": zone_user,
        "password": password_of(zone_user, zone_password_file) if zone_user else None,
        "weight_offset": weight_offset,
        "weight_scale": weight_scale,
        "is_enabled": False if disable else None,
    }
    _print_zone(api.post(_PATH, {"zone": _given(fields)})["zone"], as_json=as_json)


@zones.command("list")
@list_options
@connected
def list_zones(api: ApiConnection, *, options: ListOptions) -> None:
    """List the child zones, by name."""
    print_list(
        Listing(
            "zones",
            lambda: rows(api.get(f"{_PATH}/detail"), "zones"),
            lambda _: _COLUMNS,
            "no zones",
            order="name",
        ),
        options,
    )


@zones.command("show")
@click.argument("zone")
@json_option
@connected
def show(api: ApiConnection, *, zone: str, as_json: bool) -> None:
    """Show a child zone with its reported capabilities."""
    _print_zone(_find(api, zone), as_json=as_json)


@zones.command("set")
@click.argument("zone")
@click.option("--api-url", help="URL of the zone's API.")
@account_options
@click.option("--new-password", is_flag=True, help="Set a new password of the account.")
@click.option("--no-account", is_flag=True, help="Remove the account.")
@_weights
@click.option(
    "--enable/--disable", "is_enabled", default=None, help="Whether the zone gets new requests."
)
@json_option
@connected
def set_zone(
    api: ApiConnection,
    *,
    zone: str,
    api_url: str | None,
    zone_user: str | None,
    zone_password_file: str | None,
    new_password: bool,
    no_account: bool,
    weight_offset: float | None,
    weight_scale: float | None,
    is_enabled: bool | None,
    as_json: bool,
) -> None:
    """Change the settings of a child zone; options that are omitted change nothing."""
    is_new = new_password or zone_password_file is not None
    if no_account and (is_new or zone_user is not None):
        raise click.UsageError(
            "--no-account cannot be combined with --zone-user or a password; omit one"
        )
    fields = {
        "api_url": api_url,
        # An empty string removes the value. None is not sent, so the value is kept.
        "username": "" if no_account else zone_user,
        "password": "" if no_account else None,
        "weight_offset": weight_offset,
        "weight_scale": weight_scale,
        "is_enabled": is_enabled,
    }
    if not _given(fields) and not is_new:
        raise click.UsageError("nothing to change; see `berth zone set --help`")
    path = _path_of(_find(api, zone))
    # The password is read last, so that an unknown zone is reported before a prompt.
    if is_new:
        fields["password"] = password_of(zone_user or zone, zone_password_file)
    _print_zone(api.put(path, {"zone": _given(fields)})["zone"], as_json=as_json)


@zones.command("remove")
@click.argument("zone")
@json_option
@connected
def remove(api: ApiConnection, *, zone: str, as_json: bool) -> None:
    """Remove a child zone; its servers keep running there, out of reach until it is added again."""
    found = _find(api, zone)
    api.delete(_path_of(found))
    if not as_json:
        print_line(f"zone {found['name']} removed; its servers keep running there")
    print_deleted([{"id": found["id"], "name": found["name"]}], as_json=as_json)


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _path_of(zone: Json) -> str:
    return f"{_PATH}/{int(zone['id'])}"


def _find(api: ApiConnection, zone: str) -> Json:
    """Return the child zone whose name or, if no zone has that name, whose id is `zone`.

    Raises:
        CommandError: no zone matches.
    """
    found = rows(api.get(f"{_PATH}/detail"), "zones")
    for key in ("name", "id"):
        for one in found:
            if str(one[key]) == zone:
                return one
    raise unknown_name("zone", zone, (one["name"] for one in found), "berth zone list")


def _state(zone: Json) -> str:
    if not zone.get("is_enabled"):
        return "disabled"
    if not zone.get("is_active"):
        return "down"
    return "up" if zone.get("seen_at") else "not seen yet"


_COLUMNS = (
    Column("ID", itemgetter("id"), is_number=True),
    Column("Name", itemgetter("name"), wraps=True),
    Column("API URL", itemgetter("api_url"), wraps=True),
    Column("State", _state),
    Column("Offset", lambda one: one.get("weight_offset"), is_number=True),
    Column("Scale", lambda one: one.get("weight_scale"), is_number=True),
    Column("Last seen", lambda one: one.get("seen_at")),
)


def _print_zone(zone: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(zone)
        return
    capabilities = {name: ";".join(values) for name, values in zone["capabilities"].items()}
    ranges = {name: f"{least:g}..{most:g}" for name, (least, most) in zone["ranges"].items()}
    print_fields(
        {
            "id": zone["id"],
            "name": zone["name"],
            "API URL": zone["api_url"],
            "state": _state(zone),
            "failures in a row": zone["failures"],
            "last seen": zone["seen_at"],
            "user": zone["username"] or None,
            "password": "stored" if zone["has_password"] else None,
            "weight offset": zone["weight_offset"],
            "weight scale": zone["weight_scale"],
            "capabilities": joined(capabilities),
            "ranges": joined(ranges),
        }
    )
