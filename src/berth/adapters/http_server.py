"""An HTTP server for ASGI applications within a process that also does other work."""

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from berth.adapters.http_connections import Connection, ConnectionLimit
from berth.adapters.http_handshakes import HANDSHAKE_S_MAX, TlsListener
from berth.adapters.http_protocol import LimitedProtocol
from berth.domain.errors import InvalidInputError

_GRACE_S = 5
_BACKLOG = 2048


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port.

    Raises:
        InvalidInputError: the address cannot be used, for example because it is in use or does not
            belong to this machine.
    """
    is_v6 = ":" in host
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"[{host}]:{port}" if is_v6 else f"{host}:{port}"
        reason = f"cannot listen on {where} ({error.strerror}); choose another address"
        raise InvalidInputError("listen", reason) from error


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a server's certificate and private key, in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    """The proxies that a server trusts, and its limit on open connections.

    Attributes:
        trusted_proxies: addresses and networks of proxies. On a connection from one of them, the
            client is the last address in `X-Forwarded-For` that is not a trusted proxy. On all
            other connections the header is ignored.
        limit: the limit on open connections, which servers must not share; None uses the default.
    """

    trusted_proxies: Sequence[str] = ()
    limit: ConnectionLimit | None = None


_DEFAULT_POLICY = ConnectionPolicy()


class HttpConfig(uvicorn.Config):
    """Uvicorn's configuration, and the limit that all connections of the server share."""

    def __init__(self, limit: ConnectionLimit, app: ASGIApp, **options: Any) -> None:  # noqa: ANN401 - whatever uvicorn accepts
        super().__init__(app, **options)
        self.limit = limit


async def serve_http(
    app: ASGIApp,
    listener: socket.socket,
    tls: TlsFiles | None = None,
    sockets: type[asyncio.Protocol] | None = None,
    connections: ConnectionPolicy = _DEFAULT_POLICY,
) -> None:
    """Serve an application until SIGINT or SIGTERM; requests in progress have 5 s to finish.

    Args:
        app: the application.
        listener: a listening socket; see `listening`.
        tls: the certificate; None serves unencrypted HTTP.
        sockets: the protocol class for WebSocket connections; None rejects such connections.
        connections: the trusted proxies and the limit on connections.

    Raises:
        InvalidInputError: the certificate or the key cannot be used.
    """
    await _SignalledServer(config_of(app, tls, sockets, connections)).serve(sockets=[listener])


async def serve_beside(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application until the call is cancelled, without handling signals.

    Args:
        app: the application.
        listener: a listening socket, which is closed at the end; see `listening`.

    Raises:
        InvalidInputError: the certificate or its key cannot be used.
    """
    with listener:
        await HttpServer(config_of(app)).serve(sockets=[listener])


def config_of(
    app: ASGIApp,
    tls: TlsFiles | None = None,
    sockets: type[asyncio.Protocol] | None = None,
    connections: ConnectionPolicy = _DEFAULT_POLICY,
) -> HttpConfig:
    """Return uvicorn's configuration for one of Berth's applications; see `serve_http`.

    Raises:
        InvalidInputError: the certificate or its key cannot be used.
    """
    limit = ConnectionLimit() if connections.limit is None else connections.limit
    protocol = partial(LimitedProtocol, connections=limit)
    config = HttpConfig(
        limit,
        app,
        loop="none",
        http=cast("type[asyncio.Protocol]", protocol),
        # By default, uvicorn trusts X-Forwarded-For from loopback. A proxy there that does not set
        # the header would pass on any value that a client sends.
        proxy_headers=bool(connections.trusted_proxies),
        forwarded_allow_ips=list(connections.trusted_proxies),
        ws="none" if sockets is None else sockets,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    if tls is None:
        return config
    try:
        config.load()
    except OSError as error:
        reason = (
            f"cannot use {tls.certificate} with the key {tls.key} ({error.strerror or error}); "
            "name a certificate chain and its private key in PEM"
        )
        raise InvalidInputError("api.tls_certificate", reason) from error
    context = config.ssl
    if context is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Session tickets cost memory for each connection, and agents keep their connections open.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return config


class HttpServer(uvicorn.Server):
    """A server that does not handle signals, and whose limit includes TLS handshakes.

    Args:
        config: uvicorn's configuration, with the limit on connections.
        handshake_s_max: the seconds within which a TLS handshake must be complete.
    """

    def __init__(self, config: HttpConfig, handshake_s_max: float = HANDSHAKE_S_MAX) -> None:
        super().__init__(config)
        self._limit = config.limit
        self._handshake_s_max = handshake_s_max

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signal handlers of the process unchanged."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        context = self.config.ssl
        if context is None or sockets is None:
            await super().startup(sockets)
            return
        await self.lifespan.startup()

        def protocol(handshake: Connection) -> asyncio.Protocol:
            create = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
            return create(self.config, self.server_state, self.lifespan.state, replaces=handshake)

        listeners = [
            TlsListener(one, context, protocol, self._limit, self._handshake_s_max)
            for one in sockets
        ]
        # Uvicorn only closes its servers, and waits for their end.
        self.servers = cast("list[asyncio.Server]", listeners)
        self.started = True


class _SignalledServer(HttpServer):
    """A server that returns after a signal, so that the caller can close the ledger.

    Uvicorn's own server raises the signal again after it has stopped, which would end the process.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Make the server stop at SIGINT or SIGTERM, and immediately at a second SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
