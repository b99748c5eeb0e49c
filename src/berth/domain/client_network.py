"""The network of a client, which limits on clients count."""

import ipaddress


def network_of(address: str) -> str:
    """Return what limits count as one client: an IPv4 address, or the /64 network of an IPv6 one.

    A client usually has a whole IPv6 network of this size. Text that is no address is returned
    unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:  # noqa: PLR2004 - the version of IP
        return address
    return str(ipaddress.ip_network((int(parsed), 64), strict=False))
