"""The line: one connection to the broker, made again whenever it breaks."""

import asyncio
import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Protocol

import aio_pika
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError

from berth.adapters.bus.rabbitmq.broker import RabbitBroker
from berth.domain.errors import UnavailableError
from berth.ports.telemetry import Telemetry

_CONNECT_TIMEOUT_S = 10.0
_OPEN_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 5.0


@contextmanager
def broken_not_cancelled() -> Generator[None]:
    """Tell a wait that the library has given up from one whose task is cancelled.

    When a connection breaks the library cancels the futures that wait for the broker, and not
    always with the reason. Whoever waits would then seem to have been cancelled itself, which ends
    tasks without a word.

    Raises:
        ConnectionError: the connection broke.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionError("the connection to the broker broke") from error


class BrokerSession:
    """One life of the connection. It ends as a whole when any part of it breaks."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._ended = asyncio.Event()
        self.reason = "it was closed"
        connection.close_callbacks.add(self._on_close)

    async def channel(self, *, confirms: bool = False, prefetch: int = 0) -> Channel:
        """Open a channel; when it breaks, so does the session.

        With `confirms` each message is known to have arrived, or to have reached nobody.
        """
        channel = await self._connection.channel(
            publisher_confirms=confirms, on_return_raises=confirms
        )
        channel.close_callbacks.add(self._on_close)
        if prefetch:
            await channel.set_qos(prefetch_count=prefetch)
        inner = _inner(await channel.get_underlay_channel())
        inner.on_consumer_cancel_callbacks.add(self._on_cancel)
        return inner

    async def spare_channel(self) -> Channel:
        """Open a channel that may break alone."""
        channel = await self._connection.channel(publisher_confirms=False)
        return _inner(await channel.get_underlay_channel())

    def end(self, reason: str) -> None:
        """Give the session up, so that a new one is made."""
        if not self._ended.is_set():
            self.reason = reason
            self._ended.set()

    async def ended(self) -> None:
        """Wait for the end."""
        await self._ended.wait()

    def _on_cancel(self, _: object) -> None:
        self.end("the broker took a queue away")

    def _on_close(self, _: object, error: BaseException | None = None) -> None:
        self.end("it was closed" if error is None else f"{error!r}"[:300])


class SessionListener(Protocol):
    """Somebody who uses the line."""

    async def on_connected(self, session: BrokerSession) -> None:
        """Set up what is needed on a new connection."""
        ...

    def on_disconnected(self, reason: str) -> None:
        """The connection is gone, and all that was set up on it."""
        ...


class BrokerConnection:
    """Keeps one connection to a broker, with growing pauses while there is none.

    Args:
        broker: where to.
        telemetry: told of connections and failures, never of the password.
        rng: keeps many processes from coming back at the same moment.
    """

    def __init__(self, broker: RabbitBroker, telemetry: Telemetry, rng: Random) -> None:
        self.broker = broker
        self.telemetry = telemetry
        self._rng = rng
        self._listeners: list[SessionListener] = []
        for library in ("aio_pika", "aiormq"):
            # They tell of each break with a traceback, and of strange messages with all of them.
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._up = asyncio.Event()
        self._connections = 0

    def add(self, listener: SessionListener) -> None:
        """Add a listener; only before `run`."""
        self._listeners.append(listener)

    @property
    def is_up(self) -> bool:
        """There is a connection, and all riders are set up."""
        return self._up.is_set()

    async def wait_until_up(self) -> None:
        """Wait for that."""
        await self._up.wait()

    async def run(self) -> None:
        """Keep a connection for ever."""
        pause_s = _PAUSE_FIRST_S
        while True:
            connections = self._connections
            try:
                await self._run_session()
            except (AMQPError, OSError, RuntimeError, UnavailableError) as error:
                self._report(error)
            if self._connections != connections:
                pause_s = _PAUSE_FIRST_S
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)

    async def _run_session(self) -> None:
        """Make a connection and keep it until it breaks."""
        connection = await self._connect()
        session = BrokerSession(connection)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                with broken_not_cancelled():
                    for listener in self._listeners:
                        await listener.on_connected(session)
            self._connections += 1
            self._up.set()
            self.telemetry.event("broker_connected", broker=self.broker.safe_url)
            await session.ended()
            raise UnavailableError(f"the connection to the broker broke: {session.reason}")
        finally:
            self._up.clear()
            for listener in self._listeners:
                listener.on_disconnected(session.reason)
            await self._hang_up(connection)

    async def _connect(self) -> AbstractConnection:
        broker = self.broker
        with broken_not_cancelled():
            return await aio_pika.connect(
                broker.connect_url,
                timeout=_CONNECT_TIMEOUT_S,
                ssl_context=broker.tls(),
                client_properties={
                    "connection_name": f"berth {socket.gethostname()} {os.getpid()}"
                },
            )

    async def _hang_up(self, connection: AbstractConnection) -> None:
        """Close a connection; one that is broken already has nothing to say about that."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                with broken_not_cancelled():
                    await connection.close()
        except (AMQPError, OSError, RuntimeError):
            self.telemetry.event("broker_left_rudely", broker=self.broker.safe_url)

    def _report(self, error: Exception) -> None:
        if not isinstance(error, UnavailableError):
            # What libraries say may name the URL, with its password.
            text = f"the broker at {self.broker.safe_url} cannot be used: {_describe(error)}"
            error = UnavailableError(text.replace(self.broker.url, self.broker.safe_url))
        self.telemetry.failure("broker_unavailable", error)


def _inner(channel: AbstractChannel) -> Channel:
    """Return the channel below that of aio-pika, which takes half the time for each message."""
    if not isinstance(channel, Channel):
        raise UnavailableError("this aio-pika is not one that Berth knows; use another version")
    return channel


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
