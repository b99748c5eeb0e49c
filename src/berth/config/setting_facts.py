"""What a reference of the settings says about each: its type, bounds, readers and meaning.

The meaning is the text below the field in the class of its section, so that it has one home, beside
the default and the bounds.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Final, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Meta

from berth.config.setting_values import Address
from berth.config.settings import Settings
from berth.config.settings_reader import ENV_PREFIX


class Process(StrEnum):
    """A process that reads settings, by its command."""

    UP = "up"
    API = "api"
    SCHEDULER = "scheduler"
    AGENT = "agent"
    PLACEMENT = "placement"


@dataclass(frozen=True, slots=True)
class SettingFacts:
    """What is known about a setting.

    Attributes:
        key: the setting as `section.key`.
        variable: its environment variable.
        type: the type of its values, with the unit.
        default: the default as TOML; empty if the setting is unset by default.
        bounds: the limits of its values; empty if the type says all.
        readers: the processes that use it.
        reread: when a process reads the content of the file again; empty if never.
        meaning: what it means, in Markdown.
    """

    key: str
    variable: str
    type: str
    default: str
    bounds: str
    readers: tuple[Process, ...]
    reread: str
    meaning: str


_UP: Final = Process.UP
_API: Final = Process.API
_SCHEDULER: Final = Process.SCHEDULER
_AGENT: Final = Process.AGENT
_PLACEMENT: Final = Process.PLACEMENT
_CONTROL: Final = (_UP, _API, _SCHEDULER)
_SERVERS: Final = (_UP, _API, _PLACEMENT)
_LEDGER: Final = (_UP, _API, _SCHEDULER, _PLACEMENT)
_HOSTS: Final = (_UP, _AGENT)
_ALL: Final = tuple(Process)

# The readers of a section, and of the settings that differ from the rest of their section.
_READERS: Final[Mapping[str, tuple[Process, ...]]] = {
    "api": (_UP, _API),
    "api.insecure_listen": _SERVERS,
    "api.body_bytes_max": _SERVERS,
    "api.default_availability_zone": _CONTROL,
    "api.images": (_UP, _API, _AGENT),
    "api.trusted_proxies": _SERVERS,
    "api.connections_max": _SERVERS,
    "console": (_UP, _API),
    "placement": _SERVERS,
    "placement.listen": (_PLACEMENT,),
    "auth": _SERVERS,
    "auth.region": (_UP, _API),
    "keystone": _SERVERS,
    "ledger": _LEDGER,
    "bus": _CONTROL,
    "bus.prefix": (_UP, _API, _SCHEDULER, _AGENT),
    "gateway": (_UP, _API),
    "policy": _CONTROL,
    "scheduler": _CONTROL,
    "scheduler.claim_attempts_max": (_UP, _SCHEDULER),
    "scheduler.build_attempts_max": (_UP, _API),
    "scheduler.resize_confirm_window_s": (_UP, _SCHEDULER),
    "scheduler.resize_in_place": (_UP, _API),
    "quota": _CONTROL,
    "agent": _HOSTS,
    "agent.build_failure_half_life_s": (_UP, _API),
    "agent.isolated_pause_s": (_AGENT,),
    "agent.gateway_url": (_AGENT,),
    "agent.gateway_ca_file": (_AGENT,),
    "agent.gateway_password_file": (_AGENT,),
    "agent.key_file": (_AGENT,),
    "agent.cpu_allocation_ratio": (_UP, _API),
    "agent.ram_allocation_ratio": (_UP, _API),
    "agent.disk_allocation_ratio": (_UP, _API),
    "agent.initial_cpu_allocation_ratio": (_UP, _API),
    "agent.initial_ram_allocation_ratio": (_UP, _API),
    "agent.initial_disk_allocation_ratio": (_UP, _API),
    "virt": _HOSTS,
    "tracking": (_UP, _SCHEDULER, _AGENT),
    "tracking.track_instance_changes": (_UP, _API, _SCHEDULER, _AGENT),
    "tracking.instance_information": (_UP, _SCHEDULER),
    "attestation": (_UP, _SCHEDULER),
    "zones": _CONTROL,
    "log": _ALL,
    "log.sample_reads": _SERVERS,
    "audit": _LEDGER,
    "metrics": _ALL,
    "metrics.flavors": _CONTROL,
    "tracing": _ALL,
    "health": _CONTROL,
    "health.lag_s_max": _LEDGER,
}

_WATCHED: Final = "content within 2 s"
_WHEN_REFUSED: Final = "content when Keystone refuses the secret"
# The files whose content a running process reads again.
_REREAD: Final[Mapping[str, str]] = {
    "auth.htpasswd": _WATCHED,
    "auth.token_keys": _WATCHED,
    "bus.key_file": _WATCHED,
    "gateway.key_file": _WATCHED,
    "zones.key_file": _WATCHED,
    "zones.parents_file": _WATCHED,
    "policy.path": "content within `policy.watch_interval_s`, on SIGHUP, by `berth policy reload`",
    "keystone.password_file": _WHEN_REFUSED,
    "keystone.application_credential_secret_file": _WHEN_REFUSED,
    "agent.gateway_password_file": "content at each connection",
}

_UNITS: Final = {"s": "s", "mb": "MiB", "gb": "GiB", "bytes": "bytes", "days": "days"}
# The number of these is not an amount of bytes, whatever the name says.
_UNITLESS: Final = frozenset({"quota.injected_file_content_bytes"})
_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "path"}
_BLANKS: Final = re.compile(r"\s+")


def facts_of_settings() -> Iterator[SettingFacts]:
    """Yield the facts about every setting, section by section, in the order of the classes."""
    for section, kind in sections().items():
        hints = get_type_hints(kind, include_extras=True)
        meanings = _meanings(kind)
        for one in fields(cast("type[Settings]", kind)):
            key = f"{section}.{one.name}"
            yield SettingFacts(
                key=key,
                variable=f"{ENV_PREFIX}{section}_{one.name}".upper(),
                type=_type_of(hints[one.name], _unit_of(key)),
                default=_default_of(one),
                bounds=", ".join(_bounds_of(hints[one.name])),
                readers=_READERS.get(key, _READERS[section]),
                reread=_REREAD.get(key, ""),
                meaning=meanings.get(one.name, ""),
            )


def sections() -> Mapping[str, type]:
    """Return the class of each section, by its name."""
    return {name: cast("type", hint) for name, hint in get_type_hints(Settings).items()}


def known_overrides() -> set[str]:
    """Return the sections and settings for which this module has facts of its own."""
    return {*_READERS, *_REREAD, *_UNITLESS}


def _meanings(kind: type) -> dict[str, str]:
    """Return the texts below the fields of a class, by the fields' names."""
    (body,) = (
        one.body for one in ast.parse(inspect.getsource(kind)).body if isinstance(one, ast.ClassDef)
    )
    found: dict[str, str] = {}
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[field.target.id] = _BLANKS.sub(" ", str(text.value.value)).strip()
    return found


