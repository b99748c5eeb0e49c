"""How many transactions the PostgreSQL ledger makes for its reads."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from asyncpg.connection import LoggedQuery

from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.ledger.postgres.postgres_ledger import PostgresLedger
from berth.testing.emptying import empty

pytestmark = pytest.mark.postgres


@asynccontextmanager
async def recorded(url: str) -> AsyncGenerator[tuple[PostgresLedger, list[str]]]:
    """Yield an empty ledger, and the statements that its only reader sends from now on."""
    await migrate(url)
    await empty(url)
    ledger = await open_ledger(url)
    assert isinstance(ledger, PostgresLedger)
    statements: list[str] = []

    def record(query: LoggedQuery) -> None:
        statements.append(query.query)

    try:
        async with ledger._pool.acquire() as connection:
            connection.add_query_logger(record)
        yield ledger, statements
    finally:
        await ledger.close()


async def test_a_read_is_one_transaction(postgres_url: str) -> None:
    """The check for new versions, which each process makes every second, is one statement."""
    async with recorded(postgres_url) as (ledger, statements):
        for _ in range(3):
            assert await ledger.changes(await ledger.version()) == []
        assert len(statements) == 6
        assert all(one.startswith("SELECT ") for one in statements)


async def test_a_reader_that_returns_in_a_transaction_is_rolled_back(postgres_url: str) -> None:
    """The next read sees the newest state although the reader before left a transaction open."""
    async with recorded(postgres_url) as (ledger, statements):
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # asyncpg reports it
        async with ledger._pool.acquire() as connection:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await connection.fetchval("SELECT version FROM head")
        assert statements[-1] == "ROLLBACK"
        async with ledger._pool.acquire() as connection:
            assert not connection.is_in_transaction()
