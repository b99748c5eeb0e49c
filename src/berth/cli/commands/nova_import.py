"""`berth import`: takes over what Nova and Placement know, and verifies that nothing differs."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

import click

from berth.cli.command import berth_group
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.import_report import (
    plan_document,
    print_differences,
    print_plan,
    print_result,
    result_document,
)
from berth.cli.output import json_option, print_json, print_line
from berth.config.settings_reader import read_settings

if TYPE_CHECKING:
    from berth.app.nova_import import ImportRun
    from berth.config.settings import LedgerSettings
    from berth.ports.nova import NovaReader

F = TypeVar("F", bound=Callable[..., object])

_PATH: Final = click.Path(dir_okay=False, path_type=Path)
_SOURCE: Final = [
    click.option(
        "--from-api",
        "from_api",
        is_flag=True,
        help="Read the compute and Placement APIs, with the OS_* variables.",
    ),
    click.option(
        "--from-db",
        default="",
        metavar="URL",
        help="Read the databases nova_api, nova_cell0, nova and placement of this server "
        "(postgresql:// or mysql://), in read-only transactions.",
    ),
    click.option("--api-db", default="", metavar="URL", help="Nova's API database."),
    click.option("--placement-db", default="", metavar="URL", help="Placement's database."),
    click.option(
        "--cell-db",
        "cell_dbs",
        multiple=True,
        metavar="URL",
        help="Database of a cell; repeat it for all cells, cell0 included.",
    ),
    click.option(
        "--compute-url", default="", help="URL of the compute API, in place of the catalog's."
    ),
    click.option(
        "--placement-url", default="", help="URL of the Placement API, in place of the catalog's."
    ),
]
_LEDGER: Final = [
    click.option("--config", type=_PATH, help="TOML file with settings."),
    click.option(
        "--data",
        "ledger__data_dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder for the ledger.",
    ),
    click.option("--ledger", "ledger__url", help="URL of the ledger, instead of --data."),
]


def _options(command: F) -> F:
    """Add the options of the source and of the ledger to a command."""
    return reduce(lambda made, option: option(made), reversed([*_SOURCE, *_LEDGER]), command)


@berth_group("import")
def import_() -> None:
    """Take over what Nova knows, and verify it."""


@import_.command("nova")
@_options
@click.option("--dry-run", is_flag=True, help="Report what would be written; write nothing.")
@click.option("--prune", is_flag=True, help="Remove imported servers and hosts that Nova lost.")
@json_option
def nova(*, dry_run: bool, prune: bool, as_json: bool, **options: object) -> None:
    """Import hosts, capacity, flavors, groups, servers, quotas and keys of Nova into the ledger.

    Nothing of Nova is ever written. The servers stay Nova's: Berth counts and shows them, and
    refuses to change them. A repeated import writes only what has changed in Nova. Exits with 1 if
    some records could not be written.
    """
    run = _run(options, is_dry=dry_run, prunes=prune, is_quiet=as_json)
    if as_json:
        print_json(plan_document(run.plan) | result_document(run.result))
    elif run.result is None:
        print_plan(run.plan)
    else:
        print_result(run.plan, run.result)
    if run.result is not None and run.result.refused:
        end_with(ExitCode.FAILED)


@import_.command("verify")
@_options
@json_option
def verify(*, as_json: bool, **options: object) -> None:
    """Compare the ledger with Nova: every record, amounts of each host, allocations of consumers.

    Exits with 1 if something differs.
    """
    from berth.services.importing.verification import (  # noqa: PLC0415 - not needed for --help
        differences_in,
        host_totals,
    )

    plan = _run(options, is_dry=True, prunes=False, is_quiet=as_json).plan
    found, totals = differences_in(plan), host_totals(plan)
    if as_json:
        document = {
            "differences": [asdict(one) for one in found],
            "hosts": [asdict(one) for one in totals],
            "counts": [asdict(one) for one in plan.counts],
        }
        print_json(document)
    else:
        print_differences(plan, found, totals)
    if found:
        end_with(ExitCode.FAILED)


def _run(options: dict[str, object], *, is_dry: bool, prunes: bool, is_quiet: bool) -> "ImportRun":
    from berth.app.nova_import import run_import  # noqa: PLC0415 - its imports take long

    reader = _reader(options)

    def on_progress(done: int, total: int) -> None:
        if not is_quiet:
            print_line(f"{done:,} of {total:,} units written")

    return asyncio.run(
        run_import(reader, _ledger(options), is_dry=is_dry, prunes=prunes, on_progress=on_progress)
    )


def _ledger(options: dict[str, object]) -> "LedgerSettings":
    config = options["config"]
    given = {
        name.replace("__", "."): value
        for name, value in options.items()
        if name.startswith("ledger__") and value is not None
    }
    path = config if isinstance(config, Path) else None
    return read_settings(path, os.environ, given).ledger


def _reader(options: dict[str, object]) -> "NovaReader":
    """Return the reader that the options choose.

    Raises:
        CommandError: no source is chosen, or both are.
        InvalidInputError: an environment variable or a URL is missing or invalid.
    """
    server = str(options["from_db"])
    if bool(server) == bool(options["from_api"]):
        raise CommandError("give either --from-api or --from-db URL", ExitCode.USAGE)
    if server:
        return _database_reader(server, options)
    from berth.adapters.nova.api_reader import NovaApiReader  # noqa: PLC0415 - httpx takes long
    from berth.adapters.nova.credentials import credentials_from  # noqa: PLC0415 - likewise

    return NovaApiReader.with_credentials(
        credentials_from(
            os.environ,
            compute_url=str(options["compute_url"]),
            placement_url=str(options["placement_url"]),
        )
    )


def _database_reader(server: str, options: dict[str, object]) -> "NovaReader":
    from berth.adapters.nova.database_reader import NovaDatabaseReader  # noqa: PLC0415 - see above
    from berth.adapters.nova.nova_tables import database_urls  # noqa: PLC0415 - likewise

    cells = cast("tuple[str, ...]", options["cell_dbs"])
    return NovaDatabaseReader(
        database_urls(
            server,
            api=str(options["api_db"]),
            placement=str(options["placement_db"]),
            cells=cells,
        )
    )
