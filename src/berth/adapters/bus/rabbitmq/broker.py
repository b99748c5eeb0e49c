"""The address and the credentials of the broker, and the names of exchanges and queues."""

import hashlib
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from yarl import URL

from berth.ports.bus import Command

QUEUE_UNUSED_MS: Final = 3_600_000
"""Milliseconds without a consumer after which the broker deletes a queue of commands."""
QUEUE_LENGTH_MAX: Final = 100_000
"""The maximum number of commands in a queue; the broker rejects further ones."""
DELIVERIES_MAX: Final = 5
"""The number of deliveries after which the broker drops a command that was never acknowledged."""

SHARED: Final = "shared"
"""The AMQP type of a message that several calls or replies share."""

_HEARTBEAT_S = 10
_SERVER_BYTES_MAX = 128


@dataclass(frozen=True, slots=True)
class RabbitBroker:
    """A RabbitMQ server or cluster, and the names that Berth uses there.

    Args:
        url: `amqp://` or `amqps://`, with user, password and virtual host.
        ca_file: the file with the trusted certificates; None uses the system's.
        prefix: the prefix of all exchange and queue names.
        prefetch: the maximum number of commands that one process works on simultaneously.
        body_bytes_max: the maximum size of a message in bytes.
    """

    url: str = field(repr=False)  # the URL contains a password
    ca_file: Path | None = None
    prefix: str = "berth"
    prefetch: int = 256
    body_bytes_max: int = 16 * 1024 * 1024

    @property
    def safe_url(self) -> str:
        """The URL without user, password and query, for logs and errors."""
        url = URL(self.url).with_user(None).with_query(None)
        return str(url)

    def redact(self, text: str) -> str:
        """Return a text without the user and the password of the URL, for logs and errors."""
        url = URL(self.url)
        text = re.sub(r"//[^/\s@]*@", "//", text)
        # Outside a URL, a password may occur verbatim or percent-encoded.
        for secret in (url.raw_password, url.password):
            if secret:
                text = text.replace(secret, "***")
        return text

    @property
    def connect_url(self) -> URL:
        """The URL to connect to, with the heartbeat interval in place of the user's query."""
        return URL(self.url).with_query(heartbeat=_HEARTBEAT_S)

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for an unencrypted connection.

        Raises:
            OSError: `ca_file` cannot be read or contains no certificates.
        """
        if URL(self.url).scheme != "amqps":
            return None
        return ssl.create_default_context(cafile=self.ca_file)

    @property
    def commands(self) -> str:
        """The name of the exchange for calls and casts."""
        return f"{self.prefix}.commands"

    @property
    def fanout(self) -> str:
        """The name of the exchange for fanouts."""
        return f"{self.prefix}.fanout"

    @property
    def notifications(self) -> str:
        """The name of the exchange for notifications to consumers outside Berth."""
        return f"{self.prefix}.notifications"

    def queue_of(self, command: Command[Any, Any]) -> str:
        """Return the name of the queue that all servers of a command share."""
        return f"{self.prefix}.{command.topic}.{command.name}"


def routing_key(topic: str, name: str, server: str | None = None) -> str:
    """Return the routing key of a command for any server, or for the one named `server`."""
    if server is None:
        return f"{topic}.{name}"
    # AMQP limits routing keys to 255 bytes; host names may be longer.
    if len(server.encode()) > _SERVER_BYTES_MAX:
        server = hashlib.sha256(server.encode()).hexdigest()
    return f"{topic}.{name}@{server}"
