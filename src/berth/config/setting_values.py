"""The types of settings: numbers with bounds, and addresses."""

import ipaddress
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from berth.domain.url_redaction import redact_url

_PORT_MAX = 65_535

# Upper bounds catch slips such as milliseconds given as seconds; no deployment needs more.
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
# Seconds: 0 means never, and the maximum is about ten years.
Expiration = Annotated[float, Meta(ge=0, le=315_360_000)]
# A float, and so any JSON reader, represents every integer up to this one exactly.
Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Ratio = Annotated[float, Meta(ge=0, le=10_000)]


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port at which a server listens."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address; False for names other than localhost."""
        # A name is not resolved, because the result could change after the check.
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address in a string `HOST:PORT`, with an IPv6 host in brackets.

    Port 0 lets the system choose a free port.

    Raises:
        ValueError: the string has another form.
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    sane = bool(host) and colon and port.isascii() and port.isdigit() and len(port) <= len("65535")
    if not sane or int(port) > _PORT_MAX or (":" in host) != bracketed:
        # An operator may have given a URL by mistake, and it may contain a password.
        shown = redact_url(text) if "@" in text else text
        raise ValueError(f"{shown[:80]!r} must be HOST:PORT, such as 127.0.0.1:8774 or [::1]:8774")
    return Address(host, int(port))
