"""`berth config`: check a settings file, and show the settings in force with their origins."""

import os
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import click

from berth.cli.command import OneOf, berth_group
from berth.cli.commands.serving import given_options, setting_options
from berth.cli.failures import ExitCode, end_with
from berth.cli.output import json_option, print_json, print_line, print_table
from berth.config.settings import Settings
from berth.config.settings_reader import Mistake, Reading, examine_settings, secret_keys
from berth.domain.url_redaction import redact_url

_DEFAULT: Final = "default"
_HIDDEN: Final = "(hidden)"
# Hidden settings of which the host may be shown, but not the account or the query.
_URLS: Final = frozenset(
    {"ledger.url", "bus.url", "agent.gateway_url", "virt.uri", "virt.peer_uri", "keystone.auth_url"}
)


@berth_group("config")
def config() -> None:
    """Check and show settings."""


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--role",
    type=OneOf(["api", "scheduler", "agent", "all"]),
    default="all",
    help="Kind of process that is to read the file; by default all.",
)
@click.option("--strict", is_flag=True, help="Exit with 2 when there are warnings.")
@json_option
def check(*, file: Path, role: str, strict: bool, as_json: bool) -> None:
    """Check a settings file, and all files that it names, without starting a process.

    The variables BERTH_<SECTION>_<KEY> of the environment override the file, as for the processes.
    """
    reading = examine_settings(file, os.environ, {})
    found: list[dict[str, str]] = [
        {
            "key": one.key,
            "origin": one.origin,
            "severity": "error",
            "text": _text_of(one),
        }
        for one in reading.mistakes
    ]
    found += _findings(file, reading, role)
    if as_json:
        print_json({"file": str(file), "role": role, "findings": found})
    else:
        for one in found:
            style = "red" if one["severity"] == "error" else "yellow"
            print_line(f"{one['severity']}: {one['origin']}: {one['text']}", style=style)
        print_line(_summary(file, found))
    if any(strict or one["severity"] == "error" for one in found):
        end_with(ExitCode.USAGE)


def _findings(file: Path, reading: Reading, role: str) -> list[dict[str, str]]:
    """Return what is wrong with the files that valid settings name, and with the file's mode."""
    settings = reading.settings
    if settings is None:
        return []
    # Imported here, because the policy needs NumPy, and the certificates a cipher library.
    from berth.config.settings_check import (  # noqa: PLC0415
        Role,
        check_settings,
        config_file_finding,
    )

    found = check_settings(settings, Role(role), datetime.now(UTC))
    alone = examine_settings(file, {}, {}).settings
    mode = None if alone is None else config_file_finding(file, alone)
    return [
        {**asdict(one), "origin": reading.origins.get(one.key, _DEFAULT if one.key else str(file))}
        | {"text": f"{one.key}: {one.text}" if one.key else one.text}
        for one in [*found, *([] if mode is None else [mode])]
    ]


def _text_of(one: Mistake) -> str:
    reason = " ".join(one.error.reason.split())
    return f"{one.key}: {reason}" if one.key else reason


def _summary(file: Path, found: list[dict[str, str]]) -> str:
    errors = sum(one["severity"] == "error" for one in found)
    if not found:
        return f"{file} is valid"
    verdict = "is invalid" if errors else "is valid"
    return f"{file} {verdict}: {_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@config.command("show")
@setting_options
@click.option("--changed", is_flag=True, help="Show only settings that are not defaults.")
@json_option
def show(*, config: Path | None, changed: bool, as_json: bool, **options: object) -> None:
    """Show the settings that a process with this file, environment and options would have.

    Each setting is shown with its origin. Secrets are never shown.
    """
    reading = examine_settings(config, os.environ, given_options(options))
    if reading.settings is None:
        raise reading.mistakes[0].error
    rows = [
        {"key": key, "value": value, "origin": reading.origins.get(key, _DEFAULT)}
        for key, value in _values(reading.settings).items()
        if key in reading.origins or not changed
    ]
    if as_json:
        print_json({"settings": rows})
    else:
        print_table(
            ["key", "value", "origin"],
            [[row["key"], _cell(row["value"]), row["origin"]] for row in rows],
        )


def _values(settings: Settings) -> dict[str, object]:
    """Return the values by `section.key`, in the order of the sections, without secrets."""
    secrets = secret_keys()
    found: dict[str, object] = {}
    for section in fields(settings):
        values: object = getattr(settings, section.name)
        for one in fields(type(values)):  # type: ignore[arg-type] # every section is a dataclass
            key = f"{section.name}.{one.name}"
            found[key] = _shown(key, getattr(values, one.name), is_secret=key in secrets)
    return found


def _shown(key: str, value: object, *, is_secret: bool) -> object:
    """Return a value as JSON, or what may be shown of a secret one."""
    if value is None or value == "":
        return value
    if is_secret:
        return redact_url(str(value)) if key in _URLS else _HIDDEN
    if isinstance(value, tuple):
        return [str(one) for one in cast("tuple[object, ...]", value)]
    return value if isinstance(value, bool | int | float) else str(value)


def _cell(value: object) -> object:
    return ", ".join(cast("list[str]", value)) if isinstance(value, list) else value
