"""The PostgreSQL ledger when its server refuses, hangs or breaks connections."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from berth.adapters.ledger import migrate, open_ledger
from berth.adapters.ledger.postgres.postgres_ledger import PostgresLedger
from berth.domain.compute.flavor import Flavor
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Committed, Put
from berth.testing.builders import make_flavor
from berth.testing.emptying import empty
from tests.proxy import Proxy, proxying

pytestmark = pytest.mark.postgres

_TIMEOUT_S = 0.3


@asynccontextmanager
async def near(url: str) -> AsyncGenerator[tuple[PostgresLedger, Proxy]]:
    """Yield an empty ledger that is reached through a proxy, and the proxy."""
    await migrate(url)
    await empty(url)
    parts = urlsplit(url)
    async with proxying(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        netloc = f"{user}127.0.0.1:{proxy.port}"
        # Without TLS, so that the proxy can read the messages.
        there = parts._replace(netloc=netloc, query="sslmode=disable").geturl()
        ledger = await open_ledger(there, timeout_s=_TIMEOUT_S)
        assert isinstance(ledger, PostgresLedger)
        yield ledger, proxy
        await ledger.close()


async def check_refusals(ledger: PostgresLedger, words: str) -> None:
    """Check that every call raises an error with these words and without the server's address."""
    asked = [
        ledger.get(Flavor, "1"),
        ledger.snapshot(0.0),
        ledger.version(),
        ledger.changes(0),
        ledger.commit([(Put(make_flavor(2)),)]),
    ]
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, UnavailableError)
        assert words in str(answer)
        assert "127.0.0.1" not in str(answer)


async def test_silence_is_given_up_and_got_over(postgres_url: str) -> None:
    """Calls to a silent server time out, and work again later on new connections."""
    async with near(postgres_url) as (ledger, proxy):
        assert await ledger.commit([(Put(make_flavor(1)),)]) == [Committed(1)]
        proxy.is_silent = True
        await check_refusals(ledger, f"PostgreSQL did not answer within {_TIMEOUT_S:g} s")
        proxy.is_silent = False
        assert await ledger.get(Flavor, "1") is not None
        other = await open_ledger(postgres_url)
        waiting = asyncio.create_task(ledger.wait(1, 60.0))
        assert await other.commit([(Put(make_flavor(3)),)]) == [Committed(2)]
        assert await waiting
        await other.close()


async def test_whoever_stops_waiting_is_not_kept(postgres_url: str) -> None:
    """A call that is cancelled during silence ends immediately, and the next call succeeds."""
    async with near(postgres_url) as (ledger, proxy):
        proxy.is_silent = True
        asking = asyncio.create_task(ledger.version())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        proxy.is_silent = False
        assert await ledger.version() == 0


async def test_a_silent_server_hardly_delays_connections_to_another(postgres_url: str) -> None:
    """With several servers, one that is switched off is not waited for until the timeout."""
    async with near(postgres_url) as (_, proxy):
        proxy.is_silent = True
        parts = urlsplit(postgres_url)
        user, at, host = parts.netloc.rpartition("@")
        netloc = f"{user}{at}127.0.0.1:{proxy.port},{host}"
        async with asyncio.timeout(8):
            ledger = await open_ledger(parts._replace(netloc=netloc).geturl(), timeout_s=10.0)
            assert await ledger.commit([(Put(make_flavor(1)),)]) == [Committed(1)]
            await ledger.close()


async def test_a_refusal_is_told_at_once(postgres_url: str) -> None:
    """Every call fails while the server refuses connections, and succeeds once it is back."""
    async with near(postgres_url) as (ledger, proxy):
        proxy.is_closed = True
        await proxy.cut()
        await check_refusals(ledger, "PostgreSQL can")
        proxy.is_closed = False
        assert await ledger.commit([(Put(make_flavor(1)),)]) == [Committed(1)]
        assert await ledger.version() == 1


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_commit_whose_answer_is_lost_may_have_arrived(
    postgres_url: str, *, arrives: bool
) -> None:
    """A commit with a lost answer raises UnavailableError; a read shows whether it arrived."""
    async with near(postgres_url) as (ledger, proxy):
        if arrives:
            proxy.loses_answer_of = b"COMMIT"
        else:
            proxy.loses = b"COMMIT"
        with pytest.raises(UnavailableError):
            await ledger.commit([(Put(make_flavor(1)),)])
        assert bool(await ledger.all(Flavor)) == arrives
