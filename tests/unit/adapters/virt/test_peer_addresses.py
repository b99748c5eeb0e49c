"""Addresses that other hosts report: nothing is opened that is not a host's own."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.virt.disk_storage import SharedDiskStorage
from berth.adapters.virt.peer_addresses import checked_port, peer_address
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import DriverError

_HOSTS = ("10.1.0.0/16", "fd00::/8")


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("nbd://10.1.2.3:10809/?disks=root", "10.1.2.3", 10809),
        ("nbd://[fd00::1]:1/", "fd00::1", 1),
    ],
)
def test_an_address_of_a_host_is_read(address: str, host: str, port: int) -> None:
    """The host and the port of an address are those that a host has reported."""
    peer = peer_address(address, "nbd", _HOSTS)
    assert (peer.host, peer.port) == (host, port)
    assert f"nbd://{peer.location}/" == address.partition("?")[0]
    assert peer_address("nbd://host-1.example:5/", "nbd", ()).host == "host-1.example"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nbd:",
        "file://etc/shadow",
        "http://10.1.2.3:80/",
        "nbd:///root",
        "nbd://:10809/",
        "nbd://user@10.1.2.3:10809/",
        "nbd://10.1.2.3:0/",
        "nbd://10.1.2.3:99999/",
        "nbd://10.1.2.3:x/",
        "nbd://0.0.0.0:1/",
        "nbd://224.0.0.1:1/",
        "nbd://[::]:1/",
        "nbd://[::1/",
        "nbd://-oProxyCommand=sh:1/",
        "nbd://10.1.2.3:1/#x",
        "nbd://10.1.2.3:1/\n",
        "nbd://10.1.2.3:1/?x=" + "a" * 5_000,
        "nbd+unix:///?socket=/run/docker.sock",
        "json:{}",
    ],
)
def test_another_address_is_refused(address: str) -> None:
    """An address with another scheme, or without the form of a host's address, is refused."""
    with pytest.raises(DriverError, match="not an address of a nbd"):
        peer_address(address, "nbd", ())


@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1", "8.8.8.8", "db.example", "[::1]"])
def test_an_address_outside_the_networks_is_refused(host: str) -> None:
    """With `virt.move_networks` a host cannot direct another one to a service elsewhere."""
    with pytest.raises(DriverError, match="none of the networks"):
        peer_address(f"nbd://{host}:1/", "nbd", _HOSTS)
    with pytest.raises(BuildError, match="none of the networks"):
        SharedDiskStorage(None, "host-1", _HOSTS).sources(f"nbd://{host}:1/?disks=root")


@given(st.text(max_size=200))
def test_what_is_accepted_is_only_a_host_and_a_port(text: str) -> None:
    """No text makes a driver open anything but a TCP connection to a host and a port."""
    for address in (text, f"nbd:{text}", f"nbd://{text}", f"nbd://10.1.2.3:1/{text}"):
        try:
            sources = SharedDiskStorage(Path("/none"), "host-1").sources(address)
        except BuildError:
            continue
        assert all(source.startswith("nbd://") for source in sources.values())
        for name, source in sources.items():
            peer = peer_address(source.removesuffix(f"/{name}"), "nbd", ())
            assert peer.host


@pytest.mark.parametrize("text", ["", "0", "-1", "65536", "1e3", "²", "1 ", "99999999999999999999"])
def test_a_port_is_a_number(text: str) -> None:
    """Whatever is not a port is refused, and not passed to QEMU."""
    with pytest.raises(DriverError, match="not a port"):
        checked_port(text)
