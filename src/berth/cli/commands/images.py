"""`berth image`: the images of the cloud and of servers, and `berth server image` and `backup`."""

from functools import partial
from operator import itemgetter

import click

from berth.cli.command import berth_command, berth_group
from berth.cli.commands.server_actions import ask_for
from berth.cli.connection import ApiConnection, Json, connected, segment
from berth.cli.failures import CommandError, ExitCode
from berth.cli.listing import (
    Column,
    Listing,
    ListOptions,
    age_column,
    list_options,
    print_list,
)
from berth.cli.name_errors import unknown_name
from berth.cli.output import (
    json_option,
    print_deleted,
    print_fields,
    print_json,
    print_line,
)
from berth.cli.pairs import last_values, read_pairs
from berth.cli.server_finding import find_server, timeout_option, wait_option
from berth.cli.waiting import end_with_errors, until_settled, wait_for

_PATH = "/image/v2/images"

_property_option = click.option(
    "--property", "properties", multiple=True, callback=read_pairs, help="Property KEY=VALUE."
)


@berth_group("image")
def images() -> None:
    """Show images, and delete images of servers."""


@images.command("list")
@list_options
@connected
def list_images(api: ApiConnection, *, options: ListOptions) -> None:
    """List the images of the cloud, and the images of your project's servers."""
    fetch = partial(api.pages, _PATH, "images")
    empty = "no images; the setting `api.images` names those of the cloud"
    print_list(Listing("images", fetch, lambda _: _COLUMNS, empty), options)


@images.command("show")
@click.argument("image")
@json_option
@connected
def show(api: ApiConnection, *, image: str, as_json: bool) -> None:
    """Show an image, by id or name."""
    found = find_image(api, image)
    if as_json:
        print_json({"image": found})
    else:
        print_fields({name: value for name, value in found.items() if value is not None})


@images.command("delete")
@click.argument("image", nargs=-1, required=True)
@json_option
@connected
def delete(api: ApiConnection, *, image: tuple[str, ...], as_json: bool) -> None:
    """Delete images of servers, by id or name; running servers keep their disks."""
    found = [find_image(api, name) for name in image]
    for one in found:
        api.delete(f"{_PATH}/{segment(one['id'])}")
    print_deleted([{"id": one["id"], "name": one["name"]} for one in found], as_json=as_json)


@berth_command("image")
@click.argument("server")
@click.argument("name")
@_property_option
@wait_option
@timeout_option
@json_option
@connected
def server_image(
    api: ApiConnection,
    *,
    server: str,
    name: str,
    properties: dict[str, list[str]],
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Make an image named NAME of the root disk of SERVER, and print the image's id."""
    args: Json = {"name": name, "metadata": last_values(properties)}
    _make(api, server, "createImage", args, timeout_s if wait else None, as_json=as_json)


@berth_command("backup")
@click.argument("server")
@click.argument("name")
@click.option("--type", "kind", default="daily", show_default=True, help="Type of the backup.")
@click.option(
    "--rotation",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Number of backups of the type to keep; older ones are deleted.",
)
@_property_option
@wait_option
@timeout_option
@json_option
@connected
def server_backup(
    api: ApiConnection,
    *,
    server: str,
    name: str,
    kind: str,
    rotation: int,
    properties: dict[str, list[str]],
    wait: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Make a backup named NAME of SERVER, and delete its oldest backups of the same type."""
    args: Json = {"name": name, "backup_type": kind, "rotation": rotation}
    args["metadata"] = last_values(properties)
    _make(api, server, "createBackup", args, timeout_s if wait else None, as_json=as_json)


def find_image(api: ApiConnection, image: str) -> Json:
    """Return the image with an id or, if no image has that id, with a unique name.

    Raises:
        CommandError: no image or several images match.
    """
    found = api.find(f"{_PATH}/{segment(image)}") if image else None
    if found is not None:
        return found
    known = api.pages(_PATH, "images")
    named = [one for one in known if one["name"] == image]
    if not named:
        raise unknown_name("image", image, (one["name"] for one in known), "berth image list")
    if len(named) > 1:
        raise CommandError(f"{len(named)} images are named {image!r}; give an id", ExitCode.USAGE)
    return named[0]


def _make(
    api: ApiConnection,
    server: str,
    action: str,
    args: Json,
    timeout_s: float | None,
    *,
    as_json: bool,
) -> None:
    """Make an image of a server and print its id; wait for its data unless `timeout_s` is None."""
    found = find_server(api, server)
    made = ask_for(api, found["id"], action, args)
    image_id = made.get("image_id")  # a backup with rotation 0 is deleted at once
    if timeout_s is not None:
        doing = f"copying the disk of {found.get('name')}"
        look = until_settled(api)
        end_with_errors(wait_for([found], look, doing=doing, timeout_s=timeout_s, quiet=as_json))
        _check(api, image_id)
    if as_json:
        image = api.find(f"{_PATH}/{segment(image_id)}") if image_id is not None else None
        print_json({"server": found["id"], "image": image})
    elif image_id is not None:
        print_line(image_id)


def _check(api: ApiConnection, image_id: str | None) -> None:
    if image_id is None:
        return
    image = api.find(f"{_PATH}/{segment(image_id)}")
    if image is None or image["status"] != "active":
        state = "deleted" if image is None else image["status"]
        raise CommandError(f"image {image_id} is {state}; see `berth server actions`")


def _mb(image: Json) -> str | None:
    size = image.get("size")
    return None if size is None else f"{size / 1_000_000:,.0f}"


_COLUMNS = (
    Column("ID", itemgetter("id")),
    Column("Name", itemgetter("name"), wraps=True),
    Column("Status", itemgetter("status")),
    Column("Visibility", itemgetter("visibility")),
    Column("Size MB", _mb, is_number=True, order=lambda one: one.get("size")),
    age_column("created_at"),
)
