"""The URLs that agents accept for a gateway."""

import pytest

from berth.adapters.gateway.websocket_client import check_url
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    "url",
    [
        "https://agent:secret@control.example:8774",
        "https://:secret@control.example:8774",
        "ftp://agent:secret@control.example",
    ],
)
def test_a_url_with_a_password_is_refused_without_quoting_it(url: str) -> None:
    """A URL with a password is refused, even without a user, and the error hides the password."""
    with pytest.raises(InvalidInputError, match="without a user") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


def test_the_address_is_that_of_the_gateways_path() -> None:
    """An accepted URL becomes the address of the gateway's WebSocket."""
    assert check_url("https://control.example:8774/").startswith("wss://control.example:8774/")