def _unit_of(key: str) -> str:
    words = key.partition(".")[2].split("_")
    return "" if key in _UNITLESS else next((_UNITS[word] for word in words if word in _UNITS), "")


def _bare(hint: object) -> object:
    """Return a type without its annotations and without None."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in {Union, UnionType}:
        (one,) = (arg for arg in get_args(hint) if arg is not NoneType)
        return _bare(one)
    return hint


def _type_of(hint: object, unit: str) -> str:
    """Return the name of a type, with the unit of its values."""
    bare = _bare(hint)
    if get_origin(bare) is tuple:
        return f"list of {_type_of(get_args(bare)[0], '')}s"
    if bare is Address:
        return "`HOST:PORT`"
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return ", ".join(f"`{one}`" for one in bare)
    name = _NAMES[cast("type", bare)]
    return f"{name}, {unit}" if unit else name


def _default_of(one: Field[object]) -> str:
    """Return a default as it would be written in TOML; empty for None."""
    default = one.default
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int):
        return str(default)
    if isinstance(default, float):
        return f"{default:.15g}"
    if isinstance(default, tuple):
        return f"[{', '.join(map(_quoted, cast('tuple[object, ...]', default)))}]"
    return _quoted(default)


def _quoted(value: object) -> str:
    return f'"{value}"'


def _bounds_of(hint: object) -> Iterator[str]:
    """Yield the limits in the annotations of a type, and in those of the items of a list."""
    if get_origin(hint) in {Union, UnionType, tuple}:
        for one in get_args(hint):
            yield from _bounds_of(one)
        return
    if get_origin(hint) is not Annotated:
        return
    inner, *notes = get_args(hint)
    yield from _bounds_of(inner)
    is_list = get_origin(_bare(inner)) is tuple
    for note in notes:
        if isinstance(note, Meta):
            yield from _limits_of(note, "values" if is_list else "characters")


def _number(bound: float) -> str:
    # `typing` keeps one of several equal annotations, so a bound of 10,000 may be the 10,000.0 of
    # another module.
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:,}"


def _limits_of(note: Meta, counted: str) -> Iterator[str]:
    """Yield the limits of one annotation.

    Args:
        note: the annotation.
        counted: what its lengths count.
    """
    low = f"at least {_number(note.ge)}" if note.ge is not None else ""
    low = f"more than {_number(note.gt)}" if note.gt is not None else low
    high = f"at most {_number(note.le)}" if note.le is not None else ""
    yield from filter(None, (low, high))
    if note.max_length is not None:
        yield f"{note.min_length or 0} to {note.max_length} {counted}"
    if note.pattern is not None:
        yield f"`{note.pattern.removeprefix('^').removesuffix('$')}`".replace("|", r"\|")
