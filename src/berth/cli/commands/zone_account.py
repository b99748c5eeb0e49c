"""Options for the account in a child zone. The password is never taken from the command line.

Command lines are visible to all users of a machine.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from berth.cli.failures import CommandError, ExitCode

F = TypeVar("F", bound=Callable[..., object])

_VARIABLE = "BERTH_ZONE_PASSWORD"
# The longest line that is read from a password file. No password is that long; the limit matters
# if the option names a large file by mistake.
_BYTES_MAX = 8 * 1024


def account_options(command: F) -> F:
    """Add the options of the account in a child zone: `zone_user` and `zone_password_file`."""
    options = (
        click.option(
            "--zone-password-file",
            metavar="FILE",
            help="File with the account's password in its first line; - is standard input. By "
            f"default {_VARIABLE} or a prompt.",
        ),
        click.option("--zone-user", metavar="USER", help="This zone's account in the child zone."),
    )
    for option in options:
        command = option(command)
    return command


def password_of(user: str, path: str | None) -> str:
    """Return the password of an account from a file, the environment, or a prompt.

    Args:
        user: name of the account, for the prompt.
        path: the file; `-` is standard input, and None means the environment or a prompt.

    Raises:
        CommandError: the file cannot be read, no source is available, or the password is empty.
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
        raise CommandError(f"the password for {user} must not be empty", ExitCode.USAGE)
    return password


def _first_line(path: str) -> str:
    try:
        if path == "-":
            line = sys.stdin.readline(_BYTES_MAX)
        else:
            with Path(path).open(encoding="utf-8") as file:
                line = file.readline(_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        # The message of a decoding error would quote bytes of the password.
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CommandError(
            f"{path} cannot be read: {reason}; check the path and its permissions", ExitCode.USAGE
        ) from error
    return line.rstrip("\r\n")
