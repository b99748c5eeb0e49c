"""`berth server start` and the other actions on existing servers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click

from berth.cli.command import OneOf, berth_command
from berth.cli.commands.flavors import find_flavor
from berth.cli.commands.migrations import migration_list
from berth.cli.connection import ApiConnection, Json, connected, part, rows, segment
from berth.cli.listing import ListOptions, list_options, print_list
from berth.cli.output import json_option, print_fields, print_json, print_line, print_table
from berth.cli.server_finding import PATH, find_server, timeout_option, wait_option
from berth.cli.waiting import (
    count_text,
    end_with_errors,
    outcome_documents,
    settled_text,
    until_settled,
    wait_for,
)

KEEPS_POWER: Final = {"OpenStack-API-Version": "compute 2.94"}
"""Header for the newest microversion in which an evacuated server keeps its power state.

From 2.95 on an evacuated server is always stopped.
"""

FORCES: Final = {"X-Berth-Force": "true"}
"""Header that overrides the safety check of an operation."""

_Act = Callable[[ApiConnection, Json], None]


def ask_for(
    api: ApiConnection,
    uuid: str,
    action: str,
    args: object = None,
    headers: Mapping[str, str] | None = None,
) -> Json:
    """Request an action on a server and return the response, {} if it is empty.

    Raises:
        CommandError: see `ApiConnection.ask`.
    """
    body = {action: args}
    return api.ask("POST", f"{PATH}/{segment(uuid)}/action", body=body, headers=headers)


force_option = click.option(
    "--force", is_flag=True, help="Evacuate although too many hosts fell silent at once."
)


def evacuation_headers(*, stopped: bool, force: bool) -> dict[str, str]:
    """Return the headers of an evacuation, which may leave the server stopped or be forced."""
    return (FORCES if force else {}) | ({} if stopped else KEEPS_POWER)


def _act_on(
    api: ApiConnection,
    names: Sequence[str],
    act: _Act,
    *,
    wait: bool = False,
    timeout_s: float = 0.0,
    as_json: bool,
    deleted_too: bool = False,
) -> None:
    """Request an action on several servers; with `wait`, print their status when it is done."""
    # All names are resolved first, so that a misspelt one stops the command before any action.
    found = [find_server(api, name, deleted_too=deleted_too) for name in names]
    # All actions are requested before the first wait, so that they run simultaneously.
    for server in found:
        act(api, server)
    if not wait:
        if as_json:
            print_json({"servers": [_now(api, server) for server in found]})
        return
    doing = f"waiting for {count_text(len(found))}"
    outcomes = wait_for(found, until_settled(api), doing=doing, timeout_s=timeout_s, quiet=as_json)
    if as_json:
        print_json({"servers": outcome_documents(found, outcomes)})
    for outcome in () if as_json else outcomes:
        now = outcome.server
        if now is not None and outcome.error is None:
            print_line(f"{now['id']} {now.get('name')} {settled_text(now)}")
    end_with_errors(outcomes)


def _now(api: ApiConnection, server: Json) -> Json:
    """Return a server as it is after a request, or as it was if it is gone."""
    return part(api.find(f"{PATH}/{segment(server['id'])}") or {}, "server") or server


def _plain(
    name: str, action: str, text: str, args: object = None, *, deleted_too: bool = False
) -> click.Command:
    """Return a command for an action with fixed arguments."""

    @berth_command(name, help=text)
    @click.argument("server", nargs=-1, required=True)
    @wait_option
    @timeout_option
    @json_option
    @connected
    def command(
        api: ApiConnection, *, server: tuple[str, ...], wait: bool, timeout_s: float, as_json: bool
    ) -> None:
        def act(api: ApiConnection, found: Json) -> None:
            ask_for(api, found["id"], action, args)

        _act_on(
            api,
            server,
            act,
            wait=wait,
            timeout_s=timeout_s,
            as_json=as_json,
            deleted_too=deleted_too,
        )

    return command


@berth_command("reboot")
@click.argument("server", nargs=-1, required=True)
@click.option("--hard", is_flag=True, help="Reset without shutting the guest down.")
@wait_option
@timeout_option
@json_option
@connected
def reboot(
    api: ApiConnection,
    *,
    server: tuple[str, ...],
    hard: bool,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Reboot servers."""

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "reboot", {"type": "HARD" if hard else "SOFT"})

    _act_on(api, server, act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("resize")
@click.argument("server")
@click.option("--flavor", required=True, help="Id or name of the flavor.")
@wait_option
@timeout_option
@json_option
@connected
def resize(
    api: ApiConnection, *, server: str, flavor: str, wait: bool, timeout_s: float, as_json: bool
) -> None:
    """Resize SERVER to another flavor; the resize must then be confirmed or reverted."""
    wanted = find_flavor(api, flavor)["id"]

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "resize", {"flavorRef": wanted})

    _act_on(api, [server], act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("rebuild")
@click.argument("server")
@click.option("--image", help="Id of the image; by default the server's own.")
@wait_option
@timeout_option
@json_option
@connected
def rebuild(
    api: ApiConnection,
    *,
    server: str,
    image: str | None,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Rebuild SERVER from an image on its current host. All data on its disks is lost."""

    def act(api: ApiConnection, found: Json) -> None:
        own = part(found, "image").get("id")
        if image is None and own is None:
            raise click.UsageError(f"server {found['id']} has no image; give --image")
        ask_for(api, found["id"], "rebuild", {"imageRef": image or own})

    _act_on(api, [server], act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("rescue")
@click.argument("server", nargs=-1, required=True)
@click.option("--image", help="Id of the rescue image; by default the server's own.")
@wait_option
@timeout_option
@json_option
@connected
def rescue(
    api: ApiConnection,
    *,
    server: tuple[str, ...],
    image: str | None,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Restart servers from a rescue image, with their own disks attached."""

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "rescue", {"rescue_image_ref": image} if image else None)

    _act_on(api, server, act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("migrate")
@click.argument("server", nargs=-1, required=True)
@click.option("--host", help="Target host; by default the scheduler chooses.")
@wait_option
@timeout_option
@json_option
@connected
def migrate(
    api: ApiConnection,
    *,
    server: tuple[str, ...],
    host: str | None,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Migrate servers to other hosts; each migration must then be confirmed or reverted.

    Running servers are stopped, and started again on their new hosts.
    """

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "migrate", {"host": host} if host else None)

    _act_on(api, server, act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("live-migrate")
@click.argument("server", nargs=-1, required=True)
@click.option("--host", help="Target host; by default the scheduler chooses.")
@wait_option
@timeout_option
@json_option
@connected
def live_migrate(
    api: ApiConnection,
    *,
    server: tuple[str, ...],
    host: str | None,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Move active or paused servers to other hosts without stopping them."""

    def act(api: ApiConnection, found: Json) -> None:
        # With "auto" the service decides whether the disks must be copied.
        args = {"host": host, "block_migration": "auto"}
        ask_for(api, found["id"], "os-migrateLive", args)

    _act_on(api, server, act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("evacuate")
@click.argument("server", nargs=-1, required=True)
@click.option("--host", help="Target host; by default the scheduler chooses.")
@click.option("--stopped", is_flag=True, help="Do not start the servers on their new hosts.")
@force_option
@wait_option
@timeout_option
@json_option
@connected
def evacuate(
    api: ApiConnection,
    *,
    server: tuple[str, ...],
    host: str | None,
    stopped: bool,
    force: bool,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Recreate servers, whose host must be down, on other hosts."""

    def act(api: ApiConnection, found: Json) -> None:
        args = {"host": host} if host else {}
        headers = evacuation_headers(stopped=stopped, force=force)
        ask_for(api, found["id"], "evacuate", args, headers)

    _act_on(api, server, act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("unshelve")
@click.argument("server", nargs=-1, required=True)
@click.option("--az", help="Availability zone; empty for any.")
@click.option("--host", help="Target host; by default the scheduler chooses.")
@wait_option
@timeout_option
@json_option
@connected
def unshelve(
    api: ApiConnection,
    *,
    server: tuple[str, ...],
    az: str | None,
    host: str | None,
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Unshelve servers, which starts them again."""
    args: Json = {}
    if az is not None:
        # An empty option becomes null, which unpins the server from its availability zone.
        args["availability_zone"] = az or None
    if host is not None:
        args["host"] = host

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "unshelve", args or None)

    _act_on(api, server, act, wait=wait, timeout_s=timeout_s, as_json=as_json)


@berth_command("lock")
@click.argument("server", nargs=-1, required=True)
@click.option("--reason", help="Reason, shown to users.")
@json_option
@connected
def lock(api: ApiConnection, *, server: tuple[str, ...], reason: str | None, as_json: bool) -> None:
    """Lock servers, so that only administrators can change them."""

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "lock", {"locked_reason": reason} if reason else None)

    _act_on(api, server, act, as_json=as_json)


@berth_command("reset-state")
@click.argument("server", nargs=-1, required=True)
@click.option("--state", type=OneOf(["active", "error"]), default="error", show_default=True)
@json_option
@connected
def reset_state(api: ApiConnection, *, server: tuple[str, ...], state: str, as_json: bool) -> None:
    """Set the state of servers, and abandon their tasks."""

    def act(api: ApiConnection, found: Json) -> None:
        ask_for(api, found["id"], "os-resetState", {"state": state})

    _act_on(api, server, act, as_json=as_json)


@berth_command("zone")
@click.argument("server")
@click.option("--set", "zone", metavar="AZ", help="Bind SERVER to this availability zone.")
@click.option("--unset", is_flag=True, help="Bind SERVER to no availability zone.")
@click.option("--force", is_flag=True, help="Allow this even if SERVER is in another zone or busy.")
@json_option
@connected
def zone(
    api: ApiConnection, *, server: str, zone: str | None, unset: bool, force: bool, as_json: bool
) -> None:
    """Show or change the availability zone that moves of SERVER must obey."""
    if unset and zone is not None:
        raise click.UsageError("--set and --unset exclude each other")
    uuid, instances = find_server(api, server)["id"], api.berth.instances
    if unset or zone is not None:
        found = instances.bind_zone.document(uuid, zone, force=force)
    else:
        found = instances.zone.document(uuid)
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "server": found["instance_uuid"],
            "bound to zone": found["availability_zone"],
            "host": found["host"],
            "zone of the host": found["host_availability_zone"],
        }
    )


@berth_command("actions")
@click.argument("server")
@json_option
@connected
def actions(api: ApiConnection, *, server: str, as_json: bool) -> None:
    """List the actions on SERVER with their steps, newest first."""
    # The list omits the steps, so each action is fetched separately.
    path = f"{PATH}/{segment(find_server(api, server)['id'])}/os-instance-actions"
    found = [
        part(api.get(f"{path}/{segment(one['request_id'])}"), "instanceAction")
        for one in rows(api.get(path), "instanceActions")
    ]
    if as_json:
        print_json({"actions": found})
        return
    table: list[tuple[object, ...]] = []
    for one in found:
        asked = (one["action"], one["start_time"], one["user_id"], one["message"])
        table.append((*asked, one["request_id"]))
        table += [
            (f"  {step['event']}", step["finish_time"], step.get("host"), step["result"], None)
            for step in rows(one, "events")
        ]
    print_table(("Action", "Time", "By or on", "Result", "Request"), table, wrap=("Result",))


@berth_command("diagnostics")
@click.argument("server")
@json_option
@connected
def diagnostics(api: ApiConnection, *, server: str, as_json: bool) -> None:
    """Show the use of CPUs, memory and disks by the guest of SERVER."""
    found = api.get(f"{PATH}/{segment(find_server(api, server)['id'])}/diagnostics")
    if as_json:
        print_json(found)
        return
    memory = part(found, "memory_details")
    fields: dict[str, object] = {
        "state": found["state"],
        "hypervisor": found["hypervisor"],
        "uptime": f"{found['uptime']} s",
        "memory": f"{memory['used']} of {memory['maximum']} MiB",
    }
    for cpu in rows(found, "cpu_details"):
        fields[f"CPU {cpu['id']}"] = f"{cpu['time'] / 1e9:.1f} s"
    for number, disk in enumerate(rows(found, "disk_details")):
        fields[f"disk {number} read"] = f"{disk['read_bytes']} B, {disk['read_requests']} requests"
        fields[f"disk {number} written"] = (
            f"{disk['write_bytes']} B, {disk['write_requests']} requests"
        )
    print_fields(fields)


@berth_command("migrations")
@click.argument("server")
@list_options
@connected
def migrations(api: ApiConnection, *, server: str, options: ListOptions) -> None:
    """List the migrations of SERVER, newest first."""
    uuid = find_server(api, server)["id"]
    print_list(migration_list(api, instance_uuid=uuid), options)


ACTIONS: Final[tuple[click.Command, ...]] = (
    _plain("start", "os-start", "Start stopped servers."),
    _plain("stop", "os-stop", "Stop servers."),
    reboot,
    _plain("pause", "pause", "Pause servers; their memory stays on the host."),
    _plain("unpause", "unpause", "Continue paused servers."),
    _plain("suspend", "suspend", "Save the memory of servers to disk and stop them."),
    _plain("resume", "resume", "Resume suspended servers."),
    resize,
    _plain("confirm", "confirmResize", "Confirm a resize or migration."),
    _plain("revert", "revertResize", "Revert a resize or migration."),
    migrate,
    live_migrate,
    evacuate,
    rebuild,
    rescue,
    _plain("unrescue", "unrescue", "Restart rescued servers from their own disks."),
    _plain(
        "restore", "restore", "Restore deleted servers that the cloud still has.", deleted_too=True
    ),
    _plain("shelve", "shelve", "Shelve servers, which frees their resources."),
    _plain("offload", "shelveOffload", "Remove shelved servers from their hosts."),
    unshelve,
    lock,
    _plain("unlock", "unlock", "Unlock servers."),
    reset_state,
    zone,
    actions,
    diagnostics,
    migrations,
)
"""The commands for actions on servers, in the order of the documentation."""
