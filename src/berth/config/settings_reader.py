"""Reads settings from a TOML file, the environment and command-line options."""

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeGuard, cast, get_args, get_origin, get_type_hints

import msgspec

from berth.config.policy_file import READY
from berth.config.settings import Address, Settings, parse_address
from berth.config.spelling import nearest
from berth.domain.errors import InvalidInputError

ENV_PREFIX = "BERTH_"

# Kubernetes sets BERTH_API_PORT and the like in every pod that shares a namespace with a service
# named berth-api.
_NOT_OURS = re.compile(r".*_(SERVICE_(HOST|PORT)|PORT)(_.*)?")


@dataclass(frozen=True, slots=True)
class _Given:
    """A value from one of the sources, which is still to be converted.

    Attributes:
        value: the value as given.
        source: the place of the value, for error messages.
        folder: the folder from which relative paths start.
        strict: whether the type of the value must match. TOML has types; variables and options are
            strings, which are converted to numbers.
        is_secret: whether error messages omit the value.
    """

    value: object
    source: str
    folder: Path
    strict: bool
    is_secret: bool = False


def read_settings(
    file: Path | None, environ: Mapping[str, str], options: Mapping[str, object]
) -> Settings:
    """Return the settings; options override the environment, which overrides the file.

    Args:
        file: a TOML file with one table for each section (`[api]`); relative paths in it start at
            its folder.
        environ: `BERTH_<SECTION>_<KEY>` variables; all others are ignored.
        options: values from the command line by `section.key`; None means "not given".

    Raises:
        InvalidInputError: the file cannot be read, a key is unknown, a value is invalid, or values
            contradict each other.
    """
    given: dict[str, _Given] = {}
    if file is not None:
        given.update(_from_file(file))
    given.update(_from_environ(environ))
    for key, value in options.items():
        if value is not None:
            given[key] = _Given(value, f"option {key}", Path(), strict=False)
    sections: dict[str, object] = {}
    for name, section in _sections().items():
        hints = get_type_hints(section, include_extras=True)
        secrets = _secrets_of(section)
        values = {
            key: _convert(replace(given.pop(f"{name}.{key}"), is_secret=key in secrets), hints[key])
            for key in hints
            if f"{name}.{key}" in given
        }
        sections[name] = section(**values)
    # The values that are left belong to no setting, and a misspelt setting must not be ignored.
    for key, one in given.items():
        raise InvalidInputError(one.source, f"there is no such setting; {nearest(key, _keys())}")
    return cast("Callable[..., Settings]", Settings)(**sections)


def _sections() -> dict[str, Callable[..., object]]:
    return {name: cast("type", hint) for name, hint in get_type_hints(Settings).items()}


def _secrets_of(section: Callable[..., object]) -> set[str]:
    """Return the keys that may have secret values: those that the section's `repr` omits."""
    return {one.name for one in fields(cast("type[Settings]", section)) if not one.repr}


def _keys() -> list[str]:
    """Return all keys, as `section.key`."""
    return [
        f"{name}.{one.name}"
        for name, section in get_type_hints(Settings).items()
        for one in fields(section)
    ]


def _from_file(file: Path) -> dict[str, _Given]:
    try:
        text = file.read_text("utf-8")
        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        raise InvalidInputError(
            str(file), f"cannot be read ({error.strerror}); check the path and its permissions"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(str(file), f"is not valid TOML ({error})") from error
    given: dict[str, _Given] = {}
    for name, table in document.items():
        where = f"{file}: {name}"
        if name not in _sections():
            reason = f"there is no such section; {nearest(name, _sections())}"
            raise InvalidInputError(where, reason)
        if not isinstance(table, dict):
            raise InvalidInputError(where, f"must be a table; write [{name}]")
        for key, value in cast("dict[str, object]", table).items():
            source = f"{where}.{key}"
            # The name of a ready policy is not a path, so it is not relative to the file's folder.
            is_name = (name, key) == ("policy", "path") and value in READY
            folder = Path() if is_name else file.parent
            given[f"{name}.{key}"] = _Given(value, source, folder, strict=True)
    return given


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable, value in environ.items():
        section, _, key = variable.removeprefix(ENV_PREFIX).lower().partition("_")
        # An empty variable counts as unset, because container files often set a variable to nothing
        # instead of omitting it.
        ours = variable.startswith(ENV_PREFIX) and section in _sections() and key and value
        if ours and not (_NOT_OURS.fullmatch(variable) and f"{section}.{key}" not in _keys()):
            given[f"{section}.{key}"] = _Given(value, variable, Path(), strict=False)
    return given


def _convert(one: _Given, hint: object) -> object:
    def read_path(kind: type, value: object) -> object:
        if kind is Path and isinstance(value, str | Path):
            return one.folder / Path(value).expanduser()
        raise TypeError(f"{value!r} must be a string")

    value = one.value
    if hint is Address or Address in get_args(hint):
        value = _address(one)
    elif isinstance(value, str) and get_origin(hint) is tuple:
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(
            value, cast("type[object]", hint), strict=one.strict, dec_hook=read_path
        )
    except (msgspec.ValidationError, OverflowError) as error:
        names = f" (one of {', '.join(hint)})" if _is_enum(hint) else ""
        shown = "" if one.is_secret else f"; the value is {f'{one.value!r}'[:80]}"
        reason = f"{error}{names}{shown}"
        raise InvalidInputError(one.source, reason) from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise InvalidInputError(one.source, f"{converted} must be a finite number")
    return converted


def _is_enum(hint: object) -> TypeGuard[type[StrEnum]]:
    return isinstance(hint, type) and issubclass(hint, StrEnum)


def _address(one: _Given) -> Address:
    try:
        return parse_address(one.value if isinstance(one.value, str) else repr(one.value))
    except ValueError as error:
        raise InvalidInputError(one.source, str(error)) from error
