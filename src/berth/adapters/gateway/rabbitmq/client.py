"""The connection of an agent to a gateway over RabbitMQ."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError, ChannelNotFoundEntity, DeliveryError, PublishError

from berth.adapters.bus.rabbitmq.broker import RabbitBroker
from berth.adapters.bus.rabbitmq.connection import (
    BrokerSession,
    broken_not_cancelled,
    hang_up,
    open_connection,
    unusable_error,
)
from berth.adapters.gateway.broker_names import OPENINGS, SESSION_ARGUMENTS, GatewayNames
from berth.adapters.gateway.control_pins import ControlPins
from berth.adapters.gateway.remote import Connect, FrameStream
from berth.adapters.gateway.secure_channel import (
    Alive,
    Closing,
    HostHandshake,
    RefusedError,
    SecureChannel,
)
from berth.adapters.gateway.wire import CONTROL_FRAME_BYTES_MAX
from berth.domain.errors import BerthError, InvalidInputError, UnavailableError

ALIVE_S: Final = 10.0
"""Seconds between two keep-alive messages of an agent."""

SILENT_S_MAX: Final = 35.0
"""Seconds without a message from the control plane after which the connection is closed."""

_OPEN_S_MAX: Final = 20.0
_CLOSE_S_MAX: Final = 2.0
_PREFETCH: Final = 32
_NORMAL: Final = 1000


class _Stream:
    """A secure channel through a broker; see `FrameStream`.

    Args:
        channel: the AMQP channel on which the agent's queue is consumed.
        secure: the secure channel.
        messages: receives the messages of that queue, and None when the connection is lost.
        publish: publishes a message to the gateway.
    """

    def __init__(
        self,
        channel: Channel,
        secure: SecureChannel,
        messages: "asyncio.Queue[DeliveredMessage | None]",
        publish: Callable[[bytes], "asyncio.Task[None]"],
    ) -> None:
        self._channel = channel
        self._secure = secure
        self._messages = messages
        self._publish = publish
        self._is_closed = False
        self.close_reason = ""

    async def send(self, data: bytes) -> None:
        if self._is_closed:
            raise UnavailableError("the connection to the gateway is closed")
        # Nothing is awaited between the messages of a frame, so no other frame comes between them.
        sent = [self._publish(message) for message in self._secure.seal(data)]
        try:
            # A cancelled caller must not withdraw a message, or the next one would be out of order.
            await asyncio.shield(asyncio.gather(*sent))
        except UnavailableError as error:
            self._end(str(error))
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._is_closed:
            try:
                async with asyncio.timeout(SILENT_S_MAX):
                    message = await self._messages.get()
            except TimeoutError:
                self._end(f"the control plane has sent nothing for {SILENT_S_MAX:.0f} s")
                return
            if message is None:
                self._end(self.close_reason or "the connection to the broker was lost")
                return
            frame = self._open(message.body)
            # The broker sends more only after an acknowledgement, so that waiting messages do not
            # fill the memory of a slow agent.
            try:
                await _acknowledge(self._channel, message)
            except (AMQPError, OSError, RuntimeError):
                self._end("the connection to the broker was lost")
            if frame is not None:
                yield frame

    async def close(self) -> None:
        if self._is_closed:
            return
        closing = self._publish(self._secure.seal_closing(_NORMAL, ""))
        self._end("")
        # A broker that does not answer must not keep an agent from connecting again.
        await asyncio.wait([closing], timeout=_CLOSE_S_MAX)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    async def stay_alive(self) -> None:
        """Send keep-alive messages, which the control plane answers, until cancelled."""
        while True:
            await asyncio.sleep(ALIVE_S)
            if self._is_closed:
                return
            try:
                await self._publish(self._secure.seal_alive())
            except UnavailableError as error:
                self._end(str(error))

    def _open(self, message: bytes) -> bytes | None:
        """Return the frame that a message completes, or None."""
        if self._is_closed:
            return None
        try:
            received = self._secure.open(message)
        except InvalidInputError as error:
            self._end(str(error))
            return None
        if isinstance(received, Closing):
            self._end(f"{received.code}: {received.reason}" if received.reason else "")
            return None
        return None if isinstance(received, Alive) else received

    def _end(self, reason: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.close_reason = self.close_reason or reason
            self._messages.put_nowait(None)


async def _acknowledge(channel: Channel, message: DeliveredMessage) -> None:
    if message.delivery_tag is not None:
        with broken_not_cancelled():
            await channel.basic_ack(message.delivery_tag, wait=False)


def broker_connector(
    broker_now: Callable[[], RabbitBroker],
    host: str,
    sign: Callable[[bytes], bytes],
    pins: ControlPins,
) -> Connect:
    """Return the function that connects the agent of a host to a gateway.

    Args:
        broker_now: returns the broker, with the host's user and current password.
        host: the name of the host.
        sign: signs with the key of the host.
        pins: the keys of the control plane.
    """

    @asynccontextmanager
    async def open_stream() -> AsyncGenerator[FrameStream]:
        broker = broker_now()
        try:
            connection = await open_connection(broker)
        except (AMQPError, OSError, RuntimeError) as error:
            raise unusable_error(broker, error) from error
        end = _End(BrokerSession(connection), broker)
        try:
            stream = await end.open(HostHandshake(host, sign, os.urandom), host, pins)
            alive = asyncio.create_task(stream.stay_alive())
            try:
                yield stream
            finally:
                alive.cancel()
                await stream.close()
        finally:
            end.stop()
            await hang_up(connection)

    return open_stream


class _End:
    """The agent's end of a session, with its own connection to the broker."""

    def __init__(self, session: BrokerSession, broker: RabbitBroker) -> None:
        self._session = session
        self._broker = broker
        self._names = GatewayNames(broker.prefix)
        self._messages: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        self._watching = asyncio.create_task(self._watch())
        self._publishing: Channel | None = None
        self._to = OPENINGS

    async def open(self, handshake: HostHandshake, host: str, pins: ControlPins) -> _Stream:
        """Open a channel to any gateway.

        Raises:
            UnavailableError: no gateway is connected to the broker or has answered in time, or the
                connection was lost.
            AccessDeniedError: the control plane refuses the host, or no pinned key has signed the
                answer.
            InvalidInputError: no key of the control plane is pinned, or the answer is malformed.
        """
        trusted = pins.required()
        try:
            channel = await self._consume(self._names.of_host(host, handshake.channel))
        except (AMQPError, OSError, RuntimeError) as error:
            raise unusable_error(self._broker, error) from error
        await self.publish(handshake.opening)
        secure, self._to = await self._accepted(channel, handshake, trusted)
        return _Stream(channel, secure, self._messages, self.publish)

    async def _consume(self, queue: str) -> Channel:
        with broken_not_cancelled():
            channel = await self._session.channel(prefetch=_PREFETCH)
            self._publishing = await self._session.channel(confirms=True)
            await channel.queue_declare(
                queue, exclusive=True, auto_delete=True, arguments=SESSION_ARGUMENTS
            )
            await channel.basic_consume(queue, self._on_message)
            return channel

    def stop(self) -> None:
        """Stop watching the connection."""
        self._watching.cancel()

    def publish(self, body: bytes) -> "asyncio.Task[None]":
        """Publish a message to the gateway; messages keep the order of the calls."""
        return asyncio.create_task(self._publish(body, self._to))

    async def _accepted(
        self, channel: Channel, handshake: HostHandshake, trusted: tuple[bytes, ...]
    ) -> tuple[SecureChannel, str]:
        """Return the result of the first valid answer; the others may come from anyone."""
        text = f"no gateway has answered within {_OPEN_S_MAX:.0f} s; see the log of the APIs"
        refused: BerthError = UnavailableError(text)
        try:
            async with asyncio.timeout(_OPEN_S_MAX):
                while (message := await self._messages.get()) is not None:
                    await _acknowledge(channel, message)
                    try:
                        return handshake.finish(
                            message.body, trusted, frame_bytes_max=CONTROL_FRAME_BYTES_MAX
                        )
                    except RefusedError:
                        raise
                    except BerthError as error:
                        refused = error
        except TimeoutError as error:
            raise refused from error
        raise UnavailableError("the connection to the broker was lost")

    async def _on_message(self, message: DeliveredMessage) -> None:
        self._messages.put_nowait(message)

    async def _watch(self) -> None:
        await self._session.ended.wait()
        self._messages.put_nowait(None)

    async def _publish(self, body: bytes, key: str) -> None:
        """Publish a message.

        Raises:
            UnavailableError: the gateway has ended the session, its queue is full, or the
                connection was lost.
        """
        channel = self._publishing
        if channel is None:
            raise UnavailableError(
                "the agent is not connected to the broker; it reconnects automatically"
            )
        try:
            with broken_not_cancelled():
                await channel.basic_publish(
                    body,
                    exchange=self._names.exchange,
                    routing_key=key,
                    mandatory=True,
                    wait=False,
                )
        except (PublishError, ChannelNotFoundEntity) as error:
            # The exchange itself is missing if no gateway has ever been connected.
            text = "no gateway is connected to the broker; start an API with gateway.rabbitmq"
            if key != OPENINGS:
                text = "the gateway has ended the session"
            raise UnavailableError(text) from error
        except DeliveryError as error:
            raise UnavailableError(
                "the broker rejected a message to the gateway, probably because its queue is full; "
                "the agent reconnects automatically"
            ) from error
        except Exception as error:
            # The library fails its pending waits with the exception that ended the connection.
            text = f"the connection to the broker was lost ({type(error).__name__})"
            raise UnavailableError(text) from error
