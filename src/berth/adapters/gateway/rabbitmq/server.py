"""The control plane's end of the agents' sessions over RabbitMQ.

The opening of a session waits in a queue that all gateways share. The gateway that takes it
declares a queue for this session, and names it in its answer, so everything else of the session
reaches the same process.
"""

import asyncio
from collections.abc import Coroutine
from typing import Final, Protocol

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError, DeliveryError, PublishError

from berth.adapters.bus.rabbitmq import BrokerConnection
from berth.adapters.bus.rabbitmq.connection import BrokerSession, broken_not_cancelled
from berth.adapters.gateway.broker_names import (
    OPENING_ARGUMENTS,
    OPENINGS,
    QUEUE_BYTES_MAX,
    SESSION_ARGUMENTS,
    GatewayNames,
)
from berth.adapters.gateway.secure_channel import (
    Alive,
    Closing,
    Opening,
    SecureChannel,
    accept,
    opening_of,
    refuse,
)
from berth.adapters.gateway.session import (
    DENIED,
    MALFORMED,
    NORMAL,
    PROOF_S_MAX,
    AgentSession,
    SessionList,
)
from berth.adapters.gateway.wire import AGENT_FRAME_BYTES_MAX
from berth.domain.errors import InvalidInputError

SILENT_S_MAX: Final = 45.0
"""Seconds without a message from an agent after which its session ends."""

_STRANGER_FRAME_BYTES_MAX: Final = 4 * 1024
_STRANGERS_MAX: Final = 1_000
_TOKEN_BYTES: Final = 16
_PREFETCH: Final = 32
_SWEEP_S: Final = 2.0
_REPORT_S: Final = 1.0
_FINISH_S: Final = 5.0
_RESTARTING: Final = 1012


class ControlSigner(Protocol):
    """Signs as the control plane."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data` by the key in use."""
        ...


