"""Tests for the addresses of rows, which are compared with networks as columns."""

from ipaddress import ip_address, ip_network

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tables.columnar.addresses import Addresses

TEXTS = ["10.0.0.1", "10.0.255.1", "2001:db8::1", "2001:db8:0:0:ffff::", "", "rack 7", " 10.0.0.2 "]
ALL = np.arange(len(TEXTS))


def filled(texts: list[str]) -> Addresses:
    """Return addresses, one per row."""
    addresses = Addresses(len(texts))
    for row, text in enumerate(texts):
        addresses.put(row, text)
    return addresses


@pytest.mark.parametrize(
    ("network", "rows"),
    [
        ("10.0.0.0/24", [0, 6]),
        ("10.0.0.0/16", [0, 1, 6]),
        ("10.0.0.1/32", [0]),
        ("0.0.0.0/0", [0, 1, 6]),
        ("2001:db8::/64", [2, 3]),
        ("2001:db8::/96", [2]),
        ("2001:db8::1/128", [2]),
        ("::/0", [2, 3]),
        ("::a00:1/128", []),
    ],
)
def test_an_address_is_in_its_networks(network: str, rows: list[int]) -> None:
    """An address is in the networks of its own family; other text is in no network."""
    addresses = filled(TEXTS)
    assert np.flatnonzero(addresses.within(ip_network(network), ALL)).tolist() == rows


def test_changed_addresses_are_read_again() -> None:
    """Replaced and removed addresses take effect before and after the first query."""
    addresses = filled(TEXTS)
    network = ip_network("10.0.0.0/24")
    addresses.put(6, "")
    assert np.flatnonzero(addresses.within(network, ALL)).tolist() == [0]
    addresses.put(0, "")
    addresses.put(5, "10.0.0.9")
    assert np.flatnonzero(addresses.within(network, ALL)).tolist() == [5]
    addresses.put(5, "")
    addresses.put(5, "10.0.0.8")
    assert addresses.within(network, np.array([5, 0])).tolist() == [True, False]


@pytest.mark.parametrize(
    "text",
    [*TEXTS, "010.0.0.1", "1.2.3.256", "1.2.3.-4", "+1.2.3.4", "1. 2.3.4", "1.2.3.٤", "1.2.3",
     "1.2.3.4.5", "::ffff:1.2.3.4", "2001:DB8::1", "fe80::1%eth0", "9" * 5000],
)  # fmt: skip
def test_a_text_comes_back_as_it_was_put(text: str) -> None:
    """Any text is preserved, even if it is not an address."""
    addresses = filled(["10.0.0.1", " 10.0.0.1"])
    for row in range(2):
        addresses.put(row, text)
        assert addresses.text(row) == text


def test_growing_keeps_addresses() -> None:
    """New rows have no address, and old rows keep theirs."""
    addresses = filled(["10.0.0.1"])
    addresses.resize(3)
    addresses.put(2, "10.0.0.2")
    assert addresses.within(ip_network("10.0.0.0/8"), slice(0, 3)).tolist() == [True, False, True]


@given(
    address=st.ip_addresses(),
    network=st.tuples(st.ip_addresses(), st.integers(0, 32)),
)
def test_the_answer_is_that_of_the_library(address: object, network: tuple[object, int]) -> None:
    """The result equals that of `ipaddress` for any address and network."""
    wanted = ip_network(f"{network[0]}/{network[1]}", strict=False)
    addresses = filled([str(address)])
    expected = ip_address(str(address)) in wanted
    assert addresses.within(wanted, np.array([0])).tolist() == [expected]
