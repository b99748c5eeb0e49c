"""`berth service`: compute services of hosts, through the compute API."""

from functools import partial

import click

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, Json, connected, rows, segment
from berth.cli.listing import (
    Column,
    Listing,
    ListOptions,
    list_options,
    print_items,
    print_list,
)
from berth.cli.name_errors import unknown_name
from berth.cli.output import json_option, print_deleted, print_json

_PATH = "/v2.1/os-services"
# The compute API reports Berth's agents under Nova's name, which its clients look for.
_BINARY = "nova-compute"

_COLUMNS = (
    Column("Host", lambda one: one.get("host")),
    Column("Status", lambda one: one.get("status")),
    Column("State", lambda one: one.get("state")),
    Column("Zone", lambda one: one.get("zone")),
    Column("Forced down", lambda one: one.get("forced_down")),
    Column("Last seen", lambda one: one.get("updated_at")),
    Column("Reason", lambda one: one.get("disabled_reason"), wraps=True),
)


@berth_group("service")
def services() -> None:
    """List, change and delete compute services. HOST is the name of a service's host."""


@services.command("list")
@click.option("--host", help="Only the service of this host.")
@list_options
@connected
def list_services(api: ApiConnection, *, host: str | None, options: ListOptions) -> None:
    """List compute services, by host."""
    fetch = partial(_all, api, host)
    print_list(Listing("services", fetch, lambda _: _COLUMNS, "no services", "host"), options)


@services.command("enable")
@click.argument("host")
@json_option
@connected
def enable(api: ApiConnection, *, host: str, as_json: bool) -> None:
    """Allow new instances on a host."""
    _change(api, host, {"status": "enabled"}, as_json=as_json)


@services.command("disable")
@click.argument("host")
@click.option("--reason", help="Reason, shown to administrators.")
@json_option
@connected
def disable(api: ApiConnection, *, host: str, reason: str | None, as_json: bool) -> None:
    """Forbid new instances on a host; existing ones keep running."""
    body: Json = {"status": "disabled"}
    if reason is not None:
        body["disabled_reason"] = reason
    _change(api, host, body, as_json=as_json)


@services.command("force-down")
@click.argument("host")
@click.option("--unset", is_flag=True, help="Remove the mark from the host.")
@json_option
@connected
def force_down(api: ApiConnection, *, host: str, unset: bool, as_json: bool) -> None:
    """Mark a host as down without waiting for its heartbeats to stop."""
    _change(api, host, {"forced_down": not unset}, as_json=as_json)


@services.command("delete")
@click.argument("host")
@json_option
@connected
def delete(api: ApiConnection, *, host: str, as_json: bool) -> None:
    """Delete a service and its host, with the keys of the host; it must have no servers."""
    service_id = _id_of(api, host)
    api.delete(f"{_PATH}/{segment(service_id)}")
    print_deleted([{"id": service_id, "host": host}], as_json=as_json)


def _all(api: ApiConnection, host: str | None) -> list[Json]:
    return rows(api.get(_PATH, host=host), "services")


def _id_of(api: ApiConnection, host: str) -> str:
    """Return the id of the compute service of a host."""
    mine = [
        one
        for one in _all(api, host)
        if one.get("host") == host and one.get("binary", _BINARY) == _BINARY
    ]
    if not mine:
        names = (one.get("host") for one in _all(api, None))
        raise unknown_name("compute service on host", host, names, "berth service list")
    return str(mine[0]["id"])


def _change(api: ApiConnection, host: str, body: Json, *, as_json: bool) -> None:
    changed: Json = api.put(f"{_PATH}/{segment(_id_of(api, host))}", body)["service"]
    if as_json:
        print_json(changed)
    else:
        print_items([changed], _COLUMNS)
