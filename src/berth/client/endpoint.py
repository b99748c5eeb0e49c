"""The address of the service, and the options of the HTTP client that connects to it."""

import ipaddress
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypedDict

import httpx

from berth.client.exchange import Exchange, Retries

TokenSource: TypeAlias = Callable[[], str]
"""A function that returns a new token; it is called at first, and when a token has expired."""
AsyncTokenSource: TypeAlias = Callable[[], str | Awaitable[str]]
Credentials: TypeAlias = tuple[str, str] | str | TokenSource
"""User and password for HTTP Basic, a token, or a function that returns a new token."""
AsyncCredentials: TypeAlias = tuple[str, str] | str | AsyncTokenSource

TIMEOUT_S: Final = 90.0
"""The default timeout of a request in seconds. It is longer than a large read of the ledger may
take (60 s by default), so that the service can report a slow ledger itself."""
_GLOBAL_ID: Final = "X-OpenStack-Request-ID"


class HttpOptions(TypedDict):
    """The arguments of `httpx.Client` and `httpx.AsyncClient`."""

    base_url: httpx.URL
    auth: httpx.Auth | None
    headers: dict[str, str]
    timeout: float
    verify: ssl.SSLContext | bool
    trust_env: bool


class Options(TypedDict, total=False):
    """Options of a client, all with a default.

    `timeout_s` is that of a request, 90 s by default. `retries` says how often requests are
    repeated. `ca_file` has the CA certificates for https, which replace the system's; `tls` is a
    complete TLS context instead. `trust_env` says whether proxies from the environment are used, by
    default for all addresses except those of the loopback interface, which no proxy can reach.
    `global_request_id` (`req-` and a uuid) names the request on whose behalf the program works, and
    the service logs it with its own. `headers` are sent with every request.
    """

    timeout_s: float
    retries: Retries
    ca_file: str | Path | None
    tls: ssl.SSLContext | None
    trust_env: bool | None
    global_request_id: str | None
    headers: Mapping[str, str]


def parsed_url(url: str) -> httpx.URL:
    """Return the parsed address of a service.

    Raises:
        ValueError: the address is not an HTTP URL with a host. The error shows no password.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        # The original error may quote a part of the password as the port.
        parsed = httpx.URL("")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("the address must be an HTTP URL with a host: http://127.0.0.1:8774")
    return parsed


def shown_address(url: httpx.URL) -> str:
    """Return an address with its account hidden, for errors."""
    account = "***@" if url.userinfo else ""
    return f"{url.scheme}://{account}{url.netloc.decode('ascii')}{url.path.rstrip('/')}"


def http_options(url: httpx.URL, auth: AsyncCredentials | None, options: Options) -> HttpOptions:
    """Return the arguments of the HTTP client for an address, credentials and options.

    Raises:
        OSError: the file of CA certificates cannot be read, or has none.
    """
    headers = {"Accept": "application/json", **options.get("headers", {})}
    if (global_id := options.get("global_request_id")) is not None:
        headers[_GLOBAL_ID] = global_id
    tls = options.get("tls")
    if tls is None and (ca_file := options.get("ca_file")) is not None:
        tls = ssl.create_default_context(cafile=str(ca_file))
    if (trust_env := options.get("trust_env")) is None:
        trust_env = not _is_loopback(url.host)
    return {
        "base_url": url,
        "auth": _basic(auth),
        "headers": headers,
        "timeout": options.get("timeout_s", TIMEOUT_S),
        "verify": True if tls is None else tls,
        "trust_env": trust_env,
    }


def exchange_for(url: httpx.URL, auth: AsyncCredentials | None, options: Options) -> Exchange:
    """Return the exchange of a client; see `http_options` for the arguments."""
    return Exchange(
        address=shown_address(url),
        retries=options.get("retries", Retries()),
        token=auth if isinstance(auth, str) else None,
        renews=callable(auth),
        now_s=time.monotonic,
        timeout_s=options.get("timeout_s", TIMEOUT_S),
    )


def _basic(auth: AsyncCredentials | None) -> httpx.Auth | None:
    if auth is None or isinstance(auth, str) or callable(auth):
        return None
    user, password = auth
    return httpx.BasicAuth(user, password)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
