"""Connections to the PostgreSQL server that is the primary now."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from berth.adapters.ledger.ledger_url import server_urls

LOST: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresSystemError,
    asyncpg.TransactionRollbackError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""Errors that mean that the server cannot answer any request now."""


# When one server has answered, the others get this many seconds to do so as well.
_GRACE_S: Final = 0.5
# The name of a WAL file begins with the server's timeline, which a promotion increments.
FIND_PROMOTIONS: Final = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"


async def connect_to_primary(
    url: str,
    *,
    timeout: float,  # noqa: ASYNC109 - asyncpg names it so, and its pool passes it on
    **settings: Any,  # noqa: ANN401 - those of asyncpg
) -> asyncpg.Connection:
    """Return a connection to the server of a URL that is the primary.

    All servers are tried at the same time, so one that is switched off hardly delays connections to
    the others. If a former primary runs again beside the promoted replica, it is not used.

    Args:
        url: the URL of the ledger.
        timeout: seconds to wait for each server.
        settings: further arguments of `asyncpg.connect`.

    Raises:
        OSError, asyncpg.PostgresError, asyncpg.InternalClientError: no server can be used.
    """
    settings |= {"timeout": timeout, "target_session_attrs": "primary"}
    attempts = [asyncio.ensure_future(asyncpg.connect(one, **settings)) for one in server_urls(url)]
    chosen: asyncio.Future[asyncpg.Connection] | None = None
    try:
        chosen = await _newest_primary(attempts)
        return chosen.result()
    finally:
        for attempt in attempts:
            if attempt is not chosen:
                attempt.cancel()
                attempt.add_done_callback(_discard)


async def _newest_primary(
    attempts: "Sequence[asyncio.Future[asyncpg.Connection]]",
) -> "asyncio.Future[asyncpg.Connection]":
    """Return the attempt that reached the server which was promoted last."""
    waiting = set(attempts)
    primaries: list[asyncio.Future[asyncpg.Connection]] = []
    while waiting:
        done, waiting = await asyncio.wait(
            waiting,
            timeout=_GRACE_S if primaries else None,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not done:
            break
        primaries += [one for one in done if one.exception() is None]
    if not primaries:
        # A refusal by one server explains the failure better than the errors of the others.
        errors = [error for one in attempts if (error := one.exception()) is not None]
        raise next((one for one in errors if isinstance(one, asyncpg.PostgresError)), errors[0])
    if len(primaries) == 1:
        return primaries[0]
    promotions = [str(await one.result().fetchval(FIND_PROMOTIONS)) for one in primaries]
    return primaries[promotions.index(max(promotions))]


def _discard(attempt: "asyncio.Future[asyncpg.Connection]") -> None:
    """Close the connection of an attempt that is not needed."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()
