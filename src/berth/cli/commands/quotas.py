"""`berth quota`: quotas of projects, through the compute API."""

import click

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, Json, connected, part, segment
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import json_option, print_json, print_table
from berth.domain.compute.quota import METADATA_ITEMS_MAX

_PATH = "/v2.1/os-quota-sets"
_CLASS_PATH = "/v2.1/os-quota-class-sets/default"
# Nova's quota sets have more names. Berth also enforces those of injected files, which clients set
# over HTTP below microversion 2.57, as in Nova.
_NAMES = (
    "instances",
    "cores",
    "ram",
    "server_groups",
    "server_group_members",
    "key_pairs",
    "metadata_items",
)
_LIMIT = click.IntRange(-1, 2**31 - 1)
_METADATA = click.IntRange(-1, METADATA_ITEMS_MAX)


@berth_group("quota")
def quotas() -> None:
    """Show and set quotas of projects; ram is in MiB, and -1 means no limit."""


@quotas.command("show")
@click.argument("project", required=False)
@json_option
@connected
def show(api: ApiConnection, *, project: str | None, as_json: bool) -> None:
    """Show the limits and the usage of PROJECT; without PROJECT, the default limits."""
    if project is None:
        limits = part(api.get(_CLASS_PATH), "quota_class_set")
        rows = [(name, limits[name], None) for name in _NAMES]
        document = {name: limits[name] for name in _NAMES}
    else:
        usages = part(api.get(f"{_PATH}/{segment(project)}/detail"), "quota_set")
        rows = [(name, usages[name]["limit"], usages[name]["in_use"]) for name in _NAMES]
        document = {name: usages[name] for name in _NAMES}
    if as_json:
        print_json(document)
    else:
        table = [(name, _shown(limit), used) for name, limit, used in rows]
        print_table(("Name", "Limit", "In use"), table, right=("Limit", "In use"))


@quotas.command("set")
@click.argument("project", required=False)
@click.option("--instances", type=_LIMIT)
@click.option("--cores", type=_LIMIT, help="Virtual CPUs.")
@click.option("--ram", type=_LIMIT, help="MiB.")
@click.option("--server-groups", type=_LIMIT)
@click.option("--server-group-members", type=_LIMIT, help="Instances in one group.")
@click.option("--key-pairs", type=_LIMIT, help="Key pairs of one user.")
@click.option("--metadata-items", type=_METADATA, help="Metadata items of one server.")
@click.option("--force", is_flag=True, help="Allow limits below the current usage.")
@json_option
@connected
def set_limits(
    api: ApiConnection, /, *, project: str | None, force: bool, as_json: bool, **limits: int | None
) -> None:
    """Set limits of PROJECT; without PROJECT, the default limits of all projects."""
    named: Json = {name: limit for name, limit in limits.items() if limit is not None}
    if not named:
        raise CommandError("nothing to set; see `berth quota set --help`", ExitCode.USAGE)
    if project is None:
        set_now = part(api.put(_CLASS_PATH, {"quota_class_set": named}), "quota_class_set")
    else:
        body = {"quota_set": named | {"force": force}}
        set_now = part(api.put(f"{_PATH}/{segment(project)}", body), "quota_set")
    if as_json:
        print_json({name: set_now[name] for name in _NAMES})
    else:
        table = [(name, _shown(set_now[name])) for name in _NAMES]
        print_table(("Name", "Limit"), table, right=("Limit",))


@quotas.command("unset")
@click.argument("project")
@json_option
@connected
def unset(api: ApiConnection, *, project: str, as_json: bool) -> None:
    """Remove all limits of PROJECT, so that the default limits apply again."""
    path = f"{_PATH}/{segment(project)}"
    api.delete(path)
    if as_json:
        now = part(api.get(path), "quota_set")
        print_json({name: now[name] for name in _NAMES})


def _shown(limit: int) -> object:
    return "none" if limit < 0 else limit
