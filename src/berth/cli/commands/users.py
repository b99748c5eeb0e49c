"""`berth user` and `berth token-keys`: the files of users and of token keys."""

import os
import re
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import click

from berth.cli.command import berth_group
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import json_option, print_deleted, print_json, print_line, print_table

if TYPE_CHECKING:
    from berth.api.auth.authentication import Account


@berth_group("token-keys")
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
@json_option
def rotate(*, path: Path, keep: int, as_json: bool) -> None:
    """Add a new key as the first; running processes use it within two seconds."""
    from berth.config.key_file import rotate_keys  # noqa: PLC0415 - not needed for --help

    count = rotate_keys(path, kept=keep)
    if as_json:
        print_json({"file": str(path), "keys": count})
    else:
        print_line(f"{path} has {count} keys; the first one seals new tokens")


# The format of the file: a colon ends a name, a blank starts the comment of a line, and a line
# that begins with # is a comment.
_NAME = re.compile(r"(?!#)[^\s:]{1,255}")
# bcrypt ignores everything after 72 bytes. Longer passwords are refused, since truncation would
# accept any suffix.
_PASSWORD_BYTES_MAX = 72


@berth_group("user")
def users() -> None:
    """Manage users with passwords."""


_file_option = click.option(
    "--htpasswd",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_AUTH_HTPASSWD",
    help="File of the users; `add` creates it if missing.",
)
_password_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input."
)


@users.command("add")
@click.argument("name")
@_file_option
@click.option("--project", help="Project of the user; by default one with the user's name.")
@_password_option
@json_option
def add(
    *, name: str, htpasswd: Path, project: str | None, password_stdin: bool, as_json: bool
) -> None:
    """Add the user NAME, or change the user's password and, if given, project."""
    _check_name(name, "NAME")
    if project is not None:
        _check_name(project, "--project")
    hashed = _hashed(from_stdin=password_stdin)
    with _explained(htpasswd):
        lines = htpasswd.read_text("utf-8").splitlines() if htpasswd.exists() else []
        is_new = not any(_is_of(line, name) for line in lines)
        # The project is stored as a comment, so that other programs can read the file.
        comment = None if project is None else f"# project={project}"
        _write_private(htpasswd, _changed(lines, name, hashed, comment))
    if as_json:
        _print_user(name, htpasswd)
    else:
        print_line(f"user {name} {'added to' if is_new else 'changed in'} {htpasswd}")


@users.command("password")
@click.argument("name")
@_file_option
@_password_option
@json_option
def password(*, name: str, htpasswd: Path, password_stdin: bool, as_json: bool) -> None:
    """Change the password of the user NAME; the project stays."""
    _lines_with(htpasswd, name)
    hashed = _hashed(from_stdin=password_stdin)
    # The file is read again, because the password may have taken a while to type.
    lines = _lines_with(htpasswd, name)
    with _explained(htpasswd):
        _write_private(htpasswd, _changed(lines, name, hashed, None))
    if as_json:
        _print_user(name, htpasswd)
    else:
        print_line(f"password of user {name} changed in {htpasswd}")


@users.command("remove")
@click.argument("name")
@_file_option
@json_option
def remove(*, name: str, htpasswd: Path, as_json: bool) -> None:
    """Remove the user NAME; the user's servers stay, and tokens end."""
    others = [line for line in _lines_with(htpasswd, name) if not _is_of(line, name)]
    with _explained(htpasswd):
        _write_private(htpasswd, "\n".join([*others, ""]))
    if not as_json:
        print_line(f"user {name} removed from {htpasswd}")
    print_deleted([{"user": name}], as_json=as_json)


@users.command("list")
@_file_option
@json_option
def list_users(*, htpasswd: Path, as_json: bool) -> None:
    """List the users with their projects and roles; never their hashes."""
    found = sorted(_accounts(htpasswd).values(), key=lambda one: one.user)
    shown = [_document(one) for one in found]
    if as_json:
        print_json({"users": shown})
    elif not shown:
        print_line("no users")
    else:
        table = [
            (one.user, one.project_id or None, ", ".join(_roles_of(one)) or None) for one in found
        ]
        print_table(("User", "Project", "Roles"), table)


@users.command("roles")
@click.argument("name")
@_file_option
@json_option
def roles(*, name: str, htpasswd: Path, as_json: bool) -> None:
    """Show the roles of the user NAME, which follow from the file.

    The user `admin` has all roles, other users have all but `admin`, and users without a project
    have none.
    """
    account = _accounts(htpasswd).get(name)
    if account is None:
        raise _no_user(name, htpasswd)
    found = _roles_of(account)
    if as_json:
        print_json({"roles": found})
    else:
        print_line("\n".join(found) or "no roles")


def _print_user(name: str, path: Path) -> None:
    print_json(_document(_accounts(path)[name]))


def _document(account: "Account") -> dict[str, object]:
    return {
        "user": account.user,
        "project": account.project_id or None,
        "roles": _roles_of(account),
    }


def _accounts(path: Path) -> Mapping[str, "Account"]:
    """Return the accounts of a file.

    Raises:
        CommandError: the file cannot be read.
        InvalidInputError: a line is malformed.
    """
    from berth.config.auth_file import parse_accounts  # noqa: PLC0415 - not needed for --help

    with _explained(path):
        return parse_accounts(path.read_text("utf-8"), str(path))


def _roles_of(account: "Account") -> list[str]:
    """Return the roles that the API gives to a user."""
    from berth.api.auth.authentication import ADMIN  # noqa: PLC0415 - not needed for --help
    from berth.api.identity.handlers.directory import ROLES  # noqa: PLC0415 - likewise

    if account.user == ADMIN:
        return list(ROLES)
    return [role for role in ROLES if account.project_id and role != ADMIN]


def _is_of(line: str, name: str) -> bool:
    text = line.strip()
    return not text.startswith("#") and text.partition(":")[0] == name


def _lines_with(path: Path, name: str) -> list[str]:
    """Return the lines of a file that has a user.

    Raises:
        CommandError: the file cannot be read, or does not have the user.
    """
    with _explained(path):
        lines = path.read_text("utf-8").splitlines()
    if not any(_is_of(line, name) for line in lines):
        raise _no_user(name, path)
    return lines


def _no_user(name: str, path: Path) -> CommandError:
    return CommandError(f"no user {name!r} in {path}; see `berth user list`", ExitCode.NOT_FOUND)


def _changed(lines: Sequence[str], name: str, hashed: str, comment: str | None) -> str:
    """Return the text of the file with the line of a user as the last; None keeps its comment."""
    others = [line for line in lines if not _is_of(line, name)]
    kept = next((line.partition(" ")[2] for line in lines if _is_of(line, name)), "")
    line = f"{name}:{hashed} {kept if comment is None else comment}".rstrip()
    return "\n".join([*others, line, ""])


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Say what to do if the file cannot be read or written."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text; convert or replace it") from error
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read or written: {error.strerror}; check the path and its "
            "permissions"
        ) from error


def _check_name(name: str, what: str) -> None:
    if _NAME.fullmatch(name) is None or not name.isprintable():
        reason = (
            f"{what} must consist of 1 to 255 printable characters without spaces or colons, and "
            "must not start with #"
        )
        raise CommandError(reason, ExitCode.USAGE)


def _hashed(*, from_stdin: bool) -> str:
    """Return the hash of a password that is read or requested."""
    return bcrypt.hashpw(_read_password(from_stdin=from_stdin), bcrypt.gensalt()).decode("ascii")


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
