"""HTTP children: requests of tenants, sent on to child zones as any client would send them."""

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
"""Headers of a client that stay here: some are for this zone alone, some are said anew."""
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_PATH: Final = re.compile(r"/[!-~]*")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t -~]*")
_JOINED_BYTES_MAX: Final = 64 * 1024
"""Longest body that is sent in one piece with the head."""
_LINES_KEPT: Final = 64
_SAFE: Final = frozenset({"GET", "HEAD"})
_WITHOUT_LENGTH: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_PORTS: Final = {"http": 80, "https": 443}


class HttpChildren:
    """Sends requests to zones; see the port `ForwardsToZones`.

    Args:
        writer: says for whom each request is.
        password_of: returns the password of a zone's account.
        context: checks certificates of zones that are asked by https.
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
        self._targets: dict[int, _Target] = {}
        self._connections: dict[tuple[int, _Address], ZoneConnections] = {}
        """By zone and not by address alone, as zones may be behind one."""
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
        """See `ForwardsToZones.forward`."""
        _check(asked)
        call = _Call(self._writer, self._target_of(zone), asked, project_id, user_id)
        until_s = asyncio.get_running_loop().time() + timeout_s
        try:
            return await call.answer(until_s)
        except TimeoutError as error:
            raise call.error(f"no answer in {timeout_s:g} s") from error
        except ConnectionsClosedError as error:
            raise call.error("this process ends") from error
        # UnicodeError: the name of a host that no name server could be asked for.
        except (ResponseError, OSError, UnicodeError) as error:
            raise call.error(str(error)) from error

    async def close(self) -> None:
        """Close all connections, and ask nobody any more; whoever waits for an answer is told."""
        self._is_closed = True
        for connections in self._connections.values():
            connections.close()
        await asyncio.sleep(0)  # a loop that ends now would leave their sockets open

    def _target_of(self, zone: Zone) -> "_Target":
        """Return where a zone is and how it knows us, as long as its record stays as it is."""
        known = self._targets.get(zone.zone_id)
        if known is not None and (known.zone is zone or known.zone == zone):
            return known
        if self._is_closed:
            raise NotAskedError(f"zone {zone.name}: this process ends")
        address, prefix, host = _read_url(zone)
        password = self._password_of(zone) if zone.username else ""
        lines = f"Host: {host}\r\nAccept-Encoding: identity\r\nUser-Agent: berth\r\n"
        if zone.username:
            account = b64encode(f"{zone.username}:{password}".encode()).decode()
            lines += f"Authorization: Basic {account}\r\n"
        target = _Target(zone, prefix, lines, self._connections_to(zone, address))
        if password or not zone.username:  # or there may be one as soon as its key is back
            self._targets[zone.zone_id] = target
        return target

    def _connections_to(self, zone: Zone, address: "_Address") -> ZoneConnections:
        """Return the connections to a zone, which outlive whatever else of its record changes."""
        key = (zone.zone_id, address)
        found = self._connections.get(key)
        if found is None:
            context = self._context if address.is_secured else None
            found = self._connections[key] = ZoneConnections(address.host, address.port, context)
        return found


class _Address(NamedTuple):
    """Where a zone is."""

    host: str
    port: int
    is_secured: bool


@dataclass(frozen=True, slots=True)
class _Target:
    """A zone, and what is the same in all requests to it: `lines` are of their heads."""

    zone: Zone
    prefix: str
    lines: str
    connections: ZoneConnections


def _read_url(zone: Zone) -> tuple[_Address, str, str]:
    """Return where a zone is, what its paths begin with, and what its host is called in heads.

    Raises:
        NotAskedError: the address of the zone cannot be written into a request.
    """
    try:
        parts = urlsplit(zone.api_url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise NotAskedError(f"zone {zone.name}: {error}") from error
    prefix = parts.path.rstrip("/")
    default = _PORTS.get(parts.scheme)
    # A colon ends the username.
    is_odd = _PATH.fullmatch(f"/{parts.netloc}{prefix}") is None or ":" in zone.username
    if is_odd or default is None or not host or "@" in parts.netloc:
        raise NotAskedError(f"zone {zone.name}: no request can have its URL or username")
    address = _Address(host, default if port is None else port, parts.scheme == "https")
    return address, prefix, parts.netloc


@dataclass(slots=True)
class _Call:
    """One request, and how far it has come.

    From the moment it has a connection any of it may have been sent.
    """

    writer: TenantAssertionWriter
    target: _Target
    asked: ForwardedRequest
    project_id: str
    user_id: str
    is_sent: bool = False
    was_kept: bool = False

    async def answer(self, until_s: float) -> ForwardedResponse:
        """Send it, and if it only reads once more: a kept connection may just have ended.

        Raises:
            ResponseError: what came is no answer.
            OSError: there is no connection, or something did not come in time (TimeoutError).
        """
        try:
            return await self._answer(until_s, is_new=False)
        except ConnectionLostError:
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
        """Return what is to be sent, with a new statement, as one may be used once."""
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
        """Return what to raise; only what was not begun to be sent has certainly not arrived."""
        kind = UnavailableError if self.is_sent else NotAskedError
        return kind(f"zone {self.target.zone.name}: {reason}")


@asynccontextmanager
async def open_children(
    writer: TenantAssertionWriter,
    *,
    password_of: Callable[[Zone], str],
    ca_file: Path | None = None,
) -> AsyncGenerator[HttpChildren]:
    """Reach child zones over HTTP until the end of the context.

    Args:
        writer: says for whom each request is.
        password_of: returns the password of a zone's account.
        ca_file: certificates to check those of zones by; None takes those of the machine.

    Raises:
        InvalidInputError: the file of certificates cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = f"{ca_file} holds no certificates that can be read ({error})"
        raise InvalidInputError("zones.ca_file", reason) from error
    children = HttpChildren(writer, password_of, context)
    try:
        yield children
    finally:
        await children.close()


@lru_cache(maxsize=_LINES_KEPT)
def _lines_of(headers: tuple[tuple[str, str], ...]) -> str:
    """Return the lines of the headers that are passed on.

    Raises:
        InvalidInputError: naming the header that would be read as something else.
    """
    lines: list[str] = []
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise InvalidInputError(f"header {name[:80]!r}", "has characters that it cannot have")
        if name.lower() not in _OWN_HEADERS:
            lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


def _check(asked: ForwardedRequest) -> None:
    """Refuse what would be read as something else, or as two requests.

    Raises:
        InvalidInputError: naming the part.
    """
    if _METHOD.fullmatch(asked.method) is None or asked.method == "CONNECT":
        raise InvalidInputError("method", "must be up to 16 capital letters, and not CONNECT")
    if _PATH.fullmatch(asked.path) is None or "#" in asked.path:
        raise InvalidInputError("path", "must begin with / and be encoded as in a URL")
    if asked.path.endswith("?") and asked.path.count("?") == 1:
        # Whoever reads it may take it for none, and so for another path than was signed.
        raise InvalidInputError("path", "must not end with an empty query")
    _lines_of(tuple(asked.headers.items()))
