"""The connection of an agent to a gateway over WebSocket."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from berth.adapters.gateway.remote import Connect, FrameStream
from berth.adapters.gateway.websocket_server import PATH
from berth.adapters.gateway.wire import CONTROL_FRAME_BYTES_MAX
from berth.domain.errors import InvalidInputError, UnavailableError

_OPEN_S_MAX: Final = 20.0
_CLOSE_S_MAX: Final = 2.0
_SCHEMES: Final = {"https": "wss", "http": "ws"}
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""The names and addresses of this machine itself."""


class _Stream:
    """A WebSocket connection; see `FrameStream`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, data: bytes) -> None:
        try:
            await self._connection.send(data)
        except ConnectionClosed as error:
            raise UnavailableError("the connection to the gateway is closed") from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._connection:
                yield data if isinstance(data, bytes) else data.encode()
        except ConnectionClosed:
            return

    async def close(self) -> None:
        await self._connection.close()

    @property
    def close_reason(self) -> str:
        code, reason = self._connection.close_code, self._connection.close_reason
        return f"{code}: {reason}" if reason else ""


def check_url(url: str) -> str:
    """Return the WebSocket address of a gateway's URL.

    Raises:
        InvalidInputError: the URL is not that of an HTTP server, has a user, a query or a fragment,
            or is unencrypted and not on loopback.
    """
    # The error does not quote the URL, which may contain a password.
    reason = "must be https://HOST:PORT without a user, query or fragment"
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise InvalidInputError("agent.gateway_url", reason) from error
    scheme = _SCHEMES.get(parts.scheme)
    has_user = "@" in parts.netloc
    if scheme is None or not has_place or has_user or parts.query or parts.fragment:
        raise InvalidInputError("agent.gateway_url", reason)
    if scheme == "ws" and parts.hostname not in LOOPBACK:
        reason = (
            f"{url!r} is unencrypted, which is allowed on loopback only; use https, and "
            "agent.gateway_ca_file if the certificate is signed by a CA of your own"
        )
        raise InvalidInputError("agent.gateway_url", reason)
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + PATH, "", ""))


def tls_context(url: str, ca_file: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context of a client, or None for an unencrypted URL.

    Args:
        url: the gateway's URL.
        ca_file: CA certificates in PEM, which replace the system's; None uses the system's.

    Raises:
        InvalidInputError: the file cannot be read.
    """
    if urlsplit(url).scheme != "https":
        return None
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        why = error.strerror or error
        reason = f"cannot load CA certificates from {ca_file} ({why}); name a PEM file"
        raise InvalidInputError("agent.gateway_ca_file", reason) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def connector(url: str, ca_file: Path | None = None) -> Connect:
    """Return the function that connects to a gateway.

    Args:
        url: the URL of the API (`https://control.example:8774`).
        ca_file: CA certificates in PEM; None uses the system's.

    Raises:
        InvalidInputError: the URL or the file cannot be used.
    """
    address, context = check_url(url), tls_context(url, ca_file)

    @asynccontextmanager
    async def open_stream() -> AsyncGenerator[FrameStream]:
        try:
            connection = await connect(
                address,
                ssl=context,
                compression=None,
                max_size=CONTROL_FRAME_BYTES_MAX,
                # Heartbeats and their echoes already show that the other end is alive.
                ping_interval=None,
                open_timeout=_OPEN_S_MAX,
                close_timeout=_CLOSE_S_MAX,
                proxy=None,
                user_agent_header=None,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise UnavailableError(
                f"{url} refused the connection with HTTP {status}; check that a gateway of "
                "Berth serves this URL"
            ) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            raise UnavailableError(
                f"cannot connect to {url} ({error}); check the URL, and that the gateway runs"
            ) from error
        try:
            yield _Stream(connection)
        finally:
            await connection.close()

    return open_stream
