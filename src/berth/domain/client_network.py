"""The address or network that counts as one client in limits per client."""

import ipaddress


def network_of(address: str) -> str:
    """Return the address or network that counts as one client in limits per client.

    The result is an IPv4 address itself, or the /64 network of an IPv6 address, because one client
    usually controls a whole /64. Text that is not an IP address is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:  # noqa: PLR2004 - the version of IP
        return address
    return str(ipaddress.ip_network((int(parsed), 64), strict=False))
