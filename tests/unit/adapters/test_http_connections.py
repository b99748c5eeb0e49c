"""The limit on open connections closes idle ones to make room."""

from berth.adapters.http_connections import ConnectionLimit


class Connection:
    """A connection that knows whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False
        self.has_unsent = False

    def abort(self) -> None:
        """Note the end."""
        self.is_closed = True


class Server:
    """A limit of three connections, and what it reports."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.limit = ConnectionLimit(3, self.told.append)

    def connect(self, address: str) -> Connection:
        """Add a connection from an address."""
        connection = Connection()
        self.limit.add(connection, address)
        return connection


def test_the_oldest_idle_connection_makes_room() -> None:
    """A connection with a request in progress stays, and the one that is idle longest goes."""
    server = Server()
    busy, first, second = (server.connect("10.0.0.1") for _ in range(3))
    server.limit.note_busy(busy)
    server.limit.note_busy(first)
    server.limit.note_idle(first)
    new = server.connect("10.0.0.2")
    assert [one.is_closed for one in (busy, first, second, new)] == [False, False, True, False]
    assert (len(server.limit), server.told) == (3, ["idle"])


def test_an_address_cannot_close_the_connections_of_others() -> None:
    """The address with the most idle connections loses one."""
    server = Server()
    other = server.connect("10.0.0.2")
    flood = [server.connect("10.0.0.1") for _ in range(100)]
    assert not other.is_closed
    assert [one.is_closed for one in flood] == [True] * 98 + [False] * 2


def test_a_new_connection_is_refused_when_none_is_idle() -> None:
    """Requests in progress are never cut off."""
    server = Server()
    connections = [server.connect("10.0.0.1") for _ in range(3)]
    for connection in connections:
        server.limit.note_busy(connection)
    new = server.connect("10.0.0.2")
    assert new.is_closed
    assert not any(one.is_closed for one in connections)
    assert (len(server.limit), server.told) == (3, ["refused"])
    server.limit.note_idle(new)
    server.limit.remove(new)
    assert len(server.limit) == 3


def test_closed_connections_leave_room() -> None:
    """A connection that ends is forgotten, whatever it was doing; late reports are harmless."""
    server = Server()
    for is_busy in (True, False):
        connection = server.connect("10.0.0.1")
        if is_busy:
            server.limit.note_busy(connection)
        server.limit.remove(connection)
        server.limit.remove(connection)
        server.limit.note_idle(connection)
        server.limit.note_busy(connection)
    assert len(server.limit) == 0
    assert [server.connect("10.0.0.1").is_closed for _ in range(3)] == [False] * 3
    assert server.told == []


def test_a_response_that_is_still_sent_is_cut_last() -> None:
    """A client that has not read all of its response loses it only if no other one is idle."""
    server = Server()
    reading, other, third = (server.connect("10.0.0.1") for _ in range(3))
    reading.has_unsent = True
    for expected in (other, third):
        server.connect("10.0.0.2")
        assert expected.is_closed
    assert not reading.is_closed
    server = Server()
    slow = [server.connect("10.0.0.1") for _ in range(3)]
    for connection in slow:
        connection.has_unsent = True
    server.connect("10.0.0.2")
    assert [one.is_closed for one in slow] == [True, False, False]


def test_of_equal_addresses_the_newest_loses_a_connection() -> None:
    """Many addresses with a connection each do not close those that were there before them."""
    server = Server()
    first = server.connect("10.0.0.1")
    flood = [server.connect(f"10.0.1.{number}") for number in range(100)]
    assert not first.is_closed
    assert sum(one.is_closed for one in flood) == 98
