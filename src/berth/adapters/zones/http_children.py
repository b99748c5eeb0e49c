"""HTTP children: requests of tenants, sent on to child zones as any client would send them."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientError,
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    encode_basic_auth,
)
from yarl import URL

from berth.adapters.zones.answers import CONNECTION_HEADERS, AnswerError, read_answer
from berth.adapters.zones.connections import CONNECTIONS_MAX, PROGRESS, Connector, Progress
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.domain.zone import Zone
from berth.ports.zones import (
    STATEMENT_HEADER,
    ForwardedAnswer,
    ForwardedRequest,
    NotAskedError,
    StatesTenants,
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
_BYTES_MAX: Final = 64 * 1024
_URLS_MAX: Final = 16
_SAFE: Final = frozenset({"GET", "HEAD"})


class HttpChildren:
    """Sends requests to zones; see the port `ForwardsToZones`.

    Args:
        session: the connections; it follows no environment and keeps no cookies.
        writer: says for whom each request is.
        password_of: returns the password of a zone's account.
    """

    def __init__(
        self,
        session: ClientSession,
        writer: StatesTenants,
        password_of: Callable[[Zone], str],
    ) -> None:
        self._session = session
        self._writer = writer
        self._password_of = password_of
        self._turns: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()
        """By zone and not by host, as zones may be behind one; each lives while it is used."""
        self._targets: dict[int, _Target] = {}
        self._reading: set[ClientResponse] = set()

    async def forward(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        *,
        project_id: str,
        user_id: str,
        timeout_s: float,
    ) -> ForwardedAnswer:
        """See `ForwardsToZones.forward`."""
        _check(asked)
        target = self._target_of(zone)
        url = target.url_of(asked.path)
        call = _Call(self._writer, zone, asked, project_id, user_id)
        PROGRESS.set(call.progress)
        turns = self._turns.setdefault(zone.zone_id, asyncio.Semaphore(CONNECTIONS_MAX))
        try:
            async with asyncio.timeout(timeout_s), turns:
                return await self._ask(call, url, target.authorization)
        except TimeoutError as error:
            raise call.error(f"no answer in {timeout_s:g} s") from error
        except ClientResponseError as error:
            raise call.error("the answer is no HTTP, or has a head that is too long") from error
        # UnicodeError: the name of a host that no name server could be asked for.
        except (AnswerError, ClientError, UnicodeError) as error:
            raise call.error(str(error)) from error

    async def close(self) -> None:
        """Close all connections, and ask nobody any more; whoever waits for an answer is told."""
        for response in self._reading:
            response.close()  # the session would leave whoever reads it waiting
        await self._session.close()

    def _target_of(self, zone: Zone) -> "_Target":
        """Return where a zone is and how it knows us, as long as its record stays as it is."""
        target = self._targets.get(zone.zone_id)
        if target is None or (target.zone is not zone and target.zone != zone):
            password = self._password_of(zone) if zone.username else ""
            target = _Target.of(zone, password)
            if password or not zone.username:  # or there may be one as soon as its key is back
                self._targets[zone.zone_id] = target
        return target

    async def _ask(self, call: "_Call", url: URL, authorization: str | None) -> ForwardedAnswer:
        if self._session.closed:
            raise call.error("this process ends")
        asked = call.asked
        async with self._session.request(
            asked.method,
            url,
            headers=_headers_of(asked, authorization),
            # aiohttp writes a file piece by piece, and bytes at once.
            data=BytesIO(asked.body) if len(asked.body) > _BYTES_MAX else asked.body or None,
            allow_redirects=False,
            middlewares=(call.send,),
        ) as response:
            self._reading.add(response)
            try:
                return await read_answer(response, asked)
            finally:
                self._reading.discard(response)


@dataclass(slots=True)
class _Target:
    """A zone, and what is the same in all requests to it."""

    zone: Zone
    base: str
    prefix: str
    authorization: str | None
    urls: dict[str, URL] = field(default_factory=dict[str, URL])

    @classmethod
    def of(cls, zone: Zone, password: str) -> "_Target":
        """Read the record of a zone.

        Raises:
            NotAskedError: the address of the zone cannot be written into a request.
        """
        parts = urlsplit(zone.api_url)
        prefix = parts.path.rstrip("/")
        # A colon ends the username.
        if _PATH.fullmatch(f"/{parts.netloc}{prefix}") is None or ":" in zone.username:
            raise NotAskedError(f"zone {zone.name}: no request can have its URL or username")
        authorization = encode_basic_auth(zone.username, password) if zone.username else None
        return cls(zone, f"{parts.scheme}://{parts.netloc}", prefix, authorization)

    def url_of(self, path: str) -> URL:
        """Return where a request goes, exactly as it is signed.

        Raises:
            InvalidInputError: its path would change on the way.
            NotAskedError: the address of the zone cannot be written into a request.
        """
        url = self.urls.get(path)
        if url is not None:
            return url
        try:
            url = URL(f"{self.base}{self.prefix}{path}", encoded=True)
        except ValueError as error:
            raise NotAskedError(f"zone {self.zone.name}: {error}") from error
        if url.raw_path_qs != f"{self.prefix}{path}":
            raise InvalidInputError("path", "must not end with an empty query")
        if len(self.urls) < _URLS_MAX:
            self.urls[path] = url
        return url


@dataclass(slots=True)
class _Call:
    """One request, and how far it has come."""

    writer: StatesTenants
    zone: Zone
    asked: ForwardedRequest
    project_id: str
    user_id: str
    progress: Progress = field(default_factory=Progress)

    async def send(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send it, and if it only reads once more: a kept connection may just have ended."""
        try:
            return await self._send_once(request, handler)
        except _LostError:
            if self.asked.method not in _SAFE or self.asked.body or not self.progress.was_kept:
                raise
            return await self._send_once(request, handler)

    async def _send_once(
        self, request: ClientRequest, handler: ClientHandlerType
    ) -> ClientResponse:
        self.progress.was_kept = False
        # Each time another, for it may be used once.
        request.headers[STATEMENT_HEADER] = self.writer.write(
            self.zone.name, self.asked, project_id=self.project_id, user_id=self.user_id
        )
        try:
            return await handler(request)
        except ClientConnectorError:
            raise
        # As an error that aiohttp does not know: it would send PUT and DELETE again by itself.
        except ServerDisconnectedError as error:
            raise _LostError("the connection was closed instead of an answer") from error
        except ClientConnectionError as error:
            raise _LostError(f"the connection was lost ({type(error).__name__})") from error

    def error(self, reason: str) -> UnavailableError:
        """Return what to raise; only what was not begun to be sent has certainly not arrived."""
        kind = UnavailableError if self.progress.is_sent else NotAskedError
        return kind(f"zone {self.zone.name}: {reason}")


