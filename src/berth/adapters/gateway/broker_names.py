"""The names of the exchange, queues and users of hosts on a broker, and the rights of a host.

Each session has two queues of its own. An agent declares the one that it reads, whose name contains
that of its host, and may read no queue of another host. A gateway declares the one that it reads,
under a random name, which only the session's agent learns, so no host can fill the queue of
another.
"""

import hashlib
import re
import shlex
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

OPENINGS: Final = "open"
"""The routing key of the first messages of agents."""

OPENING_MS_MAX: Final = 10_000
"""Milliseconds after which an opening that no gateway has taken is dropped."""

MESSAGE_MS_MAX: Final = 60_000
"""Milliseconds after which a message that the other end has not taken is dropped."""

OPENINGS_MAX: Final = 20_000
QUEUE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Maximum total size of the messages that wait for one end of a session."""

OPENING_ARGUMENTS: Final[dict[str, Any]] = {
    "x-message-ttl": OPENING_MS_MAX,
    "x-max-length": OPENINGS_MAX,
    "x-overflow": "reject-publish",
    "x-expires": 3_600_000,
}
SESSION_ARGUMENTS: Final[dict[str, Any]] = {
    "x-message-ttl": MESSAGE_MS_MAX,
    "x-max-length-bytes": QUEUE_BYTES_MAX,
    "x-overflow": "reject-publish",
}

# An agent has one connection with two channels, but the broker may still count broken ones.
_LIMITS: Final = '{"max-connections": 4, "max-channels": 16}'
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class GatewayNames:
    """The names on one broker.

    Args:
        prefix: the prefix of all names; it differs between ledgers.
    """

    prefix: str

    @property
    def exchange(self) -> str:
        """The exchange to which agents publish."""
        return f"{self.prefix}.gateways"

    @property
    def openings(self) -> str:
        """The queue of openings, which all gateways share."""
        return f"{self.prefix}.gateways.{OPENINGS}"

    def of_gateway(self, token: str) -> str:
        """Return the name and routing key of the queue that a gateway reads in one session."""
        return f"{self.prefix}.gateway.{token}"

    def of_host(self, host: str, channel: bytes) -> str:
        """Return the name of the queue that the agent of a host reads in one session."""
        return f"{self.user(host)}.{channel.hex()}"

    def user(self, host: str) -> str:
        """Return the name of a host's user; the names of the host's queues begin with it.

        A host's name that is long or has unusual characters is replaced by its digest.
        """
        plain = host
        if not _PLAIN.fullmatch(host):
            plain = f"~{hashlib.sha256(host.encode()).hexdigest()[:32]}"
        return f"{self.prefix}.host.{plain}"

    def permissions(self, host: str) -> tuple[str, str, str]:
        """Return RabbitMQ's regular expressions for what a host may configure, write and read."""
        own = rf"^{re.escape(self.user(host))}\.[0-9a-f]{{32}}$"
        return own, f"^{re.escape(self.exchange)}$", own

    def commands(self, host: str, vhost: str) -> list[str]:
        """Return the `rabbitmqctl` commands that give a host its user and rights.

        `add_user` reads the password from its input.
        """
        user, where = shlex.quote(self.user(host)), shlex.quote(vhost)
        rights = " ".join(shlex.quote(one) for one in self.permissions(host))
        return [
            f"rabbitmqctl add_user {user}",
            f"rabbitmqctl set_permissions -p {where} {user} {rights}",
            f"rabbitmqctl set_user_limits {user} {shlex.quote(_LIMITS)}",
        ]


def vhost_of(url: str) -> str:
    """Return the virtual host that an AMQP URL names; `/` if it names none."""
    return unquote(urlsplit(url).path.removeprefix("/")) or "/"
