"""Tests for SimpleCIDRAffinityFilter."""

from dataclasses import replace

import pytest

from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.scheduling.filters import near_address
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = near_address.build()
SNAPSHOT = snapshot_of(
    [
        Box("a", host_ip="10.0.0.5"),
        Box("b", host_ip="10.0.1.5"),
        Box("six", host_ip="2001:db8::5"),
        Box("far", host_ip="2001:db8:0:1::5"),
        Box("none"),
        Box("odd", host_ip="rack 7"),
    ]
)


def near(address: str, cidr: str | None = None) -> Request:
    """Return a request for a host near an address."""
    hints = {"build_near_host_ip": (address,)} | ({} if cidr is None else {"cidr": (cidr,)})
    return replace(asking(), hints=hints)


@pytest.mark.parametrize(
    ("address", "cidr", "kept"),
    [
        ("10.0.0.99", None, ["a"]),
        ("10.0.0.99", "/23", ["a", "b"]),
        ("10.0.0.99", "/255.255.254.0", ["a", "b"]),
        ("10.0.0.5", "/32", ["a"]),
        ("10.0.0.6", "/32", []),
        ("10.9.9.9", "/0", ["a", "b"]),
        ("2001:db8::99", None, ["six"]),
        ("2001:db8::99", "/48", ["six", "far"]),
        ("2001:DB8::5", "/128", ["six"]),
        ("2001:db8::99", "/ffff:ffff:ffff:ffff::", ["six"]),
        ("2001:db8::99", "/ffff:ffff:ffff::", ["six", "far"]),
        ("2001:db8::99", "/::ffff:ffff:ffff:ffff", ["six"]),
        ("2001:db8::99", "/::", ["six", "far"]),
        ("::", "/0", ["six", "far"]),
        ("::ffff:10.0.0.5", "/128", []),
        ("", None, None),
    ],
)
def test_the_address_is_in_the_network(
    ask: Ask, address: str, cidr: str | None, kept: list[str] | None
) -> None:
    """A host's address must be in the network, by default a /24 or, for IPv6, a /64."""
    assert ask(SNAPSHOT, near(address, cidr)).kept(RULE) == kept


def test_a_prefix_alone_asks_nothing(ask: Ask) -> None:
    """A prefix without an address is ignored."""
    assert ask(SNAPSHOT, replace(asking(), hints={"cidr": ("/8",)})).kept(RULE) is None
    assert ask(SNAPSHOT, asking()).kept(RULE) is None


@pytest.mark.parametrize(
    ("hints", "field"),
    [
        ({"build_near_host_ip": ("rack 7",)}, "hints.build_near_host_ip"),
        ({"build_near_host_ip": ("10.0.0.1/24",)}, "hints.build_near_host_ip"),
        ({"build_near_host_ip": ("fe80::1%eth0",)}, "hints.build_near_host_ip"),
        ({"build_near_host_ip": ("10.0.0.1", "10.0.0.2")}, "hints.build_near_host_ip"),
        ({"build_near_host_ip": ("10.0.0.1",), "cidr": ("24",)}, "hints.cidr"),
        ({"build_near_host_ip": ("10.0.0.1",), "cidr": ("/33",)}, "hints.cidr"),
        ({"build_near_host_ip": ("10.0.0.1",), "cidr": ("/x",)}, "hints.cidr"),
        ({"build_near_host_ip": ("::1",), "cidr": ("/129",)}, "hints.cidr"),
        ({"build_near_host_ip": ("::1",), "cidr": ("/ffff::1",)}, "hints.cidr"),
        ({"build_near_host_ip": ("::1",), "cidr": ("/::x",)}, "hints.cidr"),
        ({"build_near_host_ip": ("10.0.0.1",), "cidr": ("/ffff::",)}, "hints.cidr"),
    ],
)
def test_hints_that_cannot_be_read_are_refused(
    ask: Ask, hints: dict[str, tuple[str, ...]], field: str
) -> None:
    """An unreadable hint is refused under its name."""
    with pytest.raises(InvalidInputError) as caught:
        ask(SNAPSHOT, replace(asking(), hints=hints)).kept(RULE)
    assert caught.value.field == field


def test_the_reason_names_address_and_network(ask: Ask) -> None:
    """The reason names the host's address and the network, the relaxation the hint."""
    asked = ask(SNAPSHOT, near("10.0.0.99"))
    assert asked.why(RULE, 1) == "its address '10.0.1.5' is not in 10.0.0.0/24"
    assert asked.why(RULE, 4) == "it has no address, so it is not in 10.0.0.0/24"
    assert asked.relaxed(RULE, [1, 4]) == [
        ("without the hint build_near_host_ip: 2 hosts", ("b", "none"))
    ]
