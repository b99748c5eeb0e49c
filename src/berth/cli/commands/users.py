"""`berth user` and `berth token-keys`: the files of users and of token keys."""

import os
import re
import sys
import tempfile
from pathlib import Path

import bcrypt
import click

from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import print_line


@click.group("token-keys")
def token_keys() -> None:
    """Manage the keys that seal tokens."""


@token_keys.command("rotate")
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_AUTH_TOKEN_KEYS",
    help="File of the keys; created if missing.",
)
@click.option(
    "--keep",
    type=click.IntRange(2, 16),
    default=3,
    show_default=True,
    help="Number of keys to keep; tokens that a dropped key sealed become invalid.",
)
def rotate(*, path: Path, keep: int) -> None:
    """Add a new key as the first; running processes use it within two seconds."""
    from berth.config.key_file import rotate_keys  # noqa: PLC0415 - not needed for --help

    count = rotate_keys(path, kept=keep)
    print_line(f"{path} has {count} keys; the first one seals new tokens")


# The format of the file: a colon ends a name, a blank starts the comment of a line, and a line
# that begins with # is a comment.
_NAME = re.compile(r"(?!#)[^\s:]{1,255}")
# bcrypt ignores everything after 72 bytes. Longer passwords are refused, since truncation would
# accept any suffix.
_PASSWORD_BYTES_MAX = 72


@click.group("user")
def users() -> None:
    """Manage users with passwords."""


@users.command("add")
@click.argument("name")
@click.option(
    "--htpasswd",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_AUTH_HTPASSWD",
    help="File of the users; created if missing.",
)
@click.option("--project", help="Project of the user; by default one with the user's name.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
def add(*, name: str, htpasswd: Path, project: str | None, password_stdin: bool) -> None:
    """Add the user NAME, or change the user's password and, if given, project."""
    _check_name(name, "NAME")
    if project is not None:
        _check_name(project, "--project")
    password = _read_password(from_stdin=password_stdin)
    hashed = bcrypt.hashpw(password, bcrypt.gensalt()).decode("ascii")
    try:
        lines = htpasswd.read_text("utf-8").splitlines() if htpasswd.exists() else []
        others = [line for line in lines if line.partition(":")[0] != name]
        kept = next((line.partition(" ")[2] for line in lines if line not in others), "")
        # The project is stored as a comment, so that other programs can read the file.
        comment = kept if project is None else f"# project={project}"
        line = f"{name}:{hashed} {comment}".rstrip()
        _write_private(htpasswd, "\n".join([*others, line, ""]))
    except UnicodeDecodeError as error:
        raise CommandError(f"{htpasswd} is not UTF-8 text; convert or replace it") from error
    except OSError as error:
        raise CommandError(
            f"{htpasswd} cannot be read or written: {error.strerror}; check the path and its "
            "permissions"
        ) from error
    verb = "added to" if len(others) == len(lines) else "changed in"
    print_line(f"user {name} {verb} {htpasswd}")


def _check_name(name: str, what: str) -> None:
    if _NAME.fullmatch(name) is None or not name.isprintable():
        reason = (
            f"{what} must consist of 1 to 255 printable characters without spaces or colons, and "
            "must not start with #"
        )
        raise CommandError(reason, ExitCode.USAGE)


def _read_password(*, from_stdin: bool) -> bytes:
    # No option takes the password, since command lines are visible to other users of the machine.
    if from_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = str(
            click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        )
    encoded = password.encode()
    if not 1 <= len(encoded) <= _PASSWORD_BYTES_MAX:
        reason = f"the password must be between 1 and {_PASSWORD_BYTES_MAX} bytes long in UTF-8"
        raise CommandError(reason, ExitCode.USAGE)
    return encoded


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically and keep its mode; only its owner can read a new file.

    A running process may read the file at any moment and must never see a partial one.
    """
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            # Without a sync before the rename, a power failure could leave an empty file.
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(mode)
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)
