"""Forwarding of tenants' requests to child zones, over HTTP/1.1."""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from berth.adapters.zones.connections import ConnectionsClosedError, ZoneConnections
from berth.adapters.zones.responses import (
    CONNECTION_HEADERS,
    ConnectionLostError,
    ResponseError,
    ResponseReader,
)
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.zones.zone import Zone
from berth.ports.zones import (
    STATEMENT_HEADER,
    ForwardedRequest,
    ForwardedResponse,
    NotAskedError,
    TenantAssertionWriter,
)

# Headers that are not forwarded: hop-by-hop headers, credentials for this zone, and those for which
# the forwarded request has values of its own.
_OWN_HEADERS: Final = CONNECTION_HEADERS | {
    "accept-encoding",
    "authorization",
    "cookie",
    "expect",
    "host",
    "user-agent",
    "x-auth-token",
    "x-service-token",
    STATEMENT_HEADER.lower(),
}
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_PATH: Final = re.compile(r"/[!-~]*")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t -~]*")
# A body of more than this many bytes is written separately from the head, so that it is not copied.
_JOINED_BYTES_MAX: Final = 64 * 1024
_LINES_KEPT: Final = 64
_SAFE: Final = frozenset({"GET", "HEAD"})
_WITHOUT_LENGTH: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_PORTS: Final = {"http": 80, "https": 443}


class HttpChildren:
    """Forwards requests of tenants to zones; see the port `ZoneForwarder`.

    Args:
        writer: signs the assertion that names the tenant of a request.
        password_of: returns the password of a zone's account, or an empty string if it is unknown.
        context: the TLS context for zones with an https URL.
    """

    def __init__(
        self,
        writer: TenantAssertionWriter,
        password_of: Callable[[Zone], str],
        context: ssl.SSLContext,
    ) -> None:
        self._writer = writer
        self._password_of = password_of
        self._context = context
        self._targets: dict[int, _ZoneTarget] = {}
        # The keys contain the id of the zone, because several zones may share an address.
        self._connections: dict[tuple[int, _ZoneAddress], ZoneConnections] = {}
        self._is_closed = False

    async def forward(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        *,
        project_id: str,
        user_id: str,
        timeout_s: float,
    ) -> ForwardedResponse:
        """See `ZoneForwarder.forward`."""
        _check(asked)
        call = _ForwardCall(self._writer, self._target_of(zone), asked, project_id, user_id)
        until_s = asyncio.get_running_loop().time() + timeout_s
        try:
            return await call.answer(until_s)
        except TimeoutError as error:
            raise call.error(f"no response within {timeout_s:g} s") from error
        except ConnectionsClosedError as error:
            raise call.error("this process is shutting down") from error
        # UnicodeError: the host's name cannot be encoded for DNS.
        except (ResponseError, OSError, UnicodeError) as error:
            raise call.error(str(error)) from error

    async def close(self) -> None:
        """Close all connections and refuse further requests; pending requests fail."""
        self._is_closed = True
        for connections in self._connections.values():
            connections.close()
        # The aborted transports close their sockets in the next turn of the event loop.
        await asyncio.sleep(0)

    def _target_of(self, zone: Zone) -> "_ZoneTarget":
        """Return the target for a zone, which is cached until the zone's record changes.

        Raises:
            NotAskedError: the URL or the username is unusable, or this process is shutting down.
        """
        known = self._targets.get(zone.zone_id)
        if known is not None and (known.zone is zone or known.zone == zone):
            return known
        if self._is_closed:
            raise NotAskedError(f"cannot send to zone {zone.name}: this process is shutting down")
        address, prefix, host = _read_url(zone)
        password = self._password_of(zone) if zone.username else ""
        lines = f"Host: {host}\r\nAccept-Encoding: identity\r\nUser-Agent: berth\r\n"
        if zone.username:
            account = b64encode(f"{zone.username}:{password}".encode()).decode()
            lines += f"Authorization: Basic {account}\r\n"
        target = _ZoneTarget(zone, prefix, lines, self._connections_to(zone, address))
        # A target without the password is not cached, so that the password is read again as soon as
        # its key is available.
        if password or not zone.username:
            self._targets[zone.zone_id] = target
        return target

    def _connections_to(self, zone: Zone, address: "_ZoneAddress") -> ZoneConnections:
        """Return the connections to a zone, which are reused while its address stays the same."""
        key = (zone.zone_id, address)
        found = self._connections.get(key)
        if found is None:
            context = self._context if address.is_secured else None
            found = self._connections[key] = ZoneConnections(address.host, address.port, context)
        return found


class _ZoneAddress(NamedTuple):
    """The host and port of a zone's API, and whether it is reached by https."""

    host: str
    port: int
    is_secured: bool


@dataclass(frozen=True, slots=True)
class _ZoneTarget:
    """A zone, its connections, and the parts of a head that all requests to it share.

    `prefix` precedes the path of a request. `lines` are header lines.
    """

    zone: Zone
    prefix: str
    lines: str
    connections: ZoneConnections


