"""`berth log`: all log lines of one request, from the files of several processes."""

import os
import re
import sys
from pathlib import Path
from typing import Final

import click

from berth.cli.command import berth_command
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import json_option, print_json
from berth.config.log_lines import console_line
from berth.config.log_search import FoundLine, search, with_rotated
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError
from berth.domain.uuids import is_uuid

_REQUEST: Final = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[./\w-]*")


@berth_command("log")
@click.argument("identifier", metavar="REQUEST-ID|SERVER")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file with settings, whose log.file is read if no path is given.",
)
@json_option
def log(*, identifier: str, paths: tuple[Path, ...], config: Path | None, as_json: bool) -> None:
    """Show the log lines of one request, from the files of all processes, in order of time.

    PATHS are log files of APIs, schedulers, agents and child zones, or folders of them; rotated
    and compressed ones are read too, and - is standard input. Without PATHS, log.file of the
    settings is read. For the uuid of a server, the lines of all requests about it are shown.
    """
    if not _REQUEST.fullmatch(identifier) and not is_uuid(identifier):
        reason = f"{identifier!r} must be a request id (req-...) or the uuid of a server"
        raise InvalidInputError("REQUEST-ID", reason)
    files = [file for path in paths or _configured(config) for file in with_rotated(path)]
    found = search(dict.fromkeys(files), identifier)
    if not found:
        names = ", ".join(str(path) for path in paths) or "the log files"
        reason = f"no line of {identifier} in {names}; name the files of other processes as well"
        raise CommandError(reason, ExitCode.NOT_FOUND)
    if as_json:
        print_json({"lines": [{**one.fields, "log": one.source} for one in found]})
    else:
        _print_lines(found)


def _configured(config: Path | None) -> list[Path]:
    file = read_settings(config, os.environ, {}).log.file
    if file is None:
        reason = "name log files, or set log.file: without it, processes log to standard error"
        raise InvalidInputError("PATHS", reason)
    return [file]


def _print_lines(found: list[FoundLine]) -> None:
    colors = sys.stdout.isatty()
    several = len({one.source for one in found}) > 1
    for one in found:
        fields = {**one.fields, "log": one.source} if several else one.fields
        # The lines are ASCII or printable text already, so nothing in them acts on a terminal.
        sys.stdout.write(f"{console_line(fields, colors=colors)}\n")
