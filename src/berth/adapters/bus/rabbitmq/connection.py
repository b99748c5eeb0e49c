"""The connection to the broker, which is re-established as a whole whenever any part breaks.

aio-pika can restore the parts of a connection one by one. Berth instead ends the session and
declares everything again in a new one, so that there is a single state to consider (ADR 0016).
"""

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
from aiormq.exceptions import AMQPError, InvalidFrameError

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
    """Turn a cancellation by the AMQP library, but not one of the task itself, into an error.

    When a connection breaks, aiormq cancels the futures that wait for the broker. The waiting task
    would then appear to have been cancelled itself, and would end silently.

    Raises:
        ConnectionError: the connection broke.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        # `cancelling` counts the requests to cancel this task. If it is 0, the library cancelled
        # the future for which the task waits.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionError(
            "the broker closed the connection or the network failed; Berth reconnects automatically"
        ) from error


class BrokerSession:
    """One connection with its channels, which ends when any channel except a spare one breaks.

    Attributes:
        ended: set when the session has ended.
        reason: the reason for its end.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self.ended = asyncio.Event()
        self.reason = "it was closed"
        connection.close_callbacks.add(self._on_close)

    async def channel(self, *, confirms: bool = False, prefetch: int = 0) -> Channel:
        """Open a channel whose failure ends the session.

        With `confirms`, the broker confirms each message, or returns it if it is mandatory and no
        queue is bound for it. `prefetch` limits the unacknowledged messages; 0 means no limit.
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
        """Open a channel that may fail without ending the session."""
        channel = await self._connection.channel(publisher_confirms=False)
        return _inner(await channel.get_underlay_channel())

    def end(self, reason: str) -> None:
        """End the session, so that a new one is established; only the first reason is kept."""
        if not self.ended.is_set():
            self.reason = reason
            self.ended.set()

    def _on_cancel(self, _: object) -> None:
        self.end("the broker cancelled a consumer, for example because its queue was deleted")

    def _on_close(self, _: object, error: BaseException | None = None) -> None:
        self.end("it was closed" if error is None else f"{error!r}"[:300])


class SessionListener(Protocol):
    """A user of the connection, which is notified of each session."""

    async def on_connected(self, session: BrokerSession) -> None:
        """Declare and consume what the listener needs in a new session."""
        ...

    def on_disconnected(self, reason: str) -> None:
        """Discard the state of the session, which has ended for the given reason."""
        ...


class BrokerConnection:
    """Keeps one connection to a broker open, with exponential backoff between attempts.

    Args:
        broker: the address and credentials.
        telemetry: receives an event for each connection and each failure, without the password.
        rng: provides the jitter that keeps many processes from reconnecting at the same moment.

    Attributes:
        up: set while a session exists and all listeners have set up their part of it.
        listeners: the users of each session, in the order in which they set it up; all are added
            before `run`.
    """

    def __init__(self, broker: RabbitBroker, telemetry: Telemetry, rng: Random) -> None:
        self.broker = broker
        self.telemetry = telemetry
        self._rng = rng
        self.listeners: list[SessionListener] = []
        self.up = asyncio.Event()
        self._connections = 0

    async def run(self) -> None:
        """Connect, and reconnect whenever the session ends, until cancelled."""
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
        """Connect, set up all listeners, and wait until the session ends.

        Raises:
            UnavailableError: the session has ended.
            AMQPError, OSError, RuntimeError: connecting or setting up a listener failed.
        """
        connection = await open_connection(self.broker)
        session = BrokerSession(connection)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                with broken_not_cancelled():
                    for listener in self.listeners:
                        await listener.on_connected(session)
            self._connections += 1
            self.up.set()
            self.telemetry.event("broker_connected", broker=self.broker.safe_url)
            await session.ended.wait()
            raise UnavailableError(
                f"the connection to the broker {self.broker.safe_url} broke ({session.reason}); "
                "Berth reconnects automatically"
            )
        finally:
            self.up.clear()
            for listener in self.listeners:
                listener.on_disconnected(session.reason)
            await self._hang_up(connection)

    async def _hang_up(self, connection: AbstractConnection) -> None:
        if not await hang_up(connection):
            self.telemetry.event("broker_close_timed_out", broker=self.broker.safe_url)

    def _report(self, error: Exception) -> None:
        if isinstance(error, UnavailableError):
            # The reason why a session broke may quote the library, and with it the URL and its
            # password.
            error = UnavailableError(self.broker.redact(str(error)))
        else:
            error = unusable_error(self.broker, error)
        self.telemetry.failure("broker_unavailable", error)


async def open_connection(broker: RabbitBroker) -> AbstractConnection:
    """Return a new connection to a broker.

    Raises:
        AMQPError, OSError, RuntimeError: the broker cannot be reached, or refuses the user.
    """
    # The library would log failures with a traceback, and unexpected messages in full.
    for library in ("aio_pika", "aiormq"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    with broken_not_cancelled():
        return await aio_pika.connect(
            broker.connect_url,
            timeout=_CONNECT_TIMEOUT_S,
            ssl_context=broker.tls(),
            client_properties={"connection_name": f"berth {socket.gethostname()} {os.getpid()}"},
        )


async def hang_up(connection: AbstractConnection) -> bool:
    """Close a connection that may be broken; return whether that succeeded."""
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            with broken_not_cancelled():
                await connection.close()
    except (AMQPError, OSError, RuntimeError):
        return False
    return True


def unusable_error(broker: RabbitBroker, error: Exception) -> UnavailableError:
    """Return the error that says why a broker cannot be used, without its password."""
    text = f"cannot use the broker at {broker.safe_url}: {_describe(error)}"
    return UnavailableError(broker.redact(text))


def _inner(channel: AbstractChannel) -> Channel:
    """Return the aiormq channel of an aio-pika channel; it needs half the CPU time per message.

    Raises:
        UnavailableError: the installed aio-pika has other channels.
    """
    if not isinstance(channel, Channel):
        raise UnavailableError(
            "the installed version of aio-pika is incompatible, because its channels are not "
            "aiormq channels; run pip install 'berth-scheduler[rabbitmq]' to install the right one"
        )
    return channel


def _describe(error: Exception) -> str:
    if isinstance(error, InvalidFrameError) and "Connection.OpenOk" in str(error):
        # The client does not pass on the reason that the broker gives for this.
        return (
            "it refuses the virtual host; create it (rabbitmqctl add_vhost) or give the user "
            "permissions there (rabbitmqctl set_permissions)"
        )
    return f"{type(error).__name__}: {error}"[:300]
