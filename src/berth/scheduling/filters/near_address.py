"""SimpleCIDRAffinityFilter: the host's IP address is in the network that the request names."""

from collections.abc import Sequence
from ipaddress import (
    IPV6LENGTH,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from berth.domain.compute.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "SimpleCIDRAffinityFilter"
_NEAR = "build_near_host_ip"
_CIDR = "cidr"
_DEFAULTS = {4: "/24", 6: "/64"}

Network = IPv4Network | IPv6Network


def build() -> Filter:
    """Build the filter; it has no options (nova-behaviour.md 2.6).

    The hint `build_near_host_ip` is an address, and `cidr` (`/24`, or a mask such as
    `/255.255.0.0` or `/ffff:ffff::`) sets the size of the network around it. The filter raises
    InvalidInputError for hints that cannot be parsed.
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
    """Return the requested network, or None if there is no hint `build_near_host_ip`.

    The default for IPv6 is /64, the usual size of a subnet; Nova's default of /24 is an IPv4 size.
    """
    near = _hint(query, _NEAR)
    if not near:
        return None
    address = _address(near)
    cidr = _hint(query, _CIDR) or _DEFAULTS[address.version]
    network = _with_prefix(address, cidr)
    if network is None:
        reason = (
            f"{cidr[:80]!r} must be a mask or a prefix length, such as {_DEFAULTS[address.version]}"
        )
        raise InvalidInputError(f"hints.{_CIDR}", reason)
    return network


def _address(near: str) -> IPv4Address | IPv6Address:
    """Return the parsed address.

    An address with a scope id (`fe80::1%eth0`) is refused, because it is local to a single host.
    """
    reason = f"{near[:80]!r} must be an IPv4 or IPv6 address"
    if "%" in near:
        raise InvalidInputError(f"hints.{_NEAR}", f"{reason} without a scope id such as %eth0")
    try:
        return ip_address(near)
    except ValueError as error:
        raise InvalidInputError(f"hints.{_NEAR}", reason) from error


def _with_prefix(address: IPv4Address | IPv6Address, cidr: str) -> Network | None:
    if not cidr.startswith("/"):
        return None
    try:
        is_mask = ":" in cidr and isinstance(address, IPv6Address)
        length = f"/{_mask_length(cidr[1:])}" if is_mask else cidr
        return ip_network(f"{address}{length}", strict=False)
    except ValueError:
        return None


def _mask_length(text: str) -> int:
    """Return the prefix length of an IPv6 mask, whose set bits are all at one end.

    The standard library parses masks of IPv4 only, by the same rule.

    Raises:
        ValueError: the text is not a network mask.
    """
    bits = int(IPv6Address(text))
    rest = bits ^ ((1 << IPV6LENGTH) - 1)
    if rest & (rest + 1) == 0:
        return IPV6LENGTH - rest.bit_length()
    if bits & (bits + 1) == 0:
        return IPV6LENGTH - bits.bit_length()
    raise ValueError(f"{text!r} is not a network mask")


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
