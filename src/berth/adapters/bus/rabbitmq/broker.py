"""The broker: where it is, who we are there, and how its exchanges and queues are called."""

import hashlib
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from yarl import URL

from berth.ports.bus import Command

QUEUE_UNUSED_MS: Final = 3_600_000
"""A queue of commands is removed when nobody has served it for so long."""
QUEUE_LENGTH_MAX: Final = 100_000
"""Commands that wait in a queue; more are refused."""
DELIVERIES_MAX: Final = 5
"""How often a command is given to a server that dies at it."""

_HEARTBEAT_S = 10
_SERVER_BYTES_MAX = 128


@dataclass(frozen=True, slots=True)
class RabbitBroker:
    """A RabbitMQ server, or several behind one name, and our part of it.

    Args:
        url: `amqp://` or `amqps://`, with user, password and virtual host.
        ca_file: certificates that the server's is checked against, besides the system's.
        prefix: begins the name of every exchange and queue.
        prefetch: commands that one process works on at a time.
        body_bytes_max: the largest message.
    """

    url: str = field(repr=False)  # it holds a password
    ca_file: Path | None = None
    prefix: str = "berth"
    prefetch: int = 256
    body_bytes_max: int = 16 * 1024 * 1024

    @property
    def safe_url(self) -> str:
        """The URL without user and password."""
        url = URL(self.url).with_user(None).with_query(None)
        return str(url)

    @property
    def connect_url(self) -> URL:
        """The URL to connect to. What it says beyond the server is ours to say."""
        return URL(self.url).with_query(heartbeat=_HEARTBEAT_S)

    def tls(self) -> ssl.SSLContext | None:
        """Return how to check the server; None for a connection in the clear.

        Raises:
            OSError: the file cannot be read, or holds no certificates.
        """
        if URL(self.url).scheme != "amqps":
            return None
        return ssl.create_default_context(cafile=self.ca_file)

    @property
    def commands(self) -> str:
        """The exchange of calls and casts."""
        return f"{self.prefix}.commands"

    @property
    def fanout(self) -> str:
        """The exchange of what is for all servers."""
        return f"{self.prefix}.fanout"

    @property
    def notifications(self) -> str:
        """The exchange that others read."""
        return f"{self.prefix}.notifications"

    def queue_of(self, command: Command[Any, Any]) -> str:
        """Name the queue that all servers of a command take from."""
        return f"{self.prefix}.{command.topic}.{command.name}"


def routing_key(topic: str, name: str, server: str | None = None) -> str:
    """Return the key of a command, or of one for a named server, which may have a long name."""
    if server is None:
        return f"{topic}.{name}"
    if len(server.encode()) > _SERVER_BYTES_MAX:
        server = hashlib.sha256(server.encode()).hexdigest()
    return f"{topic}.{name}@{server}"
