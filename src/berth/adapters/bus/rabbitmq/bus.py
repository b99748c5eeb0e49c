"""The bus between processes; see the port `Bus` and ADR 0016."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiormq.channel import Channel
from aiormq.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from berth.adapters.bus.message_codec import MessageCodec
from berth.adapters.bus.rabbitmq.broker import routing_key
from berth.adapters.bus.rabbitmq.command_consumers import CommandConsumers
from berth.adapters.bus.rabbitmq.command_handlers import CommandHandlers
from berth.adapters.bus.rabbitmq.connection import (
    BrokerConnection,
    BrokerSession,
    broken_not_cancelled,
)
from berth.adapters.bus.rabbitmq.pending_calls import PendingCall, PendingCalls, QueueWatch
from berth.domain.errors import UnavailableError
from berth.ports.bus import CONTEXT, Command

A = TypeVar("A")
R = TypeVar("R")

_REPLIES: Final = "amq.rabbitmq.reply-to"
"""The broker's name for the answers to this channel, which go through no queue."""
_CONFIRM_S: Final = 5.0
"""A broker that takes longer to confirm a message takes none, as one without memory does."""
_FINISH_S: Final = 5.0
_PERSISTENT: Final = 2


class RabbitBus:
    """Carries commands between processes over a connection.

    Each process has one. It works while the connection runs; without a connection a call fails at
    once, and what is served here is served again as soon as there is one.

    Args:
        connection: the connection, to which it adds itself.
        own: tells this process from all others; it names its queue.
        now_s: tells the Unix time, for deadlines.
    """

    def __init__(
        self, connection: BrokerConnection, own: str, *, now_s: Callable[[], float] = time.time
    ) -> None:
        self._connection = connection
        self._broker = connection.broker
        self._now_s = now_s
        self._codec = MessageCodec(connection.broker.body_bytes_max)
        self._handlers = CommandHandlers(self._codec, connection.telemetry, now_s)
        self._consumers = CommandConsumers(
            connection.broker, self._handlers, self._codec, connection.telemetry, own
        )
        self._calls = PendingCalls()
        self._queue_watch = QueueWatch(self._calls, now_s)
        self._channel: Channel | None = None
        self._session: BrokerSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        connection.add(self)

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """See `Bus.call`."""
        name = f"{command.topic}.{command.name}"
        await self.apply_changes()
        queue = self._queue_of(command, server)
        if self._queue_watch.is_unserved(queue):
            raise UnavailableError(f"nobody serves {name}; is one running?")
        context = CONTEXT.get().until(self._now_s() + timeout_s)
        body = self._codec.command(command, args, context, server=server)
        with self._calls.begin(queue) as call:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._send(command, body, timeout_s, server, call)
                    answer = await call.answer
            except TimeoutError as error:
                raise UnavailableError(
                    f"{name} did not answer in {timeout_s:g} s; it may still be carried out, "
                    "so repeat it with the same request id"
                ) from error
        return self._codec.read_reply(command.reply, answer)

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """See `Bus.cast`. The broker has it on disk, when it is for nobody in particular."""
        await self.apply_changes()
        context = CONTEXT.get().until(self._now_s() + timeout_s)
        body = self._codec.command(command, args, context, server=server)
        await self._send(command, body, timeout_s, server, None)

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """See `Bus.fanout`."""
        await self.apply_changes()
        body = self._codec.command(command, args, CONTEXT.get(), to_all=True)
        key = routing_key(command.topic, command.name)
        await self._publish(body, self._broker.fanout, key, Basic.Properties())

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """See `Bus.serve`. The broker is told in the background."""
        remove = self._handlers.add(command, handler, server)
        self._changed()

        def stop() -> None:
            if remove():
                self._changed()

        return stop

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """See `Bus.serves`: True while there is a connection and nothing speaks against it."""
        return self._connection.is_up and not self._queue_watch.is_unserved(
            self._queue_of(command, server)
        )

    async def finish(self) -> None:
        """Take no more commands, and wait a little for those that are being worked on."""
        await self._consumers.finish(_FINISH_S)

    async def on_connected(self, session: BrokerSession) -> None:
        """See `SessionListener.on_connected`."""
        channel = await session.channel(confirms=True)
        await channel.basic_consume(_REPLIES, self._calls.on_message, no_ack=True)
        await self._consumers.connect(session)
        self._queue_watch.forget()
        self._spawn(self._queue_watch.run(session))
        self._channel, self._session = channel, session

    def on_disconnected(self, reason: str) -> None:
        """See `SessionListener.on_disconnected`."""
        self._channel = self._session = None
        self._consumers.disconnect()
        for task in self._tasks:
            task.cancel()
        self._calls.fail(
            f"the connection to the broker broke ({reason}); the command may still be carried "
            "out, so repeat it with the same request id"
        )

    def _queue_of(self, command: Command[Any, Any], server: str | None) -> str | None:
        """Name the queue that outlives its servers; that of a named one does not."""
        return self._broker.queue_of(command) if server is None else None

    async def _send(
        self,
        command: Command[Any, Any],
        body: bytes,
        timeout_s: float,
        server: str | None,
        call: PendingCall | None,
    ) -> None:
        """Hand a command to the broker, which knows of a server or says so."""
        properties = Basic.Properties(
            expiration=str(max(1, int(timeout_s * 1000))),
            delivery_mode=_PERSISTENT if server is None else None,
            reply_to=_REPLIES if call else None,
            correlation_id=call.call_id if call else None,
        )
        key = routing_key(command.topic, command.name, server)
        try:
            await self._publish(body, self._broker.commands, key, properties, mandatory=True)
        except _NotRoutedError as error:
            raise UnavailableError(f"nobody serves {key}; is one running?") from error

    async def _publish(
        self,
        body: bytes,
        exchange: str,
        key: str,
        properties: Basic.Properties,
        *,
        mandatory: bool = False,
    ) -> None:
        """Hand a message to the broker and wait until it has it.

        Raises:
            UnavailableError: there is no connection, it broke, or the broker refused.
            _NotRoutedError: there is no queue for it, and there had to be one.
        """
        channel = self._channel
        if channel is None:
            raise UnavailableError(f"there is no connection to the broker {self._broker.safe_url}")
        try:
            with broken_not_cancelled():
                await channel.basic_publish(
                    body,
                    exchange=exchange,
                    routing_key=key,
                    properties=properties,
                    mandatory=mandatory,
                    timeout=_CONFIRM_S,
                    wait=False,
                )
        except PublishError as error:
            raise _NotRoutedError from error
        except DeliveryError as error:
            raise UnavailableError(
                f"the broker took no more of {key}; its queue is full"
            ) from error
        except TimeoutError as error:
            raise UnavailableError(
                f"the broker did not confirm {key} in {_CONFIRM_S:g} s"
            ) from error
        except Exception as error:
            # The library ends what waits with whatever ended the connection.
            raise UnavailableError(
                f"the connection to the broker broke ({type(error).__name__}); the command may "
                "still be carried out, so repeat it with the same request id"
            ) from error

    async def apply_changes(self) -> None:
        """Have the broker know who serves here, so that what is sent next may come back."""
        if self._consumers.is_behind:
            await self._apply_changes()

    async def _apply_changes(self) -> None:
        session = self._session
        try:
            with broken_not_cancelled():
                await self._consumers.apply_changes()
        except Exception as error:  # noqa: BLE001 - whatever it is, a new connection begins anew
            if session is not None:
                session.end(f"{error!r}"[:300])

    def _changed(self) -> None:
        self._consumers.note_change()
        if self._channel is not None:
            self._spawn(self._apply_changes())

    def _spawn(self, work: Any) -> None:  # noqa: ANN401 - a coroutine without a result
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _NotRoutedError(Exception):
    """The broker knows no queue for a message."""
