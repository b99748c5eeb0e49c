"""What all server processes have in common: where the ledger is, who may call, how they run."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import SystemRandom

import uvloop
from starlette.types import ASGIApp

from berth.adapters.http_server import listening, serve_http
from berth.adapters.memory import keep_freed_memory, spare_the_collector
from berth.adapters.system import LogTelemetry, SystemClock
from berth.api.auth import Auth, HttpBasic, NoAuth, NoAuth2
from berth.config.auth_file import AuthFile
from berth.config.logging import set_up_logging
from berth.config.settings import Address, AuthMode, AuthSettings, LedgerSettings, LogSettings
from berth.domain.errors import InvalidInputError
from berth.services.supervising import supervise

Loop = tuple[str, Callable[[], Awaitable[None]]]

_KEY_BYTES = 32


def run_process(log: LogSettings, main: Callable[[], Awaitable[None]]) -> None:
    """Run a process to its end."""
    set_up_logging(log)
    keep_freed_memory()

    async def wrapped() -> None:
        await main()

    uvloop.run(wrapped())


def ledger_url_of(ledger: LedgerSettings) -> str:
    """Return the URL of the ledger: the one given, or a SQLite file in the data folder."""
    if ledger.url is not None:
        return ledger.url
    return f"sqlite:///{ledger.data_dir.resolve() / 'berth.sqlite'}"


def make_data_dir(ledger: LedgerSettings) -> None:
    """Make the data folder, when the ledger is in it.

    Raises:
        InvalidInputError: it cannot be made.
    """
    if ledger.url is not None:
        return
    try:
        ledger.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = str(ledger.data_dir)
        raise InvalidInputError(where, f"cannot be made ({error.strerror})") from error


def auth_of(auth: AuthSettings, clock: SystemClock, telemetry: LogTelemetry) -> Auth:
    """Return who tells who calls."""
    admins = frozenset(auth.admins)
    if auth.mode is AuthMode.HTTP_BASIC and auth.htpasswd is not None:
        accounts = AuthFile(auth.htpasswd, clock, telemetry)
        return HttpBasic(accounts, clock, key=os.urandom(_KEY_BYTES), admins=admins)
    return NoAuth2(admins) if auth.mode is AuthMode.NOAUTH2 else NoAuth(admins)


@asynccontextmanager
async def running(
    loops: Sequence[Loop], clock: SystemClock, telemetry: LogTelemetry
) -> AsyncGenerator[None]:
    """Run loops beside the body, and stop them after it."""
    spare_the_collector()
    tasks = [
        asyncio.create_task(
            supervise(name, loop, clock=clock, telemetry=telemetry, rng=SystemRandom())
        )
        for name, loop in loops
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def serve_at(listen: Address, app: ASGIApp) -> None:
    """Serve an application until the process is told to stop, and say where."""
    with listening(listen.host, listen.port) as listener:
        address = Address(listen.host, listener.getsockname()[1])
        sys.stderr.write(f"Berth listens on http://{address}\n")
        await serve_http(app, listener)
