"""The listening sockets of HTTP servers."""

import pytest

from berth.adapters.http_server import listening
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    ("host", "shown"),
    [("192.0.2.1", r"192\.0\.2\.1:8774 "), ("2001:db8::1", r"\[2001:db8::1\]:8774 ")],
)
def test_an_address_of_another_machine_is_refused(host: str, shown: str) -> None:
    """The error names the address as a URL would, so an IPv6 address is in brackets."""
    with pytest.raises(InvalidInputError, match=f"cannot listen on {shown}"):
        listening(host, 8774)
