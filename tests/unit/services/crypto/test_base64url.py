"""Bytes as texts with the characters of URLs."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.services.crypto.base64url import raw_of, url_text_of


@given(st.binary(max_size=100))
def test_it_is_base64_for_urls_without_padding(raw: bytes) -> None:
    """As others write it, and it is read again."""
    text = url_text_of(raw)
    assert text == urlsafe_b64encode(raw).decode().rstrip("=")
    assert raw_of(text) == raw


@pytest.mark.parametrize("text", ["a", "abcde", "é", "\ud800"])
def test_what_is_none_is_refused(text: str) -> None:
    """With an error that callers turn into theirs."""
    with pytest.raises(ValueError, match=r".+"):
        raw_of(text)
