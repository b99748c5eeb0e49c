"""Imports of a Nova cloud: the reader, the ledger, and the comparison of the two."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from berth.adapters.ledger import open_ledger, schema_of
from berth.adapters.system import SystemClock
from berth.app.run import ledger_url_of, make_data_dir, sqlite_path_of
from berth.config.settings import LedgerSettings
from berth.ports.ledger import Ledger
from berth.ports.nova import NovaReader
from berth.services.importing.import_plan import ImportPlan
from berth.services.importing.importer import ImportResult, NovaImport

_MEMORY: Final = "memory:"


class ImportRun(NamedTuple):
    """A finished import: its plan, and its result, which is None after a dry run."""

    plan: ImportPlan
    result: ImportResult | None


async def run_import(
    reader: NovaReader,
    settings: LedgerSettings,
    *,
    is_dry: bool,
    prunes: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ImportRun:
    """Compare a Nova cloud with the ledger and, unless it is a dry run, write what differs.

    Args:
        reader: reads the cloud; it is closed at the end.
        settings: the address of the ledger.
        is_dry: whether to write nothing. The tables of a new ledger are not created then either.
        prunes: whether to remove what Nova no longer has.
        on_progress: see `NovaImport.carry_out`.

    Raises:
        UnavailableError: the ledger or Nova cannot be reached.
        AccessDeniedError: Nova refuses the credentials.
        InvalidInputError: an answer of Nova cannot be understood.
        LedgerError: the ledger cannot be opened.
    """
    try:
        # Nova is read first, so that an import with wrong credentials creates no ledger.
        cloud = await reader.read()
    finally:
        await reader.close()
    async with _opened(settings, is_dry=is_dry) as ledger:
        work = NovaImport(ledger, SystemClock())
        plan = await work.plan(cloud)
        if is_dry:
            return ImportRun(plan, None)
        return ImportRun(plan, await work.carry_out(plan, prunes=prunes, on_progress=on_progress))


@asynccontextmanager
async def _opened(settings: LedgerSettings, *, is_dry: bool) -> AsyncGenerator[Ledger]:
    url = ledger_url_of(settings)
    if not is_dry:
        make_data_dir(settings)
    elif not await _is_there(url):
        url = _MEMORY
    ledger = await open_ledger(url)
    try:
        yield ledger
    finally:
        await ledger.close()


async def _is_there(url: str) -> bool:
    """Return whether a ledger has tables; a file that does not exist is not created."""
    path = sqlite_path_of(url)
    if path is not None and not path.exists():
        return False
    return await schema_of(url) is not None
