"""The limit on open HTTP connections, at which a server closes idle ones."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

CONNECTIONS_MAX: Final = 4096
"""The maximum number of open connections of a server for which none is configured."""


class Connection(Protocol):
    """An open connection."""

    @property
    def has_unsent(self) -> bool:
        """Whether the client has not yet received all of a response."""
        ...

    def abort(self) -> None:
        """Close the connection without delay."""
        ...


class ConnectionLimit:
    """Bounds the number of open connections.

    A connection is idle while the server waits for its client: for the rest of a request, or for
    the client to read. At the limit, a new connection takes the place of an idle one: the one that
    has been idle for longest, of the address that has most idle connections. A single address
    therefore cannot close the connections of others. A connection with an unsent part of a response
    is closed only if no other is idle. If the server works on a request of every connection, the
    new one is closed.

    Args:
        connections_max: the maximum number of open connections.
        on_closed: called with `idle` or `refused` for each connection that the limit closes.
    """

    def __init__(
        self,
        connections_max: int = CONNECTIONS_MAX,
        on_closed: Callable[[str], None] | None = None,
    ) -> None:
        self._connections_max = connections_max
        self._on_closed = on_closed
        self._addresses: dict[Connection, str] = {}
        # The idle connections of each address, in the order in which they became idle.
        self._idle: dict[str, OrderedDict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, connection: Connection, address: str) -> None:
        """Add a new connection, which is idle; at the limit, close an idle one or this one."""
        if len(self._addresses) >= self._connections_max and not self._close_one():
            self._told("refused")
            connection.abort()
            return
        self._addresses[connection] = address
        self.note_idle(connection)

    def note_busy(self, connection: Connection) -> None:
        """Note that the server works on a request of a connection."""
        address = self._addresses.get(connection)
        idle = None if address is None else self._idle.get(address)
        if address is None or idle is None:
            return
        idle.pop(connection, None)
        if not idle:
            del self._idle[address]

    def note_idle(self, connection: Connection) -> None:
        """Note that the server waits for the client of a connection, from now on."""
        address = self._addresses.get(connection)
        if address is not None:
            idle = self._idle.setdefault(address, OrderedDict())
            idle[connection] = None
            idle.move_to_end(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed or no longer carries HTTP; repetition is harmless."""
        self.note_busy(connection)
        self._addresses.pop(connection, None)

    def _close_one(self) -> bool:
        """Close an idle connection; return False if there is none."""
        # Of addresses with equal numbers, the one that connected last comes first.
        addresses = sorted(self._idle.values(), key=len)
        addresses.reverse()
        idle = [connection for one in addresses for connection in one]
        read = (connection for connection in idle if not connection.has_unsent)
        connection = next(read, idle[0] if idle else None)
        if connection is None:
            return False
        self.remove(connection)
        self._told("idle")
        connection.abort()
        return True

    def _told(self, outcome: str) -> None:
        if self._on_closed is not None:
            self._on_closed(outcome)
