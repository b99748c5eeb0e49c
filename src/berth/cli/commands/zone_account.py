"""The account of a child zone: its password comes from anywhere but the command line."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from berth.cli.failures import CommandError, ExitCode

F = TypeVar("F", bound=Callable[..., object])

_VARIABLE = "BERTH_ZONE_PASSWORD"
_BYTES_MAX = 8 * 1024
"""More than the longest password has, so that a wrong file is refused and not read whole."""


def account_options(command: F) -> F:
    """Add the options of an account in the child zone, as `zone_user` and `zone_password_file`."""
    options = (
        click.option(
            "--zone-password-file",
            metavar="FILE",
            help="Has the account's password in its first line; - is standard input. Otherwise "
            f"{_VARIABLE} has it, or it is asked for.",
        ),
        click.option("--zone-user", metavar="USER", help="The account that the zone gave to this."),
    )
    for option in options:
        command = option(command)
    return command


def password_of(user: str, path: str | None) -> str:
    """Return the password of an account: from a file, the environment, or who sits there.

    Args:
        user: whose it is, for the question.
        path: the file; `-` is standard input.

    Raises:
        CommandError: there is none to be had, or it is empty.
    """
    if path is not None:
        password = _first_line(path)
    elif _VARIABLE in os.environ:
        password = os.environ[_VARIABLE]
    elif sys.stdin.isatty():
        password = click.prompt(f"Password of {user}", hide_input=True, err=True, type=str)
    else:
        reason = f"no password for {user}; give --zone-password-file or {_VARIABLE}"
        raise CommandError(reason, ExitCode.USAGE)
    if not password:
        raise CommandError(f"the password for {user} is empty", ExitCode.USAGE)
    return password


def _first_line(path: str) -> str:
    try:
        if path == "-":
            line = sys.stdin.readline(_BYTES_MAX)
        else:
            with Path(path).open(encoding="utf-8") as file:
                line = file.readline(_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text in UTF-8"
        raise CommandError(f"{path} cannot be read: {reason}", ExitCode.USAGE) from error
    return line.rstrip("\r\n")
