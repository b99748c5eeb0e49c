"""Settings with URLs and addresses: malformed ones are refused by name, without a password."""

from dataclasses import fields
from typing import get_type_hints

import pytest

from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError

URLS = (
    "agent.gateway_url",
    "attestation.url",
    "bus.url",
    "console.novnc_url",
    "keystone.auth_url",
    "keystone.www_authenticate_uri",
    "ledger.url",
    "tracing.endpoint",
    "virt.peer_uri",
    "virt.uri",
)
ADDRESSES = (
    "api.listen",
    "console.allowed_origins",
    "metrics.listen",
    "placement.cors_origins",
    "placement.listen",
    "virt.move_address",
    "virt.move_networks",
)
MALFORMED = (
    "amqp://user:s3same@host:abc/x",
    "https://user:s3same@host:99999/x",
    "https://user:pa/s3same@host/",
    "https://user:s3same/x@host/",
    "https://user:pa?s3same@host/",
    "https://user:pa#s3same@host/",
    "https://user:pa@s3same@[host/",
    "user:s3same@host",
    "://user:s3same@host",
)


def _names() -> set[str]:
    return {
        f"{section}.{one.name}"
        for section, kind in get_type_hints(Settings).items()
        for one in fields(kind)
    }


def test_every_setting_with_a_url_or_an_address_is_tested_here() -> None:
    """The lists above are complete, and repr() leaves all URLs out."""
    ends = ("url", "uri", "endpoint", "listen", "origins", "address", "networks")
    flags = {"api.insecure_listen"}
    found = {name for name in _names() if name.endswith(ends)} - flags
    assert found == {*URLS, *ADDRESSES}
    shown = {
        f"{section}.{one.name}"
        for section, kind in get_type_hints(Settings).items()
        for one in fields(kind)
        if one.repr
    }
    assert not shown & set(URLS)


@pytest.mark.parametrize("url", MALFORMED)
@pytest.mark.parametrize("name", [*URLS, *ADDRESSES])
def test_a_malformed_value_is_refused_by_name_without_its_password(name: str, url: str) -> None:
    """The error names the setting and does not contain the password."""
    with pytest.raises(InvalidInputError) as caught:
        read_settings(None, {}, {name: url})
    assert name in str(caught.value)
    assert "s3same" not in str(caught.value)


@pytest.mark.parametrize("name", URLS)
def test_a_value_of_another_type_is_not_quoted(name: str) -> None:
    """A list in place of a URL is refused, and its content is not shown."""
    with pytest.raises(InvalidInputError) as caught:
        read_settings(None, {}, {name: ["https://user:s3same@host/"]})
    assert name in str(caught.value)
    assert "s3same" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("virt.uri", "qemu:///system"),
        ("virt.uri", "qemu+unix:///system?socket=/run/libvirt.sock"),
        ("virt.peer_uri", "qemu+ssh://root@[fd00::1]:22/system"),
        ("virt.peer_uri", ""),
        ("virt.move_address", "fd00::1"),
        ("virt.move_address", "rack1-07.example"),
        ("metrics.listen", "[::1]:9464"),
        ("console.novnc_url", "https://novnc.example/vnc_lite.html"),
        ("placement.cors_origins", "*"),
        ("placement.cors_origins", "https://dashboard.example,http://[::1]:8080"),
    ],
)
def test_valid_values_are_accepted(name: str, value: str) -> None:
    """The forms that the reference lists are accepted."""
    read_settings(None, {}, {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("virt.uri", "system"),
        ("virt.uri", "qemu://"),
        ("virt.uri", "http://host/system"),
        ("virt.uri", "qemu+tls://host:x/system"),
        ("virt.peer_uri", "qemu:/system"),
        ("virt.peer_uri", "qemu+tcp://a b/system"),
        ("virt.move_address", "10.0.0.1:49152"),
        ("virt.move_address", "10.0.0.0/8,"),
        ("metrics.listen", "127.0.0.1:99999"),
        ("metrics.listen", "h:1:2"),
        ("placement.cors_origins", "dashboard.example"),
        ("placement.cors_origins", "https://dashboard.example/"),
    ],
)
def test_neighbours_of_valid_values_are_refused(name: str, value: str) -> None:
    """A value that no connection or request could use is refused at the start."""
    with pytest.raises(InvalidInputError, match=name.replace(".", r"\.")):
        read_settings(None, {}, {name: value})
