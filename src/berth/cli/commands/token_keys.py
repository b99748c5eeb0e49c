"""`berth token-keys`: the keys that seal tokens."""

from pathlib import Path

import click

from berth.cli.output import print_line


@click.group("token-keys")
def token_keys() -> None:
    """Look after the keys that seal tokens."""


@token_keys.command("rotate")
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_AUTH_TOKEN_KEYS",
    help="The file; made when it is not there.",
)
@click.option(
    "--keep",
    type=click.IntRange(2, 16),
    default=3,
    show_default=True,
    help="Keys there may be afterwards; tokens of the dropped ones are void.",
)
def rotate(*, path: Path, keep: int) -> None:
    """Put a new key first; running servers take it up within a second or two."""
    from berth.config.key_file import rotate_keys  # noqa: PLC0415 - not needed for --help

    count = rotate_keys(path, kept=keep)
    print_line(f"{path} has {count} keys; the first one seals new tokens")
