"""`berth host set` and `berth host write-off`: maintenance of hosts."""

import click

from berth.cli.command import berth_command
from berth.cli.completed_names import NameOf
from berth.cli.connection import ApiConnection, Json, connected, part, rows, texts
from berth.cli.failures import CommandError, ExitCode
from berth.cli.name_errors import suggests_hosts
from berth.cli.output import joined, json_option, print_json, print_line


@berth_command("set")
@click.argument("name", type=NameOf("host"))
@click.option(
    "--ratio",
    "ratios",
    multiple=True,
    required=True,
    metavar="CLASS=RATIO",
    help="Allocation ratio, for example VCPU=4; 0 removes it. May be repeated.",
)
@json_option
@connected
@suggests_hosts("name")
def set_host(api: ApiConnection, *, name: str, ratios: tuple[str, ...], as_json: bool) -> None:
    """Set allocation ratios of a host while it runs.

    Ratios from an aggregate or from the agent's settings take precedence.
    """
    asked = dict(map(_ratio, ratios))
    host = api.berth.hosts.set_ratios.document(name, asked)
    if as_json:
        print_json(host)
        return
    inventories = part(host, "inventories")
    for resource_class in sorted(asked):
        inventory = part(inventories, resource_class)
        ratio, origin = inventory["allocation_ratio"], inventory["allocation_ratio_origin"]
        print_line(f"{resource_class} ratio of {host['name']} is {ratio:g}, {origin}")


@berth_command("write-off")
@click.argument("host")
@click.option("--yes", is_flag=True, help="Write the host off; without it nothing changes.")
@json_option
@connected
@suggests_hosts("host")
def write_off(api: ApiConnection, *, host: str, yes: bool, as_json: bool) -> None:
    """End the moves with leftovers on the lost host HOST, and free their allocations there.

    Without --yes, only shows what would end and be freed. Servers on the host are never touched.
    The host's service must be forced down, and its agent must have stopped sending heartbeats.
    """
    # The plan is the dry run of the write-off, so both print the same report.
    write_off_host = api.berth.hosts.write_off if yes else api.berth.hosts.plan_write_off
    found = write_off_host.document(host)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: Json) -> None:
    moves, host = rows(found, "moves"), found["host"]
    for move in moves:
        print_line(
            f"{move['kind']} {move['id']} of {move['instance_uuid']}, {move['stage']}: "
            f"{joined(part(move, 'held'))}"
        )
    freed = joined(part(found, "freed"))
    if found["is_done"]:
        print_line(f"{len(moves):,} moves ended; freed on {host}: {freed}")
    else:
        print_line(f"{len(moves):,} moves would end; freed on {host}: {freed}")
    stays = texts(found, "instances")
    if stays:
        print_line(f"{len(stays):,} servers remain on {host}; evacuate or delete them:")
        for uuid in stays:
            print_line(f"  {uuid}")
    for move in rows(found, "waiting"):
        print_line(
            f"{move['kind']} {move['id']} of {move['instance_uuid']} remains {move['stage']}"
        )
    if moves and not found["is_done"]:
        print_line(f"run `berth host write-off {host} --yes` to end them")


def _ratio(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        if name and equals:
            return name, float(number)
    except ValueError:
        pass
    raise CommandError(f"--ratio {text!r} must be CLASS=RATIO, for example VCPU=4", ExitCode.USAGE)
