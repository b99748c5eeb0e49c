"""The file of contexts: a name for the address of each Berth and the account there."""

import json
import os
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from berth.cli.failures import CommandError, ExitCode
from berth.config.spelling import nearest, suggestion
from berth.config.watched_files import replace_file

FIELDS: Final = (
    "url",
    "user",
    "password",
    "password_file",
    "password_command",
    "token",
    "ca_file",
    "cloud",
)
"""The fields of a context. All are texts."""

SECRETS: Final = frozenset({"password", "token"})
"""The fields that are never shown."""

_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a user.

    Attributes:
        path: the file.
        current: name of the context that commands use by default, or None.
        by_name: the fields of each context.
    """

    path: Path
    current: str | None = None
    by_name: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def fields_of(self, name: str) -> Mapping[str, str]:
        """Return the fields of a context.

        Raises:
            CommandError: there is no such context.
        """
        if name not in self.by_name:
            near = suggestion(name, self.by_name)
            hint = f"did you mean {near!r}?" if near else "see `berth context list`"
            raise CommandError(f"no context {name!r} in {self.path}; {hint}", ExitCode.NOT_FOUND)
        return self.by_name[name]

    def with_context(self, name: str, fields: Mapping[str, str]) -> "Contexts":
        """Return these contexts with one more, or with other fields of an existing one."""
        return replace(self, by_name={**self.by_name, name: fields})

    def without(self, name: str) -> "Contexts":
        """Return these contexts without one, which must exist."""
        kept = {other: fields for other, fields in self.by_name.items() if other != name}
        return replace(self, by_name=kept, current=None if self.current == name else self.current)


def contexts_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's file, in the folder that the XDG specification names."""
    folder = environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(folder) / "berth" / "contexts.toml"


def read_contexts(path: Path) -> Contexts:
    """Return the contexts in a file; none if it does not exist.

    Prints a warning when other users can read a file without secrets.

    Raises:
        CommandError: the file cannot be read or is invalid, or other users can read secrets in it
            or change it.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_BYTES_MAX).decode("utf-8")
        document = tomllib.loads(text)
    except FileNotFoundError:
        return Contexts(path)
    except OSError as error:
        raise _unusable(
            path, f"cannot be read ({error.strerror}); check its permissions"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        # The error of a decoder may quote a part of a password, so only its place is shown.
        raise _unusable(path, "is not valid TOML; correct it, or remove it") from error
    found = _parsed(path, document)
    _check_mode(path, mode, found)
    return found


def write_contexts(contexts: Contexts) -> None:
    """Write the file, which only its owner can read; its folder is created if it is missing.

    Raises:
        CommandError: the folder cannot be created.
        InvalidInputError: the file cannot be written.
    """
    folder = contexts.path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, f"cannot be created ({error.strerror})") from error
    lines = ["# Written by `berth context`. Keep the mode 0600."]
    if contexts.current is not None:
        lines.append(f"current = {_quoted(contexts.current)}")
    for name, fields in sorted(contexts.by_name.items()):
        lines += ["", f"[contexts.{_quoted(name)}]"]
        lines += [f"{key} = {_quoted(fields[key])}" for key in FIELDS if key in fields]
    replace_file(contexts.path, "\n".join([*lines, ""]))
    contexts.path.chmod(0o600)


def _parsed(path: Path, document: Mapping[str, object]) -> Contexts:
    """Return the contexts of a TOML document.

    Raises:
        CommandError: a key is unknown, or a value has the wrong type.
    """
    for key in document:
        if key not in ("current", "contexts"):
            hint = nearest(key, ("current", "contexts"))
            raise _unusable(path, f"has the unknown key {key!r}; {hint}")
    current, tables = document.get("current"), document.get("contexts", {})
    if not isinstance(current, str | None) or not isinstance(tables, dict):
        raise _unusable(path, "must have a text `current` and tables `[contexts.NAME]`")
    by_name = {
        name: _fields(path, name, table)
        for name, table in cast("dict[str, object]", tables).items()
    }
    return Contexts(path, current or None, by_name)


def _fields(path: Path, name: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict):
        raise _unusable(path, f"must have a table for the context {name!r}")
    fields: dict[str, str] = {}
    for key, value in cast("dict[str, object]", table).items():
        if key not in FIELDS:
            raise _unusable(path, f"has the unknown key {name}.{key}; {nearest(key, FIELDS)}")
        if not isinstance(value, str):
            raise _unusable(path, f"must have a text as {name}.{key}; put it in quotes")
        fields[key] = value
    return fields


def _check_mode(path: Path, mode: int, found: Contexts) -> None:
    """Refuse or warn about a file that other users can use.

    Another user who can change the file could redirect commands and have one executed
    (`password_command`), so write access is refused even without secrets.

    Raises:
        CommandError: other users can change the file, or read secrets in it.
    """
    if not mode & _OTHERS:
        return
    todo = f"run `chmod 600 {path}`"
    has_secrets = any(SECRETS & fields.keys() for fields in found.by_name.values())
    if mode & _OTHERS_WRITE:
        raise _unusable(path, f"can be changed by other users (mode {mode:04o}); {todo}")
    if has_secrets:
        raise _unusable(
            path, f"has a password or token that other users can read (mode {mode:04o}); {todo}"
        )
    print(f"berth: other users can read {path} (mode {mode:04o}); {todo}", file=sys.stderr)


def _quoted(text: str) -> str:
    # A JSON string is a TOML string, except that TOML has no surrogates and no raw DEL; the names
    # and values of contexts are printable.
    return json.dumps(text, ensure_ascii=False)


def _unusable(path: Path, reason: str) -> CommandError:
    return CommandError(f"{path} {reason}", ExitCode.USAGE)
