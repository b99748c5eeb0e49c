"""Checks of URLs in settings, so that a malformed one is refused at the start and by its key."""

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from berth.domain.errors import InvalidInputError

_MEMORY: Final = "memory:"
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = "postgresql"
_LEDGERS: Final = (
    "memory:, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE, with commas between several "
    "HOST:PORT"
)


def check_server_url(url: str, field: str, schemes: Collection[str], form: str) -> None:
    """Refuse the URL of a server that no client could connect to.

    The error does not quote the URL, which may contain a password.

    Args:
        url: the URL.
        field: the key of the setting.
        schemes: the schemes that are allowed.
        form: the form that the error names, which completes "must be".

    Raises:
        InvalidInputError: the URL has another scheme, no host, a port that is not a number from 1
            to 65535, or a character that URLs cannot contain.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    # `urlsplit` drops line breaks and tabs silently, so the raw text is checked.
    if not is_valid or not url.isprintable() or " " in url:
        raise InvalidInputError(field, f"must be {form}")


def check_ledger_url(url: str, field: str) -> None:
    """Refuse the URL of a ledger that has none of the known forms, or an impossible port.

    The error does not quote the URL, which may contain a password.

    Raises:
        InvalidInputError: the URL is malformed.
    """
    if url == _MEMORY or (url.startswith(_SQLITE) and len(url) > len(_SQLITE)):
        return
    scheme, colon, rest = url.partition("://")
    user, at, hosts = rest.partition("/")[0].rpartition("@")
    if scheme == _POSTGRESQL and not rest.partition("/")[2].partition("?")[0]:
        raise InvalidInputError(field, f"must be {_LEDGERS}")
    # A server may also be named in the query or be a local socket, so the host may be missing.
    for host in hosts.split(",") if scheme == _POSTGRESQL and colon else [":"]:
        if host:
            check_server_url(f"{scheme}://{user}{at}{host}/", field, {_POSTGRESQL}, _LEDGERS)
