"""Tests for base64url texts."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.services.crypto.base64url import raw_of, url_text_of


@given(st.binary(max_size=100))
def test_it_is_base64_for_urls_without_padding(raw: bytes) -> None:
    """The text is base64url without padding, and decodes to the same bytes."""
    text = url_text_of(raw)
    assert text == urlsafe_b64encode(raw).decode().rstrip("=")
    assert raw_of(text) == raw


@pytest.mark.parametrize("text", ["a", "abcde", "é", "\ud800"])
def test_what_is_none_is_refused(text: str) -> None:
    """An invalid text raises ValueError."""
    with pytest.raises(ValueError, match=r".+"):
        raw_of(text)
