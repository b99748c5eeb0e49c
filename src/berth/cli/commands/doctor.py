"""`berth doctor`: examines an installation and says what to do."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path

import click

from berth.cli.command import berth_command
from berth.cli.failures import ExitCode, end_with
from berth.cli.output import json_option, print_json, print_line
from berth.config.settings_reader import read_settings

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@berth_command("doctor")
@click.option(
    "--config", type=click.Path(dir_okay=False, path_type=Path), help="TOML file with settings."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 600),
    default=15.0,
    help="Seconds that each check may take.",
)
@json_option
def doctor(*, config: Path | None, timeout_s: float, as_json: bool) -> None:
    """Examine this installation, and say what is wrong and what to do.

    Checks the settings and the files that they name, the ledger and its servers, hosts, the
    versions of running processes, child zones, the broker, Keystone, clocks, keys, permissions,
    disks and limits. Nothing is changed. Exits with 1 if a check fails.
    """
    settings = read_settings(config, os.environ, {})
    from berth.app.doctor import Status, diagnose  # noqa: PLC0415 - its imports take long

    found = asyncio.run(diagnose(settings, timeout_s=timeout_s))
    if as_json:
        print_json({"checks": [asdict(one) for one in found]})
    else:
        for one in found:
            print_line(f"{one.status:<4}  {one.check}: {one.seen}", style=_STYLES[one.status])
            if one.advice:
                print_line(f"      {one.advice}")
    if any(one.status is Status.FAIL for one in found):
        end_with(ExitCode.FAILED)