class BrokerSessions:
    """Accepts sessions over a broker; registers itself as a listener of the connection.

    Args:
        sessions: the sessions of the process.
        connection: the broker connection, which nothing else should use.
        signer: signs the answers to agents.
    """

    def __init__(
        self, sessions: SessionList, connection: BrokerConnection, signer: ControlSigner
    ) -> None:
        self._sessions = sessions
        self._signer = signer
        self._names = GatewayNames(connection.broker.prefix)
        self._links: dict[bytes, _Link] = {}
        self.strangers: set[bytes] = set()
        """The ids of the channels whose agents have not yet proven the identity of their hosts."""
        # The number of openings refused since the last report, and the time of that report.
        self._unreported, self._reported_s = 0, float("-inf")
        self._publishing: Channel | None = None
        self._consuming: Channel | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        connection.listeners.append(self)

    async def on_connected(self, session: BrokerSession) -> None:
        """See `SessionListener.on_connected`."""
        names = self._names
        consuming = await session.channel(prefetch=_PREFETCH)
        self._publishing = await session.channel(confirms=True)
        self._consuming = consuming
        await consuming.exchange_declare(names.exchange, exchange_type="direct", durable=True)
        await consuming.queue_declare(names.openings, durable=True, arguments=OPENING_ARGUMENTS)
        await consuming.queue_bind(names.openings, names.exchange, OPENINGS)
        await consuming.basic_consume(names.openings, self._on_opening)
        self._sweeper = asyncio.create_task(self._sweep())

    def on_disconnected(self, reason: str) -> None:
        """See `SessionListener.on_disconnected`. The sessions end; agents open new ones."""
        del reason
        self._publishing = self._consuming = None
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for link in list(self._links.values()):
            link.lost()
        for task in list(self._tasks):
            task.cancel()

    async def finish(self) -> None:
        """Tell all agents that the process stops, so that they connect elsewhere immediately."""
        for link in list(self._links.values()):
            link.close(_RESTARTING, "the process is stopping; connect again")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_FINISH_S)

    async def _on_opening(self, message: DeliveredMessage) -> None:
        # The callback returns immediately, because the library awaits it for each message in turn.
        self.spawn(self._take_opening(message))

    async def _take_opening(self, message: DeliveredMessage) -> None:
        channel, tag = self._consuming, message.delivery_tag
        if channel is None or tag is None:
            return
        try:
            with broken_not_cancelled():
                await self._open(channel, message.body)
                await channel.basic_ack(tag, wait=False)
        except (AMQPError, OSError, RuntimeError) as error:
            # The opening is not acknowledged, so the broker gives it to another gateway.
            self._sessions.telemetry.event("session_request_lost", reason=type(error).__name__)

    async def _open(self, channel: Channel, body: bytes) -> None:
        """Answer an opening, unless it is not authentic.

        Raises:
            AMQPError, OSError, RuntimeError: the broker cannot be used.
        """
        sessions = self._sessions
        try:
            opening = opening_of(body)
            # Nothing is stored for unauthenticated peers. An answer to such a peer reaches no
            # other, because the name of the queue contains the id of the channel.
            key = sessions.services.signer(opening.host, opening.signed, opening.signature)
            if key is None:
                self._note_refusal(opening.host[:255])
                reason = "the signature was not made with a valid key of the host"
                answer = refuse(body, opening, DENIED, reason, self._signer.sign)
                await self._publish(self._host_queue(opening), answer)
                return
            if opening.channel in self._links or len(self.strangers) >= _STRANGERS_MAX:
                return
            queue = self._names.of_gateway(sessions.random_bytes(_TOKEN_BYTES).hex())
            secure, answer = accept(
                body,
                opening,
                queue,
                self._signer.sign,
                frame_bytes_max=_STRANGER_FRAME_BYTES_MAX,
            )
        except InvalidInputError as error:
            self._note_refusal("", str(error))
            return
        host_queue = self._host_queue(opening)
        link = _Link(self, opening, secure, queue=queue, host_queue=host_queue)
        self._links[opening.channel] = link
        self.strangers.add(opening.channel)
        try:
            await channel.queue_declare(
                queue, exclusive=True, auto_delete=True, arguments=SESSION_ARGUMENTS
            )
            await channel.basic_consume(queue, link.on_message, no_ack=True, consumer_tag=queue)
            await channel.queue_bind(queue, self._names.exchange, queue)
        except BaseException:
            link.lost()
            raise
        link.begin(answer)

    def _note_refusal(self, host: str, reason: str = "its key is not valid") -> None:
        """Report a refused opening, unless one was reported within the last second.

        A client of the broker can send thousands in that time, and must not fill the log.
        """
        self._unreported += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._reported_s >= _REPORT_S:
            self._reported_s = now_s
            self._sessions.telemetry.event(
                "host_refused", host=host, reason=reason[:200], openings=self._unreported
            )
            self._unreported = 0

    @property
    def sessions(self) -> SessionList:
        """The sessions of the process."""
        return self._sessions

    def _host_queue(self, opening: Opening) -> str:
        return self._names.of_host(opening.host, opening.channel)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run work until it ends or the connection is lost."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def publish(self, link: "_Link", body: bytes) -> None:
        """Publish a message to an agent; end the session if the agent has left or does not read."""
        try:
            if not await self._publish(link.host_queue, body):
                link.lost()
        finally:
            link.unsent_bytes -= len(body)

    async def _publish(self, queue: str, body: bytes) -> bool:
        """Publish a message; return False if the queue is gone or full.

        A broken connection is not reported here, because it ends all sessions.
        """
        channel = self._publishing
        if channel is None:
            return True
        try:
            with broken_not_cancelled():
                await channel.basic_publish(body, routing_key=queue, mandatory=True, wait=False)
        except (PublishError, DeliveryError):
            return False
        except Exception as error:  # noqa: BLE001 - the library raises what ended the connection
            self._sessions.telemetry.event("message_lost", reason=type(error).__name__)
        return True

    def forget(self, link: "_Link") -> None:
        """Delete the queue of a session that has ended."""
        self.strangers.discard(link.opening.channel)
        if self._links.pop(link.opening.channel, None) is not None:
            self.spawn(self._cancel(link.queue))

    async def _cancel(self, queue: str) -> None:
        channel = self._consuming
        if channel is None:
            return
        try:
            with broken_not_cancelled():
                # The queue deletes itself with its only consumer. From then on the broker returns
                # what the agent sends, so the agent learns that the session has ended.
                await channel.basic_cancel(queue)
        except (AMQPError, OSError, RuntimeError) as error:
            self._sessions.telemetry.event("session_queue_not_deleted", reason=type(error).__name__)

    async def _sweep(self) -> None:
        """End the sessions that are silent, or whose proof takes too long."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = asyncio.get_running_loop().time()
            for link in list(self._links.values()):
                link.check(now_s)


class _Link:
    """The connection of one agent through the broker.

    Attributes:
        opening: the first message of the agent.
        queue: the queue that takes the messages of the agent.
        host_queue: the queue that the agent reads.
        session: the session.
        unsent_bytes: the size of the messages that the broker has not confirmed yet.
    """

    __slots__ = (
        "_channel",
        "_is_closed",
        "_opened_s",
        "_owner",
        "_received_s",
        "host_queue",
        "opening",
        "queue",
        "session",
        "unsent_bytes",
    )

    def __init__(
        self,
        owner: BrokerSessions,
        opening: Opening,
        channel: SecureChannel,
        *,
        queue: str,
        host_queue: str,
    ) -> None:
        self.opening = opening
        self.queue, self.host_queue = queue, host_queue
        self.unsent_bytes = 0
        self._owner = owner
        self._channel = channel
        self._opened_s = self._received_s = asyncio.get_running_loop().time()
        self._is_closed = False
        self.session = AgentSession(owner.sessions, self.send, self.close, channel.nonce)

    def begin(self, answer: bytes) -> None:
        """Answer the opening, and begin the session."""
        if not self._is_closed:
            self._publish(answer)
            self.session.begin()

    def send(self, frame: bytes) -> None:
        """Send a frame to the agent, without waiting."""
        if self._is_closed:
            return
        # The tasks begin in this order, and the library publishes in the order of its callers.
        for message in self._channel.seal(frame):
            self._publish(message)
        # A broker that does not take messages must not fill the memory of the control plane.
        if self.unsent_bytes > QUEUE_BYTES_MAX:
            self.lost()

    def close(self, code: int, reason: str) -> None:
        """Tell the agent why the session ends, and release everything."""
        if not self._is_closed:
            self._publish(self._channel.seal_closing(code, reason))
            self.lost()

    def lost(self) -> None:
        """Release everything without telling the agent."""
        if not self._is_closed:
            self._is_closed = True
            self._owner.forget(self)
            self.session.ended()

    def check(self, now_s: float) -> None:
        """End the session if it is silent, or if its proof takes too long."""
        if not self.session.is_authentic and now_s - self._opened_s > PROOF_S_MAX:
            self.session.end(MALFORMED, "the proof of the host's identity took too long")
        elif now_s - self._received_s > SILENT_S_MAX:
            self.session.end(NORMAL, "the agent has stopped sending heartbeats")

    async def on_message(self, message: DeliveredMessage) -> None:
        """Take a message from the agent."""
        if self._is_closed:
            return
        try:
            received = self._channel.open(message.body)
        except InvalidInputError as error:
            self.session.end(MALFORMED, str(error))
            return
        if isinstance(received, Closing):
            self.lost()
            return
        if received is None:
            # Parts of frames count as well, because each costs time.
            self.session.receive_control(len(message.body))
            return
        self._received_s = asyncio.get_running_loop().time()
        if isinstance(received, Alive):
            self.session.receive_control(len(message.body))
            if not self._is_closed:
                self._publish(self._channel.seal_alive())
            return
        self._receive(received)

    def _receive(self, frame: bytes) -> None:
        session = self.session
        was_authentic = session.is_authentic
        session.receive(frame)
        if session.is_authentic and not was_authentic:
            self._owner.strangers.discard(self.opening.channel)
            self._channel.frame_bytes_max = AGENT_FRAME_BYTES_MAX
            if session.host != self.opening.host:
                session.end(DENIED, "the proof is from a host other than that of the opening")

    def _publish(self, body: bytes) -> None:
        self.unsent_bytes += len(body)
        self._owner.spawn(self._owner.publish(self, body))
