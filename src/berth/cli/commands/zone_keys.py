"""`berth zone keys` and `berth zone parents`: the key files on a zone's machines.

The commands import their modules themselves, since these load a cryptography library that --help
does not need.
"""

import time
from pathlib import Path

import click

from berth.cli.command import berth_group
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import json_option, print_deleted, print_json, print_line, print_table

_key_file = click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_ZONES_KEY_FILE",
    help="File of the zone's private keys.",
)
_parents_file = click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_ZONES_PARENTS_FILE",
    help="File of the parents' public keys.",
)


@berth_group("keys")
def keys() -> None:
    """Manage the private keys of a zone."""


@keys.command("create")
@_key_file
@json_option
def create(*, path: Path, as_json: bool) -> None:
    """Create the file, and print the public keys for the zone's children."""
    from berth.config import zone_keys  # noqa: PLC0415 - see above

    zone_keys.create(path)
    if as_json:
        _print_public(path)
        return
    print_line(f"{path} created; copy it to all schedulers and APIs of the zone")
    print_line(_for_children(zone_keys.public_text(path)))


@keys.command("rotate")
@_key_file
@json_option
def rotate(*, path: Path, as_json: bool) -> None:
    """Add new keys and drop the oldest; recently sealed data stays readable.

    The second of the keys that `berth zone keys public` prints signs all assertions from now on, so
    first make sure that all children have it. The command waits until the processes that use this
    file sign with that key. If other machines use copies of the file, update the copies before you
    give the printed keys to the children.
    """
    from berth.config import watched_files, zone_keys  # noqa: PLC0415 - see above

    zone_keys.rotate(path)
    # A child that got the new keys immediately would drop the key that processes here still sign
    # with.
    time.sleep(watched_files.RELOAD_WITHIN_S)
    if as_json:
        _print_public(path)
        return
    print_line(f"{path} contains new keys, and the processes that read it use them")
    print_line(_for_children(zone_keys.public_text(path)))


@keys.command("public")
@_key_file
@json_option
def public(*, path: Path, as_json: bool) -> None:
    """Print the public keys of the zone in one line."""
    from berth.config import zone_keys  # noqa: PLC0415 - see above

    if as_json:
        _print_public(path)
    else:
        print_line(zone_keys.public_text(path))


@berth_group("parents")
def parents() -> None:
    """Manage the parents that a zone trusts."""


@parents.command("add")
@click.argument("name")
@click.argument("public_keys", nargs=-1, required=True)
@_parents_file
@json_option
def add(*, name: str, public_keys: tuple[str, ...], path: Path, as_json: bool) -> None:
    """Trust the parent named NAME by the given public keys, which replace its previous ones."""
    from berth.config import zone_keys  # noqa: PLC0415 - see above

    was_there = name in zone_keys.parents(path)
    zone_keys.add_parent(path, name, " ".join(public_keys))
    known = zone_keys.parents(path)[name]
    if as_json:
        print_json({"name": name, "keys": [zone_keys.key_text(key) for key in known]})
        return
    count = len(known)
    verb = "changed in" if was_there else "added to"
    print_line(f"parent {name} {verb} {path}, with {count} {'key' if count == 1 else 'keys'}")


@parents.command("list")
@_parents_file
@json_option
def list_parents(*, path: Path, as_json: bool) -> None:
    """List the trusted parents."""
    from berth.config import zone_keys  # noqa: PLC0415 - see above

    found = {
        name: [zone_keys.key_text(key) for key in some]
        for name, some in sorted(zone_keys.parents(path).items())
    }
    if as_json:
        print_json({"parents": [{"name": name, "keys": some} for name, some in found.items()]})
    elif not found:
        print_line("no parents")
    else:
        table = [(name, key) for name, some in found.items() for key in some]
        print_table(("Name", "Public key"), table, wrap=("Public key",))


@parents.command("remove")
@click.argument("name")
@_parents_file
@json_option
def remove(*, name: str, path: Path, as_json: bool) -> None:
    """Stop trusting a parent."""
    from berth.config import zone_keys  # noqa: PLC0415 - see above

    if not zone_keys.remove_parent(path, name):
        raise CommandError(
            f"no parent {name!r} in {path}; see `berth zone parents list`", ExitCode.NOT_FOUND
        )
    if not as_json:
        print_line(
            f"parent {name} removed from {path}; running processes notice within two seconds"
        )
    print_deleted([{"name": name}], as_json=as_json)


def _print_public(path: Path) -> None:
    from berth.config import zone_keys  # noqa: PLC0415 - see above

    print_json({"file": str(path), "public_keys": zone_keys.public_text(path).split()})


def _for_children(public_text: str) -> str:
    return f"on each child zone, run: berth zone parents add NAME {public_text}"
