"""The limit on open HTTP connections; at the limit, new connections replace idle ones."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

CONNECTIONS_MAX: Final = 4096
"""The default maximum number of open connections of a server."""


class Connection(Protocol):
    """An open connection."""

    @property
    def has_unsent(self) -> bool:
        """Whether a part of a response still waits in the send buffer."""
        ...

    def abort(self) -> None:
        """Close the connection without delay."""
        ...


class ConnectionLimit:
    """Bounds the number of open connections.

    A connection is idle while the server waits for its client to send a request or to read a
    response, and while the token of a console is being checked. At the limit, a new connection
    replaces an idle one: of the address with the most idle connections, the one that has been idle
    longest. A client that opens many connections therefore loses its own first. A connection with a
    partly sent response is closed only if no other is idle. If no connection is idle, the new one
    is closed.

    Args:
        connections_max: the maximum number of open connections.
        on_closed: called for each connection that the limit closes, with `idle` for an idle one and
            `refused` for a new one.
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
        """Add a new connection as idle; at the limit, close an idle connection or the new one."""
        if len(self._addresses) >= self._connections_max and not self._close_one():
            self._told("refused")
            connection.abort()
            return
        self._addresses[connection] = address
        self.note_idle(connection)

    def note_busy(self, connection: Connection) -> None:
        """Record that the server works on a request of a connection."""
        address = self._addresses.get(connection)
        idle = None if address is None else self._idle.get(address)
        if address is None or idle is None:
            return
        idle.pop(connection, None)
        if not idle:
            del self._idle[address]

    def note_idle(self, connection: Connection) -> None:
        """Record that from now on the server waits for the client of a connection."""
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
        # Among addresses with equally many idle connections, the one that most recently got its
        # first idle connection comes first.
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
