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

from berth.config.ready_policies import READY
from berth.config.setting_values import Address, parse_address
from berth.config.settings import Settings, contradictions
from berth.config.spelling import nearest
from berth.domain.errors import InvalidInputError

ENV_PREFIX = "BERTH_"

# A header of a table, and a key before its equals sign, which may be quoted or dotted.
_HEADER = re.compile(r"""\s*\[\s*["']?([A-Za-z0-9_-]+)["']?\s*\]""")
_KEY = re.compile(r"""\s*([A-Za-z0-9_."'\s-]+?)\s*=""")
# Kubernetes sets BERTH_API_PORT and the like in every pod that shares a namespace with a service
# named berth-api.
_NOT_OURS = re.compile(r".*_(SERVICE_(HOST|PORT)|PORT)(_.*)?")


@dataclass(frozen=True, slots=True)
class _Given:
    """A value from one of the sources, which is still to be converted.

    Attributes:
        value: the value as given.
        source: the place of the value, for error messages.
        origin: the place of the value in short: `FILE:LINE`, the variable, or `command line`.
        folder: the folder from which relative paths start.
        strict: whether the type of the value must match. TOML has types; variables and options are
            strings, which are converted to numbers.
        is_secret: whether error messages omit the value.
    """

    value: object
    source: str
    origin: str
    folder: Path
    strict: bool
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class Mistake:
    """An invalid setting.

    Attributes:
        key: the setting as `section.key`, or the section; empty for the file as a whole.
        origin: the place of the value: `FILE:LINE`, a variable, `command line`, or `default`.
        error: the error that a process would end with.
    """

    key: str
    origin: str
    error: InvalidInputError


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings of the three sources.

    Attributes:
        settings: the settings; None if there are mistakes.
        origins: the places of the given values, by `section.key`; all others are defaults.
        mistakes: all invalid settings. Contradictions between sections are among them only if each
            of these sections is valid by itself.
    """

    settings: Settings | None
    origins: Mapping[str, str]
    mistakes: tuple[Mistake, ...]


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
    reading = examine_settings(file, environ, options)
    if reading.settings is None:
        raise reading.mistakes[0].error
    return reading.settings


def examine_settings(
    file: Path | None, environ: Mapping[str, str], options: Mapping[str, object]
) -> Reading:
    """Return the settings with the origin of each, or all mistakes in them.

    Args:
        file: as for `read_settings`.
        environ: as for `read_settings`.
        options: as for `read_settings`.
    """
    mistakes: list[Mistake] = []
    given: dict[str, _Given] = {}
    if file is not None:
        given.update(_from_file(file, mistakes))
    given.update(_from_environ(environ))
    for key, value in options.items():
        if value is not None:
            given[key] = _Given(value, f"option {key}", "command line", Path(), strict=False)
    origins = {key: one.origin for key, one in given.items()}
    valid: dict[str, object] = {}
    for name, section in _sections().items():
        found = len(mistakes)
        made = _read_section(name, section, given, mistakes)
        if len(mistakes) == found:
            valid[name] = made
    # The values that are left belong to no setting, and a misspelt setting must not be ignored.
    for key, one in given.items():
        error = InvalidInputError(one.source, f"there is no such setting; {nearest(key, _keys())}")
        mistakes.append(Mistake(key, one.origin, error))
    mistakes += [
        Mistake(error.field, origins.get(error.field, "default"), error)
        for error in contradictions(valid)
    ]
    settings = None if mistakes else cast("Callable[..., Settings]", Settings)(**valid)
    return Reading(settings, origins, tuple(mistakes))


def _read_section(
    name: str,
    section: Callable[..., object],
    given: dict[str, _Given],
    mistakes: list[Mistake],
) -> object:
    """Return a section, and remove its values from those given; None after a mistake."""
    hints = get_type_hints(section, include_extras=True)
    secrets = _secrets_of(section)
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    found = len(mistakes)
    for key, hint in hints.items():
        full = f"{name}.{key}"
        one = given.pop(full, None)
        if one is None:
            continue
        origins[full] = one.origin
        try:
            values[key] = _convert(replace(one, is_secret=key in secrets), hint)
        except InvalidInputError as error:
            mistakes.append(Mistake(full, one.origin, error))
    if len(mistakes) > found:
        return None
    try:
        return section(**values)
    except InvalidInputError as error:
        mistakes.append(Mistake(error.field, origins.get(error.field, "default"), error))
    return None


def _sections() -> dict[str, Callable[..., object]]:
    return {name: cast("type", hint) for name, hint in get_type_hints(Settings).items()}


def secret_keys() -> set[str]:
    """Return the settings that may have secret values, as `section.key`."""
    return {
        f"{name}.{key}" for name, section in _sections().items() for key in _secrets_of(section)
    }


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


def _from_file(file: Path, mistakes: list[Mistake]) -> dict[str, _Given]:
    try:
        text = file.read_text("utf-8")
        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); check the path and its permissions"
        mistakes.append(Mistake("", str(file), InvalidInputError(str(file), reason)))
        return {}
    except (ValueError, RecursionError) as error:
        wrong = InvalidInputError(str(file), f"is not valid TOML ({error})")
        mistakes.append(Mistake("", str(file), wrong))
        return {}
    given: dict[str, _Given] = {}
    lines = _lines_of(text)
    for name, table in document.items():
        where = f"{file}: {name}"
        origin = _origin(file, lines.get(name))
        if name not in _sections():
            reason = f"there is no such section; {nearest(name, _sections())}"
            mistakes.append(Mistake(name, origin, InvalidInputError(where, reason)))
        elif not isinstance(table, dict):
            wrong = InvalidInputError(where, f"must be a table; write [{name}]")
            mistakes.append(Mistake(name, origin, wrong))
        else:
            for key, value in cast("dict[str, object]", table).items():
                # The name of a ready policy is not a path, so it is not relative to the file.
                is_name = (name, key) == ("policy", "path") and value in READY
                folder = Path() if is_name else file.parent
                full = f"{name}.{key}"
                origin = _origin(file, lines.get(full, lines.get(name)))
                given[full] = _Given(value, f"{where}.{key}", origin, folder, strict=True)
    return given


def _origin(file: Path, line: int | None) -> str:
    return str(file) if line is None else f"{file}:{line}"


def _lines_of(text: str) -> dict[str, int]:
    """Return the line numbers of the sections and keys in a TOML text, from 1.

    `tomllib` does not tell lines. A line of a multi-line string that looks like a key is taken for
    one, which can only make the place in an error imprecise.
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            section = header[1]
            found.setdefault(section, number)
        elif key is not None:
            name = re.sub(r"[\s\"']", "", key[1])
            found.setdefault(f"{section}.{name}" if section else name, number)
    return found


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable, value in environ.items():
        section, _, key = variable.removeprefix(ENV_PREFIX).lower().partition("_")
        # An empty variable counts as unset, because container files often set a variable to nothing
        # instead of omitting it.
        ours = variable.startswith(ENV_PREFIX) and section in _sections() and key and value
        if ours and not (_NOT_OURS.fullmatch(variable) and f"{section}.{key}" not in _keys()):
            given[f"{section}.{key}"] = _Given(value, variable, variable, Path(), strict=False)
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
