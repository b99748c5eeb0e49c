"""Functions that all server processes use: ledger address, authentication, supervised loops."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, NamedTuple

import uvloop
from starlette.types import ASGIApp

from berth.adapters.gateway.session import SessionList
from berth.adapters.gateway.websocket_server import socket_class
from berth.adapters.http_server import ConnectionPolicy, TlsFiles, listening, serve_http
from berth.adapters.system import (
    LogTelemetry,
    RandomIds,
    SystemClock,
    keep_freed_memory,
    raise_file_limit,
    spare_the_collector,
)
from berth.api.auth.authentication import Auth, HttpBasic, NoAuth, NoAuth2
from berth.api.auth.directory import AccountDirectory, Directory, OpenDirectory
from berth.api.auth.keystone import KeystoneAuth
from berth.api.auth.tokens import NamedTokens, SealedTokens, Seals, TokenAuth, Tokens
from berth.app.keystone import keystone_auth
from berth.app.private_files import FOLDER_MODE, make_database_private, make_folder_private
from berth.config.api_settings import AuthMode
from berth.config.auth_file import AuthFile
from berth.config.logging import set_up_logging
from berth.config.setting_values import Address
from berth.config.settings import LedgerSettings, Settings
from berth.config.telemetry_settings import LogSettings
from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock
from berth.ports.telemetry import Metrics, Telemetry

Loop = tuple[str, Callable[[], Awaitable[None]]]

_KEY_BYTES = 32
_BACKOFF_FIRST_S = 0.1
_BACKOFF_MAX_S = 10.0
_CALM_S = 30.0
_SQLITE: Final = "sqlite:///"


def run_process(log: LogSettings, main: Callable[[], Awaitable[None]]) -> None:
    """Set up the process, and run `main` in an event loop until it returns."""
    set_up_logging(log)
    # This comes before the first large allocation, since it affects only memory freed later.
    keep_freed_memory()
    raise_file_limit()

    async def wrapped() -> None:
        await main()

    uvloop.run(wrapped())


def ledger_url_of(ledger: LedgerSettings) -> str:
    """Return the ledger's URL: the configured one, or a SQLite file in the data folder."""
    if ledger.url is not None:
        return ledger.url
    return f"sqlite:///{ledger.data_dir.resolve() / 'berth.sqlite'}"


def sqlite_path_of(url: str) -> Path | None:
    """Return the path of the file of a SQLite ledger, or None for any other ledger."""
    if not url.startswith(_SQLITE):
        return None
    path = url.removeprefix(_SQLITE).partition("?")[0]
    return Path(path) if path else None


