"""`berth state`: export the whole fleet to one file, for `berth decide`."""

import sys
from pathlib import Path

import click

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, connected
from berth.cli.failures import CommandError


@berth_group("state")
def state() -> None:
    """Export the state of the fleet."""


@state.command("export")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file; by default standard output.",
)
@connected
def export(api: ApiConnection, *, output: Path | None) -> None:
    """Export everything that decisions depend on as JSON, for `berth decide --state`."""
    # The document is streamed without parsing, since that of a large fleet may not fit in memory.
    with api.berth.state.stream() as pieces:
        if output is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        # The file is written under another name and then renamed, so that a broken connection
        # cannot leave a partial file or destroy the previous one.
        part = output.with_name(f"{output.name}.part")
        try:
            with part.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
            part.replace(output)
        except OSError as error:
            raise CommandError(
                f"{output} cannot be written: {error.strerror}; check the folder"
            ) from error
        finally:
            part.unlink(missing_ok=True)
