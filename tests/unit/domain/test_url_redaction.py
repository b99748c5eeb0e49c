"""Passwords in URLs are not shown, however malformed the URL is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.url_redaction import redact_accounts, redact_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8774/", "http://127.0.0.1:8774/"),
        ("https://[::1]:80/a/b", "https://[::1]:80/a/b"),
        ("https://u:p@h:80/a?password=p#p", "https://***@h:80/a"),
        ("https://u@h", "https://***@h"),
        ("nonsense", "nonsense"),
        ("u:p@h", "***@h"),
        ("amqp://u:p", "amqp://***"),
        ("u:p@x://h", "***"),
        ("https://[u:p", "https://***"),
        ("qemu+unix:///system?socket=/run/s", "qemu+unix:///system"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    """Scheme, host, port and path remain if they can be told from the account."""
    assert redact_url(url) == shown


@given(st.text("ab/:?#@[]%.1", min_size=0, max_size=12), st.text("ab/:?#@[]%.1", max_size=8))
def test_no_password_is_shown(before: str, after: str) -> None:
    """A password before the last `@` never appears, whatever surrounds it."""
    password = f"{before}SECRET{after}"
    for url in (f"amqp://user:{password}@host:5672/v", f"user:{password}@host"):
        assert "SECRET" not in redact_url(url)
    assert "SECRET" not in redact_accounts(f"cannot open amqp://user:{password}@host:5672/v (x)")


def test_a_text_keeps_all_but_accounts() -> None:
    """Only the accounts of URLs are replaced."""
    assert redact_accounts("no mail to a@b") == "no mail to a@b"
    assert redact_accounts("x http://u:p@h/ y") == "x http://***@h/ y"