def make_data_dir(ledger: LedgerSettings) -> None:
    """Create the data folder if the ledger is a file in it; make both private to their owner.

    A mode that gives other users access is corrected, with a warning in the log.

    Raises:
        InvalidInputError: the folder cannot be created.
    """
    if ledger.url is None:
        make_folder(ledger.data_dir)
        make_folder_private(ledger.data_dir)
    # A file that `ledger.url` names may be in a folder that others need.
    found = sqlite_path_of(ledger_url_of(ledger))
    if found is not None:
        make_database_private(found)


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner can use, and its missing parents, unless it exists.

    Raises:
        InvalidInputError: the folder cannot be created.
    """
    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        where = str(folder)
        raise InvalidInputError(
            where, f"cannot be created ({error.strerror}); check the path and its permissions"
        ) from error


class Authentication(NamedTuple):
    """The authentication of requests: the authenticator, the user directory, and the token service.

    `tokens` is None when the API issues none. `keystone` is the authenticator again if an external
    Keystone validates tokens, and otherwise None; the directory is unused with Keystone.
    """

    auth: Auth
    directory: Directory
    tokens: Tokens | None
    keystone: KeystoneAuth | None = None


def authentication_of(
    settings: Settings, clock: SystemClock, telemetry: LogTelemetry, metrics: Metrics
) -> Authentication:
    """Return the authentication of requests that the settings choose.

    Raises:
        InvalidInputError: the file of users, of token keys or of Berth's secret for Keystone is
            invalid, keystoneauth1 is not installed, or the data folder cannot be created.
    """
    auth = settings.auth
    admins = frozenset(auth.admins)
    if auth.mode is AuthMode.KEYSTONE:
        keystone = keystone_auth(settings, clock, telemetry, metrics)
        return Authentication(keystone, OpenDirectory(admins), None, keystone)
    if not auth.mode.has_passwords or auth.htpasswd is None:
        everybody = OpenDirectory(admins)
        tokens = NamedTokens(everybody, clock, lifetime_s=auth.token_lifetime_s)
        is_strict = auth.mode is AuthMode.NOAUTH2
        return Authentication(NoAuth2(admins) if is_strict else NoAuth(admins), everybody, tokens)
    accounts = AuthFile(auth.htpasswd, clock, telemetry)
    directory = AccountDirectory(accounts, admins)
    basic = HttpBasic(accounts, clock, key=os.urandom(_KEY_BYTES), admins=admins)
    if auth.mode is AuthMode.HTTP_BASIC:
        return Authentication(basic, directory, None)
    sealed = SealedTokens(
        basic,
        directory,
        _seals(settings, clock, telemetry),
        clock,
        RandomIds(),
        lifetime_s=auth.token_lifetime_s,
    )
    return Authentication(TokenAuth(sealed, directory, basic), directory, sealed)


def _seals(settings: Settings, clock: SystemClock, telemetry: LogTelemetry) -> Seals:
    # Imported here, so that only processes that issue tokens load the ciphers.
    from berth.config.key_file import KeyFile  # noqa: PLC0415
    from berth.services.crypto.sealing import Sealer  # noqa: PLC0415

    path = settings.auth.token_keys
    if path is None:
        folder = settings.ledger.data_dir
        make_folder(folder)
        path = folder / "token-keys"
    return Sealer(KeyFile(path, clock, telemetry), os.urandom)


@asynccontextmanager
async def running(
    loops: Sequence[Loop], clock: SystemClock, telemetry: LogTelemetry
) -> AsyncGenerator[None]:
    """Run supervised loops within the context, and cancel them at its end; see `supervise`."""
    # The tables are loaded by now; full garbage collections over them would stall requests.
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


async def serve_at(
    listen: Address,
    app: ASGIApp,
    tls: TlsFiles | None = None,
    sessions: SessionList | None = None,
    connections: ConnectionPolicy | None = None,
) -> None:
    """Serve an application until the process is stopped; print its address to stderr.

    Args:
        listen: the address.
        app: the application.
        tls: the certificate; None serves unencrypted HTTP.
        sessions: the sessions of agents that connect; None refuses agents.
        connections: the trusted proxies and the limit on connections; None uses the defaults.

    Raises:
        InvalidInputError: the address or the certificate cannot be used.
    """
    with listening(listen.host, listen.port) as listener:
        # With port 0 the system chooses the port, so it is read from the socket.
        address = Address(listen.host, listener.getsockname()[1])
        scheme = "http" if tls is None else "https"
        sys.stderr.write(f"Berth listens on {scheme}://{address}\n")
        sockets = None if sessions is None else socket_class(sessions)
        await serve_http(app, listener, tls, sockets, connections or ConnectionPolicy())


async def supervise(
    name: str,
    loop: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    telemetry: Telemetry,
    rng: Random,
) -> None:
    """Run a loop until cancelled, and restart it after a pause whenever it fails or returns.

    The pause has jitter and doubles each time, from 0.1 to 10 seconds. It is 0.1 seconds again
    after the loop has run for more than 30 seconds.

    Args:
        name: the loop's name in log events.
        loop: called for each run; it is expected to end only by an error or by being cancelled.
        clock: measures the runs and the pauses.
        telemetry: receives each end of a run.
        rng: the random source of the jitter.
    """
    pause_s = _BACKOFF_FIRST_S
    while True:
        began_s = clock.now_s()
        try:
            await loop()
            telemetry.event("loop_ended", loop=name)
        except Exception as error:  # noqa: BLE001 - no unexpected error may end a loop
            telemetry.failure("loop_failed", error, loop=name)
        if clock.now_s() - began_s > _CALM_S:
            pause_s = _BACKOFF_FIRST_S
        # The jitter keeps the loops of many processes from retrying a recovered ledger in step.
        await clock.sleep(pause_s * rng.uniform(0.5, 1.5))
        pause_s = min(pause_s * 2, _BACKOFF_MAX_S)