def _read_url(zone: Zone) -> tuple[_ZoneAddress, str, str]:
    """Return a zone's address, the prefix of its paths, and the value of its Host header.

    Raises:
        NotAskedError: the URL or the username cannot be used in a request; the error says why.
    """
    try:
        parts = urlsplit(zone.api_url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        # The error does not quote the URL, because an apparent port may be part of a password.
        raise _unusable(zone, "its URL is invalid; its form is https://HOST:PORT/PATH") from error
    prefix = parts.path.rstrip("/")
    default = _PORTS.get(parts.scheme)
    if default is None:
        raise _unusable(zone, "its URL must begin with http:// or https://")
    if not host:
        raise _unusable(zone, "its URL must name a host")
    if "@" in parts.netloc:
        raise _unusable(zone, "its URL must not contain an account; set it separately")
    if _PATH.fullmatch(f"/{parts.netloc}{prefix}") is None:
        raise _unusable(zone, "its URL must contain only printable ASCII without spaces")
    # In Basic authentication a colon ends the username.
    if ":" in zone.username:
        raise _unusable(zone, "the username of its account must not contain a colon")
    address = _ZoneAddress(host, default if port is None else port, parts.scheme == "https")
    return address, prefix, parts.netloc


def _unusable(zone: Zone, reason: str) -> NotAskedError:
    return NotAskedError(f"zone {zone.name}: {reason}")


@dataclass(slots=True)
class _ForwardCall:
    """One forwarded request and its progress.

    `is_sent` is set when the request gets a connection; from then on any part of it may have
    reached the zone. `was_kept` tells whether the connection was used for an earlier request.
    """

    writer: TenantAssertionWriter
    target: _ZoneTarget
    asked: ForwardedRequest
    project_id: str
    user_id: str
    is_sent: bool = False
    was_kept: bool = False

    async def answer(self, until_s: float) -> ForwardedResponse:
        """Send the request and return the response; send a safe request once more if necessary.

        Raises:
            ResponseError: the zone sent no valid response.
            OSError: connecting failed, or the deadline passed (TimeoutError).
            UnicodeError: the host's name cannot be encoded for DNS.
            ConnectionsClosedError: this process is shutting down.
        """
        try:
            return await self._answer(until_s, is_new=False)
        except ConnectionLostError:
            # The server may have closed a reused connection just before the request arrived. Only
            # a safe request may be sent again, because the first one may have been carried out.
            if self.asked.method not in _SAFE or self.asked.body or not self.was_kept:
                raise
            return await self._answer(until_s, is_new=True)

    async def _answer(self, until_s: float, *, is_new: bool) -> ForwardedResponse:
        connections, reader = self.target.connections, ResponseReader(self.asked)
        connection = await connections.take(until_s, is_new=is_new)
        try:
            self.is_sent, self.was_kept = True, connection.is_kept
            await connection.ask(self._request(), reader, until_s)
        finally:
            connections.put_back(connection)
        return reader.answer

    def _request(self) -> tuple[bytes, ...]:
        """Return the pieces to send, with a new assertion, since an assertion is for one use."""
        asked, target = self.asked, self.target
        statement = self.writer.write(
            target.zone.name, asked, project_id=self.project_id, user_id=self.user_id
        )
        length = ""
        if asked.body or asked.method not in _WITHOUT_LENGTH:
            length = f"Content-Length: {len(asked.body)}\r\n"
        lines = _lines_of(tuple(asked.headers.items()))
        head = (
            f"{asked.method} {target.prefix}{asked.path} HTTP/1.1\r\n"
            f"{target.lines}{lines}{length}{STATEMENT_HEADER}: {statement}\r\n\r\n"
        ).encode("ascii")
        if len(asked.body) > _JOINED_BYTES_MAX:
            return head, asked.body
        return (head + asked.body,)

    def error(self, reason: str) -> UnavailableError:
        """Return a NotAskedError if nothing has been sent, and an UnavailableError otherwise.

        The caller may repeat a request only after a NotAskedError.
        """
        kind = UnavailableError if self.is_sent else NotAskedError
        return kind(f"zone {self.target.zone.name}: {reason}")


@asynccontextmanager
async def open_children(
    writer: TenantAssertionWriter,
    *,
    password_of: Callable[[Zone], str],
    ca_file: Path | None = None,
) -> AsyncGenerator[HttpChildren]:
    """Open the client for child zones; leaving the context closes its connections.

    Args:
        writer: signs the assertion that names the tenant of a request.
        password_of: returns the password of a zone's account, or an empty string if it is unknown.
        ca_file: the file with the trusted certificates; None uses the system's.

    Raises:
        InvalidInputError: `ca_file` cannot be read or contains no certificates.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = f"cannot read certificates from {ca_file} ({error}); check the file"
        raise InvalidInputError("zones.ca_file", reason) from error
    children = HttpChildren(writer, password_of, context)
    try:
        yield children
    finally:
        await children.close()


@lru_cache(maxsize=_LINES_KEPT)
def _lines_of(headers: tuple[tuple[str, str], ...]) -> str:
    """Return the header lines to forward.

    Raises:
        InvalidInputError: a header has characters that would change the meaning of the head.
    """
    lines: list[str] = []
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            reason = "contains a character that HTTP does not allow in a header"
            raise InvalidInputError(f"header {name[:80]!r}", reason)
        if name.lower() not in _OWN_HEADERS:
            lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


def _check(asked: ForwardedRequest) -> None:
    """Check that the head of a request can be read in one way only.

    Raises:
        InvalidInputError: the method, the path or a header is invalid; the error names it.
    """
    if _METHOD.fullmatch(asked.method) is None or asked.method == "CONNECT":
        reason = "must consist of 1 to 16 letters from A-Z, and must not be CONNECT"
        raise InvalidInputError("method", reason)
    if _PATH.fullmatch(asked.path) is None or "#" in asked.path:
        reason = "must begin with /, and contain only printable ASCII except spaces and #"
        raise InvalidInputError("path", reason)
    if asked.path.endswith("?") and asked.path.count("?") == 1:
        # A server may drop an empty query, and would then see a path other than the signed one.
        raise InvalidInputError("path", "must not end with an empty query")
    _lines_of(tuple(asked.headers.items()))
