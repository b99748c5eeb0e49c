"""`berth host`: hosts with their inventories and usage."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter

import click

from berth.cli.command import berth_group
from berth.cli.commands.host_evacuation import evacuate
from berth.cli.commands.host_keys import broker_permissions, enroll, list_keys, revoke, rotate
from berth.cli.commands.host_maintenance import drain, maintain, resume, show_maintenance
from berth.cli.commands.host_upkeep import set_host, write_off
from berth.cli.completed_names import NameOf
from berth.cli.connection import ApiConnection, Json, connected, part, rows, texts
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.name_errors import suggests_hosts
from berth.cli.output import json_option, print_fields, print_json, print_table


@berth_group("host")
def hosts() -> None:
    """List, show and maintain hosts."""


hosts.add_command(evacuate)
hosts.add_command(drain)
hosts.add_command(maintain)
hosts.add_command(resume)
hosts.add_command(show_maintenance)
hosts.add_command(set_host)
hosts.add_command(write_off)
hosts.add_command(enroll)
hosts.add_command(broker_permissions)
hosts.add_command(list_keys)
hosts.add_command(rotate)
hosts.add_command(revoke)


@hosts.command("list")
@click.option(
    "--hypervisors", is_flag=True, help="List the hypervisors of the compute API instead."
)
@list_options
@connected
def list_hosts(api: ApiConnection, *, hypervisors: bool, options: ListOptions) -> None:
    """List hosts with the usage of each resource class, by name."""
    print_list(_hypervisors(api) if hypervisors else _hosts(api), options)


def _hosts(api: ApiConnection) -> Listing:
    return Listing(
        "hosts",
        lambda: list(api.berth.hosts.list.documents(page_size=None)),
        _columns,
        "no hosts; start agents with `berth agent`",
        order="host",
    )


def _columns(found: Sequence[Json]) -> Sequence[Column]:
    # Hosts differ in their resource classes; the columns are the union of all.
    classes = sorted({name for host in found for name in part(host, "inventories")})
    return (
        Column("Host", itemgetter("name")),
        Column("State", _state, wraps=True),
        Column("Zones", lambda host: ", ".join(texts(host, "zones")) or None, wraps=True),
        Column("Instances", lambda host: host.get("num_instances"), is_number=True),
        *(
            Column(
                f"{name} used",
                partial(_usage, resource_class=name),
                is_number=True,
                order=partial(_share, resource_class=name),
            )
            for name in classes
        ),
    )


def _hypervisors(api: ApiConnection) -> Listing:
    columns = (
        Column("ID", itemgetter("id")),
        Column("Hostname", itemgetter("hypervisor_hostname")),
        Column("Type", lambda one: one.get("hypervisor_type")),
        Column("State", lambda one: one.get("state")),
        Column("Status", lambda one: one.get("status")),
    )
    path = "/v2.1/os-hypervisors/detail"
    return Listing(
        "hypervisors",
        lambda: api.pages(path, "hypervisors"),
        lambda _: columns,
        "no hypervisors",
        order="hostname",
    )


@hosts.command("show")
@click.argument("name", type=NameOf("host"))
@json_option
@connected
@suggests_hosts("name")
def show(api: ApiConnection, *, name: str, as_json: bool) -> None:
    """Show a host, by name or uuid."""
    host = api.berth.hosts.get.document(name)
    if as_json:
        print_json(host)
        return
    fields: Json = {
        "name": host.get("name"),
        "node": host.get("node"),
        "uuid": host.get("uuid"),
        "state": _state(host),
        "zones": ", ".join(texts(host, "zones")) or None,
        "instances": host.get("num_instances"),
        "failed builds": part(host, "service").get("failed_builds"),
        "failure level": part(host, "service").get("failure_level"),
    }
    for resource_class in sorted(part(host, "inventories")):
        fields[f"{resource_class} used"] = _usage(host, resource_class)
        fields[f"{resource_class} ratio"] = _ratio(host, resource_class)
    fields["traits"] = ", ".join(texts(host, "traits")) or None
    metrics = part(host, "metrics")
    fields["metrics"] = ", ".join(f"{name} {metrics[name]:g}" for name in sorted(metrics)) or None
    fields["attestation"] = part(host, "attestation").get("level")
    print_fields(fields)
    _print_failures(host)
    _print_children(host)


def _print_failures(host: Json) -> None:
    table = [
        (
            one["cause"],
            "all others" if one["project_id"] is None else one["project_id"],
            f"{one['level']:.1f}",
            datetime.fromtimestamp(one["at_s"], UTC).isoformat(timespec="seconds"),
        )
        for one in rows(part(host, "service"), "build_failures")
    ]
    if table:
        columns = ("Cause", "Project", "Failed", "Newest")
        print_table(columns, table, right=("Failed",), title="Failed builds", wrap=("Project",))


def _print_children(host: Json) -> None:
    table = [
        (
            child["name"],
            child["uuid"],
            ", ".join(
                f"{name} {_usage(child, name)}" for name in sorted(part(child, "inventories"))
            ),
            ", ".join(texts(child, "traits")) or None,
        )
        for child in rows(host, "children")
    ]
    if table:
        columns = ("Child", "UUID", "Used", "Traits")
        print_table(columns, table, title="Child providers", wrap=("Used", "Traits"))


def _state(host: Json) -> str:
    service = part(host, "service")
    if not service:
        return "no service"
    if service["disabled"]:
        reason = service.get("disabled_reason")
        return "disabled" if reason is None else f"disabled ({reason})"
    if service.get("is_uncertain"):
        return "uncertain"
    return "up" if service["is_up"] else "down"


def _ratio(host: Json, resource_class: str) -> str | None:
    """Return the allocation ratio of a resource class with its origin, or None if unknown."""
    inventory = part(part(host, "inventories"), resource_class)
    if not inventory:
        return None
    ratio, origin = inventory.get("allocation_ratio"), inventory.get("allocation_ratio_origin")
    return None if ratio is None else f"{ratio:g}, {origin}"


def _usage(host: Json, resource_class: str) -> str | None:
    inventory = part(part(host, "inventories"), resource_class)
    if not inventory:
        return None
    return f"{inventory['used']:,} of {inventory['capacity']:,}"


def _share(host: Json, resource_class: str) -> float | None:
    """Return the used share of a resource class, by which hosts are sorted."""
    inventory = part(part(host, "inventories"), resource_class)
    return inventory["used"] / max(inventory["capacity"], 1) if inventory else None
