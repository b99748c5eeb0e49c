"""Tests for the URL of a ledger that names several servers."""

import pytest

from berth.adapters.ledger.ledger_url import parse_url, server_urls
from berth.domain.errors import LedgerError


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("sqlite:////var/lib/a,b.sqlite", ["sqlite:////var/lib/a,b.sqlite"]),
        ("postgresql://u:p@h:1/db?x=1", ["postgresql://u:p@h:1/db?x=1"]),
        ("postgresql:///db?host=/run/pg", ["postgresql:///db?host=/run/pg"]),
        (
            "postgresql://u:p@h1:1,h2,[::1]:3/db?sslmode=require",
            [
                "postgresql://u:p@h1:1/db?sslmode=require",
                "postgresql://u:p@h2/db?sslmode=require",
                "postgresql://u:p@[::1]:3/db?sslmode=require",
            ],
        ),
        (
            "postgresql://u@/db?host=h1:1,h2:2&target_session_attrs=primary",
            [
                "postgresql://u@h1:1/db?target_session_attrs=primary",
                "postgresql://u@h2:2/db?target_session_attrs=primary",
            ],
        ),
        ("postgresql:///db?host=h1,h2&port=5", ["postgresql://h1:5/db", "postgresql://h2:5/db"]),
        ("postgresql:///db?host=h1,h2&port=5,6", ["postgresql://h1:5/db", "postgresql://h2:6/db"]),
    ],
)
def test_a_url_has_one_or_more_servers(url: str, servers: list[str]) -> None:
    """Servers are separated by commas, in place of the host or in the parameter `host`."""
    assert server_urls(url) == servers
    assert parse_url(url).database in {"db", "/var/lib/a,b.sqlite"}


@pytest.mark.parametrize("url", ["postgresql://h1,h2", "postgresql:///db?host=a,b&port=1,2,3"])
def test_a_url_that_names_no_database_or_too_many_ports_is_refused(url: str) -> None:
    """A URL without a database, or with another number of ports than hosts, is an error."""
    with pytest.raises(LedgerError, match="several servers are"):
        parse_url(url)
