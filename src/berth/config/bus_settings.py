"""Settings of the bus between processes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from berth.domain.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class BusSettings:
    """The bus between processes, a RabbitMQ server; without a URL each process is on its own."""

    url: str | None = field(default=None, repr=False)  # it may hold a password
    ca_file: Path | None = None
    """Certificates that an amqps server's is checked against, besides the machine's own."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "berth"
    """Begins the names of exchanges and queues; one for each ledger."""
    prefetch: Annotated[int, Meta(ge=1, le=65_535)] = 256
    """Commands that one process works on at a time."""
    body_bytes_max: Annotated[int, Meta(ge=65_536, le=2**29)] = 16 * 1024 * 1024
    notifications: bool = False
    """Tell whoever reads the exchange of notifications what happens."""

    def __post_init__(self) -> None:
        """Refuse what leads to no broker, without a word of the URL, which may hold a password.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        scheme, found, rest = (self.url or "").partition("://")
        if self.url is not None and not (scheme in ("amqp", "amqps") and found and rest):
            raise InvalidInputError(
                "bus.url", "must be amqp:// or amqps://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST"
            )
        if self.ca_file is not None and scheme != "amqps":
            raise InvalidInputError("bus.ca_file", "is of use with an amqps:// URL only")
        if self.notifications and self.url is None:
            raise InvalidInputError("bus.notifications", "needs bus.url: a broker to tell them by")
