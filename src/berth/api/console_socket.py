"""The WebSocket through which a browser uses the VNC console of a server.

Binary messages carry the RFB protocol (RFC 6143) unchanged, as websockify does, so noVNC and other
clients of websockify can connect. The token in the query authenticates the client.
"""

import asyncio
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.header_fields import header_of, root_url
from berth.api.parts import ApiParts
from berth.api.place_limit import PlaceLimit
from berth.domain.client_network import network_of
from berth.domain.errors import BerthError, DriverError, NotFoundError
from berth.ports.gateway import VNC_CHANNELS_PER_INSTANCE_MAX
from berth.services.servers.vnc_consoles import ConsoleToken, VncChannel, console_host

PATH: Final = "/berth/v1/console"
"""The path in URLs of consoles; any other path works as well, as with Nova's proxy."""

CONSOLES_MAX: Final = 256
"""Maximum number of consoles that one process relays at the same time."""

CHECKS_MAX: Final = 256
"""Maximum number of tokens that one process checks at the same time."""

CHECKS_PER_ADDRESS_MAX: Final = 16
"""Maximum number of tokens of one client address that are checked at the same time."""

_SUBPROTOCOL: Final = "binary"
_QUERY_BYTES_MAX: Final = 4_096
_NORMAL: Final = 1000
_UNSUPPORTED: Final = 1003
_FAILED: Final = 1011


class ConsoleSocket:
    """Serves WebSocket connections, and passes all other requests on.

    Args:
        app: serves requests over HTTP.
        parts: the dependencies of the API.
    """

    def __init__(self, app: ASGIApp, parts: ApiParts) -> None:
        self._app = app
        self._parts = parts
        # A token contains the id of its server, so anyone who knows the id can make an invalid one.
        # A token that is being checked therefore counts for its sender, not for the server.
        self._checks = PlaceLimit(each_max=CHECKS_PER_ADDRESS_MAX, total_max=CHECKS_MAX)
        self._consoles = PlaceLimit(each_max=VNC_CHANNELS_PER_INSTANCE_MAX, total_max=CONSOLES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection or request."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        await receive()  # the request to connect
        if not await self._serve(scope, receive, send):
            await send({"type": "websocket.close"})  # before the connection is accepted: a 403

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Serve a client until either side ends; return False if the client may not connect."""
        checked = await self._check(scope)
        if checked is None:
            return False
        token, host = checked
        # The place is held before the channel opens and until it is closed.
        with self._consoles.place(token.instance_uuid) as has_place:
            if not has_place:
                self._refused("too many consoles are open", instance=token.instance_uuid)
                return False
            channel = await self._open(token, host)
            if channel is None:
                return False
            await self._show(channel, scope, receive, send)
        return True

    async def _show(self, channel: VncChannel, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept the connection, and relay until either side ends."""
        about = {"instance": channel.instance_uuid, "host": channel.host}
        self._parts.telemetry.event("console_opened", **about)
        try:
            subprotocol = _SUBPROTOCOL if _SUBPROTOCOL in scope["subprotocols"] else None
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
            code = await self._relay(channel, receive, send)
            if code is not None:
                await send({"type": "websocket.close", "code": code})
        finally:
            self._parts.telemetry.event("console_closed", **about)
            await self._close(channel)

    async def _check(self, scope: Scope) -> tuple[ConsoleToken, str] | None:
        """Return a client's valid token and the host of its server, or None."""
        query: bytes = scope["query_string"]
        if len(query) > _QUERY_BYTES_MAX or not self._is_own_page(scope):
            return None
        (text, *_) = parse_qs(query.decode("latin-1")).get("token", [""])
        address = _address_of(scope)
        with self._checks.place(address) as has_place:
            if not has_place:
                self._refused("too many tokens are being checked", address=address)
                return None
            try:
                token = ConsoleToken.parse(text)
                return token, await console_host(self._parts.bus, self._parts.ledger, token)
            except NotFoundError:
                return None
            except BerthError as error:
                self._parts.telemetry.failure("console_failed", error)
                return None

    async def _open(self, token: ConsoleToken, host: str) -> VncChannel | None:
        """Return a new channel to a server, or None if its guest or agent does not allow that."""
        parts = self._parts
        try:
            return await VncChannel.open(parts.bus, host, parts.ids, token)
        except (NotFoundError, DriverError):
            return None
        except BerthError as error:
            parts.telemetry.failure("console_failed", error)
            return None

    def _refused(self, reason: str, **about: str) -> None:
        self._parts.telemetry.event("console_refused", reason=reason, **about)

    def _is_own_page(self, scope: Scope) -> bool:
        """Return whether the page that connects may do so; programs other than browsers may."""
        # Only a token opens a console, but a token may leak together with its URL.
        origin = header_of(scope, b"origin")
        if origin is None:
            return True
        consoles = self._parts.consoles
        if origin in consoles.allowed_origins:
            return True
        # A proxy may serve HTTPS without saying so, so the schemes are not compared.
        pages = (root_url(scope), consoles.novnc_url)
        return _host_of(origin) in {_host_of(page) for page in pages if page is not None}

    async def _relay(self, channel: VncChannel, receive: Receive, send: Send) -> int | None:
        """Relay until either side ends; return the code with which to close, or None if closed."""
        towards = asyncio.create_task(_to_guest(channel, receive))
        back = asyncio.create_task(_to_client(channel, send))
        tasks = (towards, back)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        code: int | None = _NORMAL
        for result in results:
            if isinstance(result, NotFoundError | asyncio.CancelledError):
                continue  # the guest has ended the connection
            if isinstance(result, BaseException):
                self._parts.telemetry.failure("console_failed", result)
                code = _FAILED
            else:
                code = result
        return code

    async def _close(self, channel: VncChannel) -> None:
        try:
            await channel.close()
        except BerthError as error:
            self._parts.telemetry.failure("console_not_closed", error)


async def _to_guest(channel: VncChannel, receive: Receive) -> int | None:
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return None
        data: bytes | None = message.get("bytes")
        if data is None:
            return _UNSUPPORTED
        await channel.send(data)


async def _to_client(channel: VncChannel, send: Send) -> int | None:
    while True:
        if data := await channel.receive():
            await send({"type": "websocket.send", "bytes": data})


def _address_of(scope: Scope) -> str:
    """Return the address or network that counts as one client."""
    client: tuple[str, int] | None = scope.get("client")
    return "" if client is None else network_of(client[0])


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port or ""
    except ValueError:
        return ""
    return f"{parts.hostname}:{port}"
