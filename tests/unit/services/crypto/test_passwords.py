"""Tests for passwords of new guests."""

import os
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from berth.services.crypto.passwords import new_password

CONFUSING = set("01OIl")


@given(st.integers(0, 2**32))
def test_a_password_has_each_kind_of_character(seed: int) -> None:
    """It has 12 characters: digits, upper and lower case, none easily confused with another."""
    numbers = count(seed)

    def drawn(size: int) -> bytes:
        mixed = (next(numbers) * 0x9E3779B97F4A7C15) % (1 << (8 * size))
        return (mixed * mixed * mixed % (1 << (8 * size))).to_bytes(size, "big")

    password = new_password(drawn)
    assert len(password) == 12
    assert password.isascii()
    assert password.isalnum()
    assert any(char.isdigit() for char in password)
    assert password.upper() != password != password.lower()
    assert not CONFUSING & set(password)


def test_passwords_differ() -> None:
    """A thousand passwords are all different."""
    assert len({new_password(os.urandom) for _ in range(1000)}) == 1000
