"""Addresses at which other hosts offer guests and disks, checked before anything is opened."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from berth.domain.errors import DriverError

_ADDRESS_MAX: Final = 4096
_PORT_MAX: Final = 65_535
_HOST_NAME: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")

Networks = Sequence[str]
"""The networks that addresses must be in, as CIDR blocks; none allows every address."""


class PeerAddress(NamedTuple):
    """The parts of an address; `port` is None if the address names no port."""

    host: str
    port: int | None
    parts: SplitResult

    @property
    def location(self) -> str:
        """The host and the port, as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def peer_address(address: str, scheme: str, networks: Networks) -> PeerAddress:
    """Return the parts of an address that another host has reported.

    A compromised host may report any address, to make this host connect to a service of its choice.
    Therefore an address must have the given scheme and a host, may have a port, must name no user,
    and must be in one of the networks of the hosts, if the operator has named any.

    Raises:
        DriverError: the address is malformed, or is in none of the networks.
    """
    refused = DriverError(
        f"cannot connect to {address[:200]!r}, because that is not an address of a {scheme} driver "
        "or server; use the same driver on both hosts"
    )
    if len(address) > _ADDRESS_MAX or not (address.isascii() and address.isprintable()):
        raise refused
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise refused from error
    is_wrong = parts.scheme != scheme or "@" in parts.netloc or parts.fragment
    if is_wrong or port == 0 or not _is_host(host):
        raise refused
    check_network(host, networks)
    return PeerAddress(host, port, parts)


def checked_port(text: str) -> int:
    """Return the TCP port in a text.

    Raises:
        DriverError: the text is not a port.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= len(f"{_PORT_MAX}")):
        raise DriverError(f"{text[:80]!r} is not a port from 1 to {_PORT_MAX}")
    port = int(text)
    if not 0 < port <= _PORT_MAX:
        raise DriverError(f"{port} is not a port from 1 to {_PORT_MAX}")
    return port


def check_network(host: str, networks: Networks) -> None:
    """Check that a host's address is in one of the networks of the hosts.

    Raises:
        DriverError: it is in none of them, or is not an IP address.
    """
    if not networks:
        return
    address = _ip(host)
    if address is None or not any(address in ipaddress.ip_network(one) for one in networks):
        raise DriverError(
            f"cannot connect to {host[:200]!r}, because it is in none of the networks in "
            "virt.move_networks; add its network there, or choose another host"
        )


def _is_host(host: str) -> bool:
    address = _ip(host)
    if address is None:
        return _HOST_NAME.fullmatch(host) is not None
    return not (address.is_unspecified or address.is_multicast)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
