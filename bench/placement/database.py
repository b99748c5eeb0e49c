"""A PostgreSQL database for one side, which is dropped at the end."""

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from bench.errors import BenchError

_URL: Final = "postgresql://postgres@127.0.0.1:5432/postgres"
_CONNECT_S: Final = 5.0


class NoDatabaseError(BenchError):
    """There is no PostgreSQL server, or it refuses to create a database."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database; `name` is in the title of each server process that works for it."""

    name: str
    url: str


@contextmanager
def fresh_database() -> Iterator[Database]:
    """Create a database on the server that tests also use (`BERTH_TEST_POSTGRES_URL`).

    Raises:
        NoDatabaseError: the database cannot be created.
    """
    server = os.environ.get("BERTH_TEST_POSTGRES_URL", _URL)
    name = f"berth_bench_{os.getpid()}_{secrets.token_hex(4)}"
    try:
        execute(server, f"CREATE DATABASE {name}")
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise NoDatabaseError(f"no database on a PostgreSQL server: {error}") from error
    try:
        yield Database(name, urlsplit(server)._replace(path=f"/{name}").geturl())
    finally:
        execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def execute(url: str, statement: str) -> None:
    """Execute one statement on a new connection."""

    async def run() -> None:
        connection = await asyncpg.connect(url, timeout=_CONNECT_S)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())
