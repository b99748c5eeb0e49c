"""The URL of a SQL ledger, which may name several PostgreSQL servers."""

from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from berth.domain.errors import LedgerError

_FORMS: Final = (
    "use memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE; several servers are "
    "postgresql://USER@HOST:PORT,HOST:PORT/DATABASE"
)


def parse_url(url: str) -> URL:
    """Parse the URL of a SQL ledger; of several servers, the result has only the first.

    Raises:
        LedgerError: the URL is invalid, has a scheme other than `sqlite` or `postgresql`, or does
            not name a file or database.
    """
    try:
        parsed = make_url(server_urls(url)[0])
    except (ArgumentError, ValueError):
        raise LedgerError(f"the ledger URL is invalid; {_FORMS}") from None
    if parsed.drivername not in {"sqlite", "postgresql"}:
        raise LedgerError(f"the ledger URL has the unknown scheme {parsed.drivername!r}; {_FORMS}")
    if not parsed.database or parsed.database == ":memory:":
        raise LedgerError(f"the ledger URL does not name a file or database; {_FORMS}")
    return parsed


def server_urls(url: str) -> list[str]:
    """Return one URL for each PostgreSQL server that a URL names.

    The servers are separated by commas, as in libpq: in place of the host, or in the parameter
    `host`. Any other URL is returned as it is.

    Raises:
        ValueError: the URL is invalid.
    """
    if not url.startswith("postgresql:"):
        return [url]
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "," not in f"{hosts}{parameters.get('host', '')}{parameters.get('port', '')}":
        return [url]
    hosts = hosts or parameters.pop("host", "")
    ports = parameters.pop("port", "").split(",")
    servers = hosts.split(",")
    if len(ports) == 1:
        ports *= len(servers)
    rest = urlencode(parameters)
    return [
        parts._replace(netloc=f"{user}{at}{_with_port(server, port)}", query=rest).geturl()
        for server, port in zip(servers, ports, strict=True)
    ]


def _with_port(server: str, port: str) -> str:
    has_port = ":" in server.rpartition("]")[2]
    return server if has_port or not port else f"{server}:{port}"
