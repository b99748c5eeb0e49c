"""Tests for sealed texts."""

import itertools
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

import pytest

from berth.services.crypto.sealing import KEY_BYTES, Sealer

OLD, NEW, OTHER = (bytes([number]) * KEY_BYTES for number in (1, 2, 3))


class FixedKeys:
    """Keys that are kept in memory."""

    def __init__(self, *keys: bytes) -> None:
        self.newest_first: Sequence[bytes] = keys


def sealer(*keys: bytes) -> Sealer:
    """Return a sealer with counting nonces."""
    numbers = itertools.count()
    return Sealer(FixedKeys(*keys), lambda length: next(numbers).to_bytes(length, "big"))


def test_what_was_sealed_comes_back() -> None:
    """A sealed text is unreadable, differs each time, and unseals to its content."""
    one = sealer(NEW)
    first, second = one.seal("p", b"content"), one.seal("p", b"content")
    assert first != second
    assert b"content" not in urlsafe_b64decode(first + "=" * (-len(first) % 4))
    assert one.unseal("p", first) == one.unseal("p", second) == b"content"


def test_a_rotated_key_still_opens() -> None:
    """The newest key seals, and older keys still unseal."""
    text = sealer(OLD).seal("p", b"x")
    assert sealer(NEW, OLD).unseal("p", text) == b"x"
    assert sealer(OLD).unseal("p", sealer(NEW, OLD).seal("p", b"x")) is None
    assert sealer(NEW).unseal("p", text) is None


def test_another_purpose_does_not_open() -> None:
    """A text sealed for one purpose cannot be unsealed for another."""
    one = sealer(NEW)
    assert one.unseal("q", one.seal("p", b"x")) is None


def test_no_changed_bit_is_taken() -> None:
    """A text with any changed bit cannot be unsealed."""
    one = sealer(NEW)
    text = one.seal("p", b"some content")
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        assert one.unseal("p", urlsafe_b64encode(changed).rstrip(b"=").decode()) is None


@pytest.mark.parametrize("text", ["", "A", "AQ", "!!!!", "é", "AQ" * 20, "A" * 5000, "admin:admin"])
def test_anything_else_is_nothing(text: str) -> None:
    """An arbitrary text cannot be unsealed."""
    assert sealer(NEW, OTHER).unseal("p", text) is None


def test_one_sealed_thing_has_one_text() -> None:
    """A sealed text with another encoding of the same bytes is refused."""
    one = sealer(NEW)
    text = one.seal("p", b"12")
    assert one.unseal("p", text + "=") is None
    assert one.unseal("p", text + "\n") is None
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    taken = [end for end in last if one.unseal("p", text[:-1] + end) is not None]
    assert taken == [text[-1]]
