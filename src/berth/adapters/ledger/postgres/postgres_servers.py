"""The roles and the replication of the PostgreSQL servers that a ledger URL names."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg

from berth.adapters.ledger.ledger_url import server_urls
from berth.adapters.ledger.postgres.postgres_connection import FIND_PROMOTIONS, LOST
from berth.domain.url_redaction import redact_accounts

_TIMEOUT_S: Final = 5.0
_REPLICAS: Final = (
    "SELECT coalesce(application_name, '?'), coalesce(state, '?'), coalesce(sync_state, '?')"
    " FROM pg_stat_replication ORDER BY 1"
)
_SLOTS: Final = (
    "SELECT slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots"
    " WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY 1"
)
_RECEIVERS: Final = "SELECT count(*) FROM pg_stat_wal_receiver"
_LAG: Final = (
    "SELECT CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0"
    " ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END"
)


@dataclass(frozen=True, slots=True)
class Replica:
    """A standby as the primary sees it: its name, `streaming` or another state, `sync` or `async`.

    The state is `?` if the user of the ledger may not see it.
    """

    name: str
    state: str
    sync_state: str


@dataclass(frozen=True, slots=True)
class ServerState:
    """A PostgreSQL server and its part in replication.

    Attributes:
        address: its host and port, without the account.
        error: why it cannot be examined; empty if it can.
        is_standby: whether it is a standby.
        timeline: the number of promotions in the history of a primary, counted from 1; 0 for a
            standby.
        replicas: the standbys that a primary serves.
        idle_slots: bytes of WAL that a primary keeps for each slot that no standby uses, by name.
        is_receiving: whether a standby is connected to a primary.
        lag_s: seconds by which the data of a standby are behind; 0 if it has replayed everything.
    """

    address: str
    error: str = ""
    is_standby: bool = False
    timeline: int = 0
    replicas: tuple[Replica, ...] = ()
    idle_slots: tuple[tuple[str, int], ...] = ()
    is_receiving: bool = False
    lag_s: float = 0.0


async def examine_servers(url: str) -> Sequence[ServerState]:
    """Return the state of each server that a PostgreSQL URL names, in its order."""
    return await asyncio.gather(*(_examine(one) for one in server_urls(url)))


async def _examine(url: str) -> ServerState:
    address = urlsplit(url).netloc.rpartition("@")[2] or "the local server"
    try:
        connection = await asyncpg.connect(url, timeout=_TIMEOUT_S, command_timeout=_TIMEOUT_S)
        try:
            if await connection.fetchval("SELECT pg_is_in_recovery()"):
                return await _standby(address, connection)
            return await _primary(address, connection)
        finally:
            connection.terminate()
    except (*LOST, asyncpg.PostgresError) as error:
        return ServerState(address, redact_accounts(str(error)) or type(error).__name__)


async def _primary(address: str, connection: Any) -> ServerState:  # noqa: ANN401 - asyncpg has no types
    timeline = int(str(await connection.fetchval(FIND_PROMOTIONS)), 16)
    replicas = tuple(Replica(*row) for row in await connection.fetch(_REPLICAS))
    slots: tuple[tuple[str, int], ...] = ()
    with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
        slots = tuple((str(name), int(kept)) for name, kept in await connection.fetch(_SLOTS))
    return ServerState(address, timeline=timeline, replicas=replicas, idle_slots=slots)


async def _standby(address: str, connection: Any) -> ServerState:  # noqa: ANN401 - see above
    receivers = await connection.fetchval(_RECEIVERS)
    lag_s = float(await connection.fetchval(_LAG) or 0.0)
    return ServerState(address, is_standby=True, is_receiving=bool(receivers), lag_s=lag_s)
