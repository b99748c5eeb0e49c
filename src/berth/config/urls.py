"""Checks of URLs in settings, so that a malformed one is refused at the start and by its key."""

import re
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from berth.domain.errors import InvalidInputError
from berth.domain.url_redaction import redact_url

_QEMU: Final = re.compile(r"qemu(\+[a-z0-9]+)?")
_HOST: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")
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


def check_libvirt_uri(uri: str, field: str) -> None:
    """Refuse a URI that cannot be that of a libvirtd.

    The error does not quote the URI. libvirt reads no passwords from URIs. A URI with one is
    refused, because the password would appear in errors and in the command lines of SSH.

    Raises:
        InvalidInputError: the URI is malformed, or contains a password.
    """
    form = "qemu:///system, or qemu+TRANSPORT://USER@HOST:PORT/system without a password"
    try:
        parts = urlsplit(uri)
        is_valid = _QEMU.fullmatch(parts.scheme) is not None and parts.port != 0
        is_valid = is_valid and parts.password is None and len(parts.path) > 1
    except ValueError:
        is_valid = False
    if not is_valid or "://" not in uri or not uri.isprintable() or " " in uri:
        raise InvalidInputError(field, f"must be {form}")


def check_host(host: str, field: str) -> None:
    """Refuse a text that is neither an IP address nor the name of a host.

    Raises:
        InvalidInputError: the text is something else, such as a URL; the error shows no password.
    """
    try:
        ip_address(host)
    except ValueError as error:
        if _HOST.fullmatch(host) is None:
            reason = f"{redact_url(host)[:80]!r} must be an IP address or the name of a host"
            raise InvalidInputError(field, reason) from error


def check_origin(origin: str, field: str) -> None:
    """Refuse an origin of web pages that no browser sends.

    Raises:
        InvalidInputError: the origin is neither `*` nor scheme, host and port; the error does not
            quote it.
    """
    form = "https://HOST:PORT without a user or path, or *"
    if origin == "*":
        return
    check_server_url(origin, field, {"http", "https"}, form)
    if re.fullmatch(r"[a-z]+://[^/?#@]+", origin) is None:
        raise InvalidInputError(field, f"must be {form}")


def check_ledger_url(url: str, field: str) -> None:
    """Refuse a ledger URL that has none of the known forms or has an impossible port.

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
