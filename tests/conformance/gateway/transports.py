"""The transports of sessions, each of which a test can stop, start again and break."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Protocol

import aio_pika
from starlette.applications import Starlette
from yarl import URL

from berth.adapters.bus.rabbitmq import BrokerConnection, RabbitBroker
from berth.adapters.gateway.broker_names import GatewayNames
from berth.adapters.gateway.control_pins import ControlPins, pins_path
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.rabbitmq import BrokerSessions, broker_connector
from berth.adapters.gateway.remote import Connect, FrameStream
from berth.adapters.gateway.session import SessionList
from berth.adapters.gateway.websocket_client import connector
from berth.adapters.gateway.websocket_server import socket_class
from berth.adapters.http_server import HttpServer, TlsFiles, config_of, listening
from berth.config.control_keys import ControlKeyFile
from berth.domain.errors import UnavailableError
from berth.lab import loopback
from berth.lab.certificates import write_certificate
from tests.proxy import Proxy, proxying
from tests.unit.adapters.gateway.pipe import connect_pipe

_WITHIN_S = 30.0


class Transport(Protocol):
    """Carries sessions between agents and one process of the control plane."""

    async def start(self) -> None:
        """Accept sessions."""
        ...

    async def stop(self) -> None:
        """End all sessions as a process that stops, and accept no new ones."""
        ...

    async def cut(self) -> None:
        """Break all connections without closing them."""
        ...

    def connect(self, host: str, key: HostKeyFile) -> Connect:
        """Return the function with which the agent of a host connects."""
        ...


class PipeTransport:
    """Carries frames within one process."""

    def __init__(self, sessions: SessionList) -> None:
        self._sessions = sessions
        self._is_open = False

    async def start(self) -> None:
        """See `Transport.start`."""
        self._is_open = True

    async def stop(self) -> None:
        """See `Transport.stop`."""
        self._is_open = False
        await self.cut()

    async def close(self) -> None:
        """See `Transport.stop`."""
        await self.stop()

    async def cut(self) -> None:
        """See `Transport.cut`."""
        for session in list(self._sessions.by_host.values()):
            session.end(1000, "")

    def connect(self, host: str, key: HostKeyFile) -> Connect:
        """See `Transport.connect`."""
        del host, key
        return self._open

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[FrameStream]:
        if not self._is_open:
            raise UnavailableError("the process has stopped")
        async with connect_pipe(self._sessions) as pipe:
            yield pipe


class RabbitTransport:
    """Carries frames over RabbitMQ; agents reach the broker through a proxy.

    Args:
        sessions: the sessions of the process.
        broker: the broker, with a prefix that only this test uses.
        folder: the folder for the keys of the control plane.
    """

    def __init__(self, sessions: SessionList, broker: RabbitBroker, folder: Path) -> None:
        telemetry = sessions.telemetry
        self._sessions, self._broker, self._folder = sessions, broker, folder
        self._keys = ControlKeyFile(folder / "control-keys", sessions.clock, telemetry)
        sessions.control_keys = self._keys.public_keys
        self._stack = AsyncExitStack()
        self._proxy: Proxy | None = None
        self.brokered: BrokerSessions | None = None
        self.logins: dict[str, tuple[str, str]] = {}
        """User and password of a host at the broker; other hosts log in as the control plane."""
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See `Transport.start`."""
        if self._proxy is None:
            url = URL(self._broker.url)
            proxy = proxying(url.host or "", url.port or 5672)
            self._proxy = await self._stack.enter_async_context(proxy)
        line = BrokerConnection(self._broker, self._sessions.telemetry, Random())
        self.brokered = BrokerSessions(self._sessions, line, self._keys)
        self._running = asyncio.create_task(line.run())
        async with asyncio.timeout(_WITHIN_S):
            await line.up.wait()

    async def stop(self) -> None:
        """See `Transport.stop`."""
        if self.brokered is not None and self._running is not None:
            await self.brokered.finish()
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self.brokered = self._running = None

    async def close(self) -> None:
        """Stop, remove what is left on the broker, and close the proxy."""
        await self.stop()
        await self._stack.aclose()
        names = GatewayNames(self._broker.prefix)
        connection = await aio_pika.connect(self._broker.url)
        channel = await connection.channel()
        await channel.queue_delete(names.openings)
        await channel.exchange_delete(names.exchange)
        await connection.close()

    async def cut(self) -> None:
        """See `Transport.cut`."""
        await self.proxy.cut()

    @property
    def proxy(self) -> Proxy:
        """The proxy between the agents and the broker."""
        assert self._proxy is not None
        return self._proxy

    def near(self, host: str) -> RabbitBroker:
        """Return the broker as the agent of a host reaches it."""
        url = URL(self._broker.url).with_host(loopback.HOST).with_port(self.proxy.port)
        if host in self.logins:
            user, password = self.logins[host]
            url = url.with_user(user).with_password(password)
        return replace(self._broker, url=str(url))

    def pins(self, host: str) -> ControlPins:
        """Return the pinned keys of a host, as its enrolment leaves them."""
        pins = ControlPins(pins_path(self._folder / f"{host}.key"))
        pins.save(self._keys.public_keys())
        return pins

    def connect(self, host: str, key: HostKeyFile) -> Connect:
        """See `Transport.connect`."""
        return broker_connector(lambda: self.near(host), host, key.sign, self.pins(host))


class WebSocketTransport:
    """Carries frames over WebSocket, on uvicorn as the API does, through a proxy.

    Args:
        sessions: the sessions of the process.
        folder: the folder for a certificate; None serves without TLS.
    """

    def __init__(self, sessions: SessionList, folder: Path | None) -> None:
        self._sockets = socket_class(sessions)
        self._port = loopback.free_port()
        self._tls: TlsFiles | None = None
        if folder is not None:
            self._tls = TlsFiles(folder / "api.pem", folder / "api.key")
            write_certificate(self._tls.certificate, self._tls.key)
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._proxying: AbstractAsyncContextManager[Proxy] | None = None
        self._proxy: Proxy | None = None

    async def start(self) -> None:
        """See `Transport.start`."""
        if self._proxy is None:
            self._proxying = proxying(loopback.HOST, self._port)
            self._proxy = await self._proxying.__aenter__()
        server = self._server = HttpServer(config_of(Starlette(), self._tls, self._sockets))
        listener = listening(loopback.HOST, self._port)
        self._serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with asyncio.timeout(_WITHIN_S):
            while not server.started:  # noqa: ASYNC110 - uvicorn sets no event
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """See `Transport.stop`."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._server = self._serving = None

    async def close(self) -> None:
        """Stop, and close the proxy."""
        await self.stop()
        if self._proxying is not None:
            await self._proxying.__aexit__(None, None, None)

    async def cut(self) -> None:
        """See `Transport.cut`."""
        if self._proxy is not None:
            await self._proxy.cut()

    def connect(self, host: str, key: HostKeyFile) -> Connect:
        """See `Transport.connect`."""
        del host, key
        scheme = "http" if self._tls is None else "https"
        certificate = None if self._tls is None else self._tls.certificate

        @asynccontextmanager
        async def open_stream() -> AsyncGenerator[FrameStream]:
            # The port of the proxy is known once it runs.
            port = 0 if self._proxy is None else self._proxy.port
            connect = connector(f"{scheme}://{loopback.HOST}:{port}", certificate)
            async with connect() as stream:
                yield stream

        return open_stream
