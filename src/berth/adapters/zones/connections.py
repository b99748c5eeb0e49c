"""Connections to child zones: aiohttp keeps them, and a doubtful one is not used again."""

import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import WeakSet

from aiohttp import ClientConnectionError, ClientRequest, ClientTimeout, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

IDLE_S: Final = 4.0
"""Seconds after which an unused connection is not used again: servers of Berth close it after
five, and what is sent just then is lost."""
CONNECTIONS_MAX: Final = 64
"""Connections to one zone; who comes when all are in use waits for one."""


@dataclass(slots=True)
class Progress:
    """How far a request has come: whether it has a connection, and one that was used before.

    From then on any of it may have been sent. (aiohttp tells of it, too; that takes several times
    as long as all that is done here.)
    """

    is_sent: bool = False
    was_kept: bool = False


PROGRESS: Final[ContextVar[Progress]] = ContextVar("progress")
"""That of the request that this task makes."""


class Connector(TCPConnector):
    """Connects, and keeps connections, as aiohttp does, with two cares more.

    What came on a kept connection while nobody asked would be read as the answer to the next
    request. And a request that its server does not read would stay in memory after its end.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        # One of its parameters is not typed in full.
        super().__init__(ssl=context, limit=0, keepalive_timeout=IDLE_S)  # pyright: ignore[reportUnknownMemberType]
        self._used: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp calls it so
    ) -> Connection:
        """Return a connection on which nothing has come yet.

        Raises:
            ClientConnectionError: there is none.
        """
        for _ in range(CONNECTIONS_MAX + 1):
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is not None and not protocol.should_close:
                connection.add_callback(partial(_drop_unsent, connection))
                progress = PROGRESS.get()
                progress.is_sent, progress.was_kept = True, protocol in self._used
                self._used.add(protocol)
                return connection
            connection.close()
        raise ClientConnectionError("the zone speaks before it is asked")


def _drop_unsent(connection: Connection) -> None:
    transport = connection.transport
    if transport is not None and transport.get_write_buffer_size():
        transport.abort()
