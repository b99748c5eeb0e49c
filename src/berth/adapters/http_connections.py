"""The limit on open HTTP connections, at which a server closes idle ones."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

CONNECTIONS_MAX: Final = 4096
"""The maximum number of open connections of a server for which none is configured."""


class Connection(Protocol):
    """An open connection."""

    def abort(self) -> None:
        """Close the connection without delay."""
        ...


class ConnectionLimit:
    """Bounds the number of open connections.

    At the limit, a new connection takes the place of an idle one: the one that has been idle for
    longest, of the address that has most idle connections. A single address therefore cannot close
    the connections of others. If every connection has a request in progress, the new one is closed.

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
        """Note that a connection has a request in progress."""
        address = self._addresses.get(connection)
        idle = None if address is None else self._idle.get(address)
        if address is None or idle is None:
            return
        idle.pop(connection, None)
        if not idle:
            del self._idle[address]

    def note_idle(self, connection: Connection) -> None:
        """Note that a connection has no request in progress any more."""
        address = self._addresses.get(connection)
        if address is not None:
            self._idle.setdefault(address, OrderedDict())[connection] = None

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed or no longer carries HTTP; repetition is harmless."""
        self.note_busy(connection)
        self._addresses.pop(connection, None)

    def _close_one(self) -> bool:
        """Close an idle connection; return False if there is none."""
        if not self._idle:
            return False
        busiest = max(self._idle.values(), key=len)
        connection = next(iter(busiest))
        self.remove(connection)
        self._told("idle")
        connection.abort()
        return True

    def _told(self, outcome: str) -> None:
        if self._on_closed is not None:
            self._on_closed(outcome)
