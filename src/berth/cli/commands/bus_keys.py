"""`berth bus-keys`: the file of the keys that sign messages on the broker."""

from pathlib import Path

import click

from berth.cli.command import berth_group
from berth.cli.output import json_option, print_json, print_line


@berth_group("bus-keys")
def bus_keys() -> None:
    """Manage the keys that sign messages on the broker."""


@bus_keys.command("rotate")
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_BUS_KEY_FILE",
    help="File of the keys; created if missing.",
)
@json_option
def rotate(*, path: Path, as_json: bool) -> None:
    """Use the next key from now on, and create the one after it.

    Messages that the previous key signed are accepted until the next rotation. So copy the file to
    all machines of the control plane between two rotations, in any order.
    """
    from berth.config.bus_keys import rotate_bus_keys  # noqa: PLC0415 - not needed for --help

    rotate_bus_keys(path)
    if as_json:
        print_json({"file": str(path)})
        return
    print_line(f"{path} has a new key in use; copy it to all machines of the control plane")
