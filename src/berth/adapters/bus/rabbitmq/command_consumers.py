"""The queues and consumers of this process, which match its command handlers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from aiormq.abc import ArgumentsType, DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError
from pamqp.commands import Basic

from berth.adapters.bus.message_codec import MessageCodec, Part, unserved_error
from berth.adapters.bus.rabbitmq.broker import (
    DELIVERIES_MAX,
    QUEUE_LENGTH_MAX,
    QUEUE_UNUSED_MS,
    SHARED,
    RabbitBroker,
    routing_key,
)
from berth.adapters.bus.rabbitmq.command_handlers import CommandHandlers, Key
from berth.adapters.bus.rabbitmq.connection import BrokerSession, broken_not_cancelled
from berth.adapters.bus.rabbitmq.refusals import Refusals
from berth.adapters.bus.signing import RefusedMessageError
from berth.domain.errors import BerthError, UnavailableError
from berth.ports.bus import Command
from berth.ports.telemetry import Telemetry

# A quorum queue survives the restart of the broker and of its consumers (ADR 0016).
_COMMAND_QUEUE: Final[ArgumentsType] = {
    "x-queue-type": "quorum",
    "x-expires": QUEUE_UNUSED_MS,
    "x-max-length": QUEUE_LENGTH_MAX,
    "x-overflow": "reject-publish",
    "x-delivery-limit": DELIVERIES_MAX,
}
_BY_ONE_QUEUE: Final[ArgumentsType] = {**_COMMAND_QUEUE, "x-single-active-consumer": True}
# The average number of calls in a message of a batched command when a process is busy. A message
# may have up to four times as many.
_CALLS_A_MESSAGE: Final = 16
_OWN_QUEUE: Final[ArgumentsType] = {"x-max-length": QUEUE_LENGTH_MAX}
# A function that carries out the commands in a message.
_Take = Callable[[Channel, DeliveredMessage], Coroutine[Any, Any, None]]


def queue_arguments(command: Command[Any, Any]) -> ArgumentsType:
    """Return the arguments of the queue that all servers of a command share."""
    return _BY_ONE_QUEUE if command.by_one else _COMMAND_QUEUE


class CommandConsumers:
    """Consumes the commands for this process.

    Commands for any server come from a quorum queue that all servers of the command share. Each
    message in the queue of a batched command has one or more calls. Commands for a named server of
    this process, and fanouts, come from the process's own queue, which the broker deletes when the
    connection ends.

    Args:
        broker: the broker's settings.
        handlers: the handlers of this process by command.
        codec: encodes and decodes messages.
        refusals: records the messages that are refused.
        telemetry: receives the events and failures of this object.
        own: the name of this process, unique among the processes of the broker.
    """

    def __init__(
        self,
        broker: RabbitBroker,
        handlers: CommandHandlers,
        codec: MessageCodec,
        refusals: Refusals,
        telemetry: Telemetry,
        own: str,
    ) -> None:
        self._broker = broker
        self._handlers = handlers
        self._codec = codec
        self._refusals = refusals
        self._telemetry = telemetry
        self._own_prefix = f"{broker.prefix}.own.{own}"
        self._sessions = 0
        self._own = ""
        self._channel: Channel | None = None
        # Consumer tags by command, for the shared queues. The key None is for this process's own
        # queue.
        self._consumed: dict[Key | None, str] = {}
        self._bound: dict[Key, Command[Any, Any]] = {}
        self._fanouts: Counter[tuple[str, str]] = Counter()
        self._lock = asyncio.Lock()
        self._work: set[asyncio.Task[None]] = set()
        self._changes = 0
        self._applied_changes = 0

    async def connect(self, session: BrokerSession) -> None:
        """Declare the exchanges and queues in a new session, and consume the queues."""
        # The process's own queue has a new name in each session. Until the broker notices that the
        # previous connection is gone, it keeps that connection's exclusive queue, which no other
        # connection may declare.
        self._sessions += 1
        self._own = f"{self._own_prefix}.{self._sessions}"
        self._channel = await session.channel(prefetch=self._broker.prefetch)
        for exchange in (self._broker.commands, self._broker.fanout):
            await self._declare(self._channel, exchange)
        self.note_change()
        await self.apply_changes()

    def disconnect(self) -> None:
        """Forget the lost connection. Commands in progress continue and will be redelivered."""
        self._channel = None
        self._consumed.clear()
        self._bound.clear()
        self._fanouts.clear()

    def note_change(self) -> None:
        """Record that the queues may no longer match the handlers."""
        self._changes += 1

    @property
    def is_behind(self) -> bool:
        """Whether the handlers have changed since the queues were last declared."""
        return self._applied_changes != self._changes

    async def apply_changes(self) -> None:
        """Declare and consume the queues that the handlers need, and stop consuming the others."""
        async with self._lock:
            channel = self._channel
            while self.is_behind and channel is not None:
                changes = self._changes
                wanted = {key: one.command for key, one in self._handlers.served.items()}
                for key in [*self._bound.keys() - wanted.keys()]:
                    await self._unsubscribe(channel, key)
                for key in [key for key in wanted if key not in self._bound]:
                    await self._subscribe(channel, key, wanted[key])
                # Bindings are sent without waiting, because a process may serve 10,000 hosts. The
                # broker handles a channel in order, so the answer to one declaration confirms all
                # of them.
                await self._declare(channel, self._broker.fanout)
                self._applied_changes = changes

    async def finish(self, timeout_s: float) -> None:
        """Cancel all consumers, and wait up to `timeout_s` seconds for commands in progress."""
        channel = self._channel
        try:
            if channel is not None:
                with broken_not_cancelled():
                    for tag in self._consumed.values():
                        await channel.basic_cancel(tag)
        except (AMQPError, OSError, RuntimeError) as error:
            # Without a connection no new command can arrive anyway.
            self._telemetry.event("consumers_not_cancelled", reason=type(error).__name__)
        if self._work:
            await asyncio.wait(self._work, timeout=timeout_s)

    async def _subscribe(self, channel: Channel, key: Key, command: Command[Any, Any]) -> None:
        topic, name, server = key
        await self._consume_own_queue(channel)
        self._fanouts[topic, name] += 1
        if self._fanouts[topic, name] == 1:
            to_all = routing_key(topic, name)
            await channel.queue_bind(self._own, self._broker.fanout, to_all, nowait=True)
        exchange, to_key = self._broker.commands, routing_key(topic, name, server)
        if server is None:
            queue = self._broker.queue_of(command)
            arguments = queue_arguments(command)
            await channel.queue_declare(queue, durable=True, arguments=arguments)
            await channel.queue_bind(queue, exchange, to_key)
            take = self._take_shared if command.batched else self._take
            self._consumed[key] = await self._consume(channel, queue, take)
        else:
            await channel.queue_bind(self._own, exchange, to_key, nowait=True)
        self._bound[key] = command

    async def _unsubscribe(self, channel: Channel, key: Key) -> None:
        topic, name, server = key
        del self._bound[key]
        if server is None:
            await channel.basic_cancel(self._consumed.pop(key))
        else:
            to_key = routing_key(topic, name, server)
            await channel.queue_unbind(self._own, self._broker.commands, to_key)
        self._fanouts[topic, name] -= 1
        if not self._fanouts[topic, name]:
            to_key = routing_key(topic, name)
            await channel.queue_unbind(self._own, self._broker.fanout, to_key)

    async def _consume_own_queue(self, channel: Channel) -> None:
        if None not in self._consumed:
            await channel.queue_declare(
                self._own, exclusive=True, auto_delete=True, arguments=_OWN_QUEUE
            )
            self._consumed[None] = await self._consume(channel, self._own, self._take_own)

    async def _declare(self, channel: Channel, exchange: str) -> None:
        await channel.exchange_declare(exchange, exchange_type="direct", durable=True)

    async def _consume(self, channel: Channel, queue: str, take: _Take) -> str:
        prefetch = self._broker.prefetch
        is_batched = take == self._take_shared
        # The broker applies the prefetch to the consumers that are added after it.
        if is_batched:
            await channel.basic_qos(prefetch_count=max(1, prefetch // _CALLS_A_MESSAGE))
        consumed = await channel.basic_consume(queue, partial(self._on_message, channel, take))
        if is_batched:
            await channel.basic_qos(prefetch_count=prefetch)
        assert consumed.consumer_tag is not None  # noqa: S101 - the broker gives every one a tag
        return consumed.consumer_tag

    async def _on_message(
        self,
        channel: Channel,
        take: _Take,
        message: DeliveredMessage,
    ) -> None:
        # The command does not run in the channel's own task, which is cancelled when the channel
        # closes, because a command in progress must not be interrupted.
        task = asyncio.create_task(take(channel, message))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _take_shared(self, channel: Channel, message: DeliveredMessage) -> None:
        """Carry out the calls in a message, and reply to those that are done at the same time."""
        try:
            calls = self._codec.split(message.body)
        except UnavailableError:
            # Only the parts of a message have authentication codes, and this message does not
            # consist of parts.
            self._refusals.note(RefusedMessageError("unsigned"))
            await self._acknowledge(channel, message)
            return
        # Each call runs in its own task, with its own context variables.
        running = {
            asyncio.create_task(self._answer(body, message)): call_id for call_id, body in calls
        }
        is_refused = False
        while running:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            replies: list[Part] = []
            for task in done:
                call_id, reply = running.pop(task), task.result()
                is_refused = is_refused or reply is None
                if reply:
                    replies.append((call_id, reply))
            await self._reply_together(channel, message, replies)
        if is_refused:
            await self._requeue(channel, message)
        else:
            await self._acknowledge(channel, message)

    async def _take(self, channel: Channel, message: DeliveredMessage) -> None:
        """Carry out the command in a message of a shared queue, and reply to its caller."""
        answer = await self._answer(message.body, message)
        if answer is None:
            await self._requeue(channel, message)
        else:
            await self._finish_one(channel, message, answer)

    async def _take_own(self, channel: Channel, message: DeliveredMessage) -> None:
        """Carry out the command in a message of this process's own queue, and reply to its caller.

        No other process consumes this queue. A command that this process does not serve would
        return to it immediately, again and again until its deadline, so its caller gets an error.
        """
        answer = await self._answer(message.body, message, requeues=False)
        await self._finish_one(channel, message, answer or b"")

    async def _finish_one(self, channel: Channel, message: DeliveredMessage, answer: bytes) -> None:
        """Publish the reply to the only command in a message, and acknowledge the message."""
        # The reply is published first. If the process dies in between, the command is delivered
        # again, which callers and handlers tolerate. A command that was acknowledged without a
        # reply would leave its caller waiting.
        if answer:
            properties = Basic.Properties(
                correlation_id=message.header.properties.correlation_id, message_id="-"
            )
            await self._reply(channel, message, answer, properties)
        await self._acknowledge(channel, message)

    async def _answer(
        self, body: bytes, message: DeliveredMessage, *, requeues: bool = True
    ) -> bytes | None:
        """Carry out a command that came in a message, and return the encoded reply.

        It is empty if no caller waits. If this process does not serve the command, it is None, or
        an error unless the message may be requeued.
        """
        try:
            command_message = self._codec.read_command(
                body, is_redelivered=bool(message.redelivered)
            )
        except RefusedMessageError as error:
            # The reply has no authentication code, because anyone may have sent the message.
            self._refusals.note(error)
            return self._codec.failure(error)
        except BerthError as error:
            self._telemetry.failure("command_unreadable", error)
            return self._codec.failure(error)
        if self._handlers.is_late(command_message):
            self._telemetry.event(
                "command_expired", command=f"{command_message.topic}.{command_message.name}"
            )
            return b""
        reply = await self._handlers.carry_out(command_message)
        if reply is None and not requeues:
            unserved = unserved_error(command_message, command_message.server)
            return self._codec.failure(unserved, command_message.message_id)
        return reply

    async def _reply_together(
        self, channel: Channel, message: DeliveredMessage, replies: Sequence[Part]
    ) -> None:
        """Publish replies to the caller of a message as one message if its size allows that."""
        if not replies:
            return
        try:
            body = self._codec.join(replies)
        except UnavailableError:
            for one in replies if len(replies) > 1 else ():
                await self._reply_together(channel, message, [one])
            return
        properties = Basic.Properties(message_type=SHARED, message_id="-")
        await self._reply(channel, message, body, properties)

    async def _reply(
        self,
        channel: Channel,
        message: DeliveredMessage,
        body: bytes,
        properties: Basic.Properties,
    ) -> None:
        to_key = message.header.properties.reply_to
        if to_key:
            with self._answering():
                await channel.basic_publish(
                    body, routing_key=to_key, properties=properties, wait=False
                )

    async def _acknowledge(self, channel: Channel, message: DeliveredMessage) -> None:
        if message.delivery_tag is not None:
            with self._answering():
                await channel.basic_ack(message.delivery_tag, wait=False)

    async def _requeue(self, channel: Channel, message: DeliveredMessage) -> None:
        """Return a message to its queue, for another server."""
        if message.delivery_tag is not None:
            with self._answering():
                await channel.basic_reject(message.delivery_tag, requeue=True, wait=False)

    @contextmanager
    def _answering(self) -> Generator[None]:
        """Report an error of the connection; the broker then delivers the command again."""
        try:
            with broken_not_cancelled():
                yield
        except (AMQPError, OSError, RuntimeError) as error:
            self._telemetry.event("reply_not_sent", reason=type(error).__name__)