class _LostError(AnswerError):
    """The connection ended before the head of an answer had come."""


@asynccontextmanager
async def open_children(
    writer: StatesTenants,
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
    async with ClientSession(
        connector=Connector(context),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        trust_env=False,
        auto_decompress=False,
        skip_auto_headers=("Accept", "Content-Type"),
    ) as session:
        children = HttpChildren(session, writer, password_of)
        try:
            yield children
        finally:
            await children.close()


def _headers_of(asked: ForwardedRequest, authorization: str | None) -> dict[str, str]:
    """Return all headers but the statement."""
    headers = {
        name: value for name, value in asked.headers.items() if name.lower() not in _OWN_HEADERS
    }
    headers |= {"Accept-Encoding": "identity", "User-Agent": "berth"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return headers


def _check(asked: ForwardedRequest) -> None:
    """Refuse what would be read as something else, or as two requests.

    Raises:
        InvalidInputError: naming the part.
    """
    if _METHOD.fullmatch(asked.method) is None or asked.method == "CONNECT":
        raise InvalidInputError("method", "must be up to 16 capital letters, and not CONNECT")
    if _PATH.fullmatch(asked.path) is None or "#" in asked.path:
        raise InvalidInputError("path", "must begin with / and be encoded as in a URL")
    for name, value in asked.headers.items():
        if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            raise InvalidInputError(f"header {name[:80]!r}", "has characters that it cannot have")
