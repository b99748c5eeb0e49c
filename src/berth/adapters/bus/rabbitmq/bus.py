"""The bus between processes over RabbitMQ; see the port `Bus` and docs/adr/0016-the-broker.md."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from berth.adapters.bus.message_codec import MESSAGE_ID_BYTES, MessageCodec, unserved_error
from berth.adapters.bus.rabbitmq.broker import SHARED, routing_key
from berth.adapters.bus.rabbitmq.command_consumers import CommandConsumers
from berth.adapters.bus.rabbitmq.command_handlers import CommandHandlers
from berth.adapters.bus.rabbitmq.connection import (
    BrokerConnection,
    BrokerSession,
    broken_not_cancelled,
)
from berth.adapters.bus.rabbitmq.outbox import Outbox, OutgoingCall
from berth.adapters.bus.rabbitmq.pending_calls import PendingCall, PendingCalls, QueueWatch
from berth.adapters.bus.rabbitmq.refusals import Refusals
from berth.adapters.bus.signing import MessageSigner, RefusedMessageError
from berth.domain.errors import UnavailableError
from berth.ports.bus import CONTEXT, Command
from berth.ports.telemetry import Metrics

A = TypeVar("A")
R = TypeVar("R")

# The pseudo-queue of direct reply-to. Replies pass through no queue and need no confirm, because a
# caller that gets no reply repeats its call.
_REPLIES: Final = "amq.rabbitmq.reply-to"
# The maximum wait for a confirm. A broker with a memory or disk alarm blocks publishers; the call
# then fails, and the API uses the ledger instead.
_CONFIRM_S: Final = 5.0
_FINISH_S: Final = 5.0
_PERSISTENT: Final = 2


class RabbitBus:
    """Carries commands between processes over a broker connection.

    Each process has one bus. Without a connection a call fails immediately. On a new connection,
    the queues for the handlers of this process are declared again.

    Args:
        connection: the broker connection; the bus registers itself as a listener.
        own: a unique id of this process, which becomes part of the name of its own queue.
        signer: proves that messages come from the control plane, and checks received ones.
        metrics: counts refused messages.
        now_s: returns the Unix time in seconds, for deadlines.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        own: str,
        signer: MessageSigner,
        metrics: Metrics,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._broker = connection.broker
        self._now_s = now_s
        self._codec = MessageCodec(connection.broker.body_bytes_max, signer)
        self._refusals = Refusals(connection.telemetry, metrics, now_s)
        self._handlers = CommandHandlers(self._codec, connection.telemetry, now_s)
        self._consumers = CommandConsumers(
            connection.broker,
            self._handlers,
            self._codec,
            self._refusals,
            connection.telemetry,
            own,
        )
        self._calls = PendingCalls()
        self._queue_watch = QueueWatch(self._calls, now_s)
        self._outboxes: dict[Command[Any, Any], Outbox] = {}
        self._channel: Channel | None = None
        self._session: BrokerSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        connection.listeners.append(self)

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """See `Bus.call`."""
        name = f"{command.topic}.{command.name}"
        await self.apply_changes()
        queue = self._queue_of(command, server)
        if self._queue_watch.is_unserved(queue):
            raise unserved_error(command)
        context = CONTEXT.get().until(self._now_s() + timeout_s)
        message_id = secrets.token_bytes(MESSAGE_ID_BYTES)
        body = self._codec.command(command, args, context, server=server, message_id=message_id)
        with self._calls.begin(queue) as call:
            try:
                async with asyncio.timeout(timeout_s):
                    if command.batched and server is None:
                        self._outbox_of(command).add(OutgoingCall(call, body, timeout_s))
                    else:
                        await self._send(command, body, _sent_with(timeout_s, server, call), server)
                    answer = await call.answer
            except TimeoutError as error:
                raise UnavailableError(
                    f"{name} did not answer within {timeout_s:g} s; it may still be carried out, "
                    "so repeat it with the same request id"
                ) from error
        try:
            return self._codec.read_reply(command.reply, answer, message_id)
        except RefusedMessageError as error:
            self._refusals.note(error)
            raise

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """See `Bus.cast`. When this returns, a command without `server` is on the broker's disk."""
        await self.apply_changes()
        context = CONTEXT.get().until(self._now_s() + timeout_s)
        message_id = secrets.token_bytes(MESSAGE_ID_BYTES)
        body = self._codec.command(command, args, context, server=server, message_id=message_id)
        await self._send(command, body, _sent_with(timeout_s, server), server)

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """See `Bus.fanout`."""
        await self.apply_changes()
        message_id = secrets.token_bytes(MESSAGE_ID_BYTES)
        context = CONTEXT.get()
        body = self._codec.command(command, args, context, to_all=True, message_id=message_id)
        key = routing_key(command.topic, command.name)
        await self._publish(body, self._broker.fanout, key, Basic.Properties())

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """See `Bus.serve`. The queues are declared in the background, or before the next send."""
        remove = self._handlers.add(command, handler, server)
        self._changed()

        def stop() -> None:
            if remove():
                self._changed()

        return stop

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """See `Bus.serves`.

        The result is True while connected, unless the shared queue had no consumer at the last
        poll.
        """
        return self._connection.up.is_set() and not self._queue_watch.is_unserved(
            self._queue_of(command, server)
        )

    async def finish(self) -> None:
        """Accept no more commands, and wait up to 5 s for those in progress."""
        await self._consumers.finish(_FINISH_S)

    async def on_connected(self, session: BrokerSession) -> None:
        """See `SessionListener.on_connected`."""
        channel = await session.channel(confirms=True)
        await channel.basic_consume(_REPLIES, self._on_reply, no_ack=True)
        await self._consumers.connect(session)
        self._spawn(self._queue_watch.run(session))
        self._channel, self._session = channel, session

    def on_disconnected(self, reason: str) -> None:
        """See `SessionListener.on_disconnected`."""
        self._channel = self._session = None
        self._outboxes.clear()
        self._consumers.disconnect()
        for task in self._tasks:
            task.cancel()
        self._calls.fail(
            f"the connection to the broker broke ({reason}); the command may still be carried "
            "out, so repeat it with the same request id"
        )

    async def _on_reply(self, message: DeliveredMessage) -> None:
        properties = message.header.properties
        if properties.message_type != SHARED:
            self._calls.answer(properties.correlation_id or "", message.body)
            return
        try:
            replies = self._codec.split(message.body)
        except UnavailableError:
            self._refusals.note(RefusedMessageError("unsigned"))
            return
        for call_id, body in replies:
            self._calls.answer(call_id, body)

    def _outbox_of(self, command: Command[Any, Any]) -> Outbox:
        outbox = self._outboxes.get(command)
        if outbox is None:
            outbox = self._outboxes[command] = Outbox(
                partial(self._send_together, command), self._spawn, self._broker.body_bytes_max
            )
        return outbox

    async def _send_together(
        self, command: Command[Any, Any], calls: Sequence[OutgoingCall]
    ) -> None:
        """Publish a message that calls share.

        Raises:
            UnavailableError: no queue is bound for it, or publishing failed.
        """
        body = self._codec.join([(one.call.call_id, one.body) for one in calls])
        # The message expires with the last of its calls. Each call also has its own deadline.
        properties = _sent_with(max(one.timeout_s for one in calls), None)
        properties.reply_to, properties.message_type = _REPLIES, SHARED
        await self._send(command, body, properties, None)

    def _queue_of(self, command: Command[Any, Any], server: str | None) -> str | None:
        """Return the shared queue of a command, or None for a named server.

        The queue of a named server disappears with it, so the broker itself reports its absence.
        """
        return self._broker.queue_of(command) if server is None else None

    async def _send(
        self,
        command: Command[Any, Any],
        body: bytes,
        properties: Basic.Properties,
        server: str | None,
    ) -> None:
        """Publish a command.

        Raises:
            UnavailableError: no queue is bound for it, or publishing failed.
        """
        key = routing_key(command.topic, command.name, server)
        try:
            await self._publish(body, self._broker.commands, key, properties, mandatory=True)
        except _NotRoutedError as error:
            raise unserved_error(command, server) from error

    async def _publish(
        self,
        body: bytes,
        exchange: str,
        key: str,
        properties: Basic.Properties,
        *,
        mandatory: bool = False,
    ) -> None:
        """Publish a message and wait for the broker's confirm.

        Raises:
            UnavailableError: there is no connection, it broke, or the broker rejected the message
                or did not confirm it in time.
            _NotRoutedError: the message is mandatory and no queue is bound for it.
        """
        channel = self._channel
        if channel is None:
            raise UnavailableError(
                f"not connected to the broker {self._broker.safe_url}; check that it is running"
            )
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
                f"the broker rejected the command {key}, probably because its queue is full; try "
                "again later"
            ) from error
        except TimeoutError as error:
            raise UnavailableError(
                f"the broker did not confirm the command {key} within {_CONFIRM_S:g} s; check "
                "whether the broker has a memory or disk alarm"
            ) from error
        except Exception as error:
            # aiormq fails pending waits with whatever exception ended the connection.
            raise UnavailableError(
                f"the connection to the broker broke ({type(error).__name__}); the command may "
                "still be carried out, so repeat it with the same request id"
            ) from error

    async def apply_changes(self) -> None:
        """Declare the queues of this process, if its handlers have changed.

        This happens before each send, because the receiver may respond with a command to this
        process.
        """
        if self._consumers.is_behind:
            await self._apply_changes()

    async def _apply_changes(self) -> None:
        session = self._session
        try:
            with broken_not_cancelled():
                await self._consumers.apply_changes()
        except Exception as error:  # noqa: BLE001 - any failure is repaired by a new session
            if session is not None:
                session.end(f"{error!r}"[:300])

    def _changed(self) -> None:
        self._consumers.note_change()
        if self._channel is not None:
            self._spawn(self._apply_changes())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _sent_with(
    timeout_s: float, server: str | None, call: PendingCall | None = None
) -> Basic.Properties:
    """Return the properties of the message for a command; `call` is None for a cast."""
    return Basic.Properties(
        expiration=str(max(1, int(timeout_s * 1000))),
        delivery_mode=_PERSISTENT if server is None else None,
        reply_to=_REPLIES if call else None,
        correlation_id=call.call_id if call else None,
    )


class _NotRoutedError(Exception):
    """The broker returned a mandatory message because no queue is bound for it."""
