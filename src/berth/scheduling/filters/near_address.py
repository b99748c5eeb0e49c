"""SimpleCIDRAffinityFilter: the host's IP address is in a network that the request names."""

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from berth.domain.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.scheduling.rule import Filter, Query, Reads, without
from berth.tables.bitsets import Mask, Rows, Selection
from berth.tables.hosts import HostTable

NAME = "SimpleCIDRAffinityFilter"
_NEAR = "build_near_host_ip"
_CIDR = "cidr"
_DEFAULTS = {4: "/24", 6: "/64"}

Network = IPv4Network | IPv6Network


def build() -> Filter:
    """Make the filter; it has no options (nova.md 2.6).

    The hint `build_near_host_ip` is an address, and `cidr` (`/24`) says how near. It raises
    InvalidInputError for hints that cannot be read.
    """
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=(f"hints.{_NEAR}", f"hints.{_CIDR}"), columns=("host",)),
        once_per_request=True,
    )


def _network(query: Query) -> Network | None:
    """Return the network that is asked for, None for none.

    A network of IPv6 is a /64 unless said otherwise: a /24 is as large as a country's.
    """
    near = _hint(query, _NEAR)
    if not near:
        return None
    try:
        address = ip_address(near)
    except ValueError as error:
        reason = f"{near[:80]!r} must be an IPv4 or IPv6 address"
        raise InvalidInputError(f"hints.{_NEAR}", reason) from error
    cidr = _hint(query, _CIDR) or _DEFAULTS[address.version]
    network = _with_prefix(address, cidr)
    if network is None:
        reason = f"{cidr[:80]!r} must be the length of a prefix, {_DEFAULTS[address.version]} say"
        raise InvalidInputError(f"hints.{_CIDR}", reason)
    return network


def _with_prefix(address: IPv4Address | IPv6Address, cidr: str) -> Network | None:
    try:
        return ip_network(f"{address}{cidr}", strict=False) if cidr.startswith("/") else None
    except ValueError:
        return None


def _hint(query: Query, name: str) -> str:
    texts = query.request.hints.get(name, ())
    if len(texts) > 1:
        raise InvalidInputError(f"hints.{name}", f"has {len(texts)} values; give one")
    return texts[0].strip() if texts else ""


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    network = _network(query)
    return None if network is None else hosts.addresses.within(network, rows)


def _why(hosts: HostTable, query: Query, row: int) -> str:
    address = hosts.host(row).host_ip
    mine = f"its address {address!r} is" if address else "it has no address, so it is"
    return f"{mine} not in {_network(query)}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, _NEAR, f"the hint {_NEAR}", hosts, rows)
