"""The VNC consoles of a host's guests, and the queries that its agent answers."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from berth.domain.errors import DriverError, NotFoundError, UnavailableError
from berth.ports.clock import Clock
from berth.ports.gateway import (
    VNC_BYTES_MAX,
    VNC_CHANNELS_MAX,
    VNC_CHANNELS_PER_INSTANCE_MAX,
    VNC_TOKENS_MAX,
    VNC_TOKENS_PER_INSTANCE_MAX,
    VncReply,
    VncRequest,
    VncStep,
)
from berth.ports.virt import ByteStream, GuestDiagnostics, VirtDriver

POLL_S: Final = 4.0
"""Seconds for which a RECEIVE waits for bytes; less than the timeout of a query."""
IDLE_S_MAX: Final = 60.0
"""Seconds without a step after which a channel is closed, because its API must have ended."""
CONNECT_S_MAX: Final = 30.0
"""Seconds that the driver may take to reach the VNC server of a guest."""
_NS_PER_S: Final = 1_000_000_000
_NOTHING: Final = VncReply()

_Key = tuple[str, str]
"""The instance and the name of a channel."""


@dataclass(slots=True, eq=False)
class _Channel:
    """A connection to the VNC server of a guest, from the moment at which it begins to open.

    Attributes:
        used_ns: when the last step was carried out, in ticks.
        opening: opens the connection; it is never cancelled, because the driver could then leave
            a connection behind.
        is_opening: whether `opening` is in progress.
        openers: how many deliveries of the OPEN wait for the connection.
        stream: the connection, once it is open.
        is_closed: whether the channel is closed, or will be as soon as `opening` ends.
        reading: reads the next bytes; it outlives the RECEIVE that began it.
        watch: closes the channel when no API uses it.
        received: the result of the last RECEIVE.
    """

    used_ns: int
    opening: asyncio.Task[None] | None = None
    is_opening: bool = True
    openers: int = 0
    stream: ByteStream | None = None
    is_closed: bool = False
    reading: asyncio.Task[bytes] | None = None
    watch: asyncio.Task[None] | None = None
    sent_number: int = 0
    received_number: int = 0
    received: VncReply = _NOTHING
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    receiving: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostConsoles:
    """Answers the queries about a host and its guests; see `HostQueries`.

    The object keeps the hashes of the tokens that open the VNC consoles of these guests, and the
    channels. Both are lost when the agent stops; the browser's page then shows that the connection
    has ended.

    Args:
        host: the name of the host.
        driver: the driver of the host.
        clock: provides the time.
    """

    def __init__(self, host: str, driver: VirtDriver, clock: Clock) -> None:
        self._host = host
        self._driver = driver
        self._clock = clock
        # The instance and the end of each token, in ticks, by its hash, the oldest token first.
        self._tokens: dict[str, tuple[str, int]] = {}
        # A channel is here from before the driver opens it until after its connection is closed.
        self._channels: dict[_Key, _Channel] = {}
        # The attempts to reach the VNC servers of guests for new tokens, by instance.
        self._attempts: dict[str, asyncio.Task[None]] = {}

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """See `HostQueries.console`."""
        return await self._driver.console(instance_uuid, bytes_max=bytes_max)

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """See `HostQueries.diagnostics`."""
        return await self._driver.diagnostics(instance_uuid)

    async def uptime(self) -> str:
        """See `HostQueries.uptime`."""
        return await self._driver.uptime()

    async def vnc(self, request: VncRequest) -> VncReply:
        """See `HostQueries.vnc`."""
        match request.step:
            case VncStep.GRANT:
                await self._grant(request)
            case VncStep.CHECK:
                self._check(request)
            case VncStep.OPEN:
                await self._open(request)
            case VncStep.SEND:
                await self._send(request)
            case VncStep.RECEIVE:
                return await self._receive(request)
            case VncStep.CLOSE:
                await self._close(request)
        return _NOTHING

    async def _grant(self, request: VncRequest) -> None:
        await self._reach(request.instance_uuid)
        now_ns = self._clock.ticks_ns()
        self._tokens = {key: one for key, one in self._tokens.items() if one[1] > now_ns}
        self._make_room_for_token(request.instance_uuid)
        end_ns = now_ns + int(request.lifetime_s * _NS_PER_S)
        self._tokens[request.token_hash] = (request.instance_uuid, end_ns)

    async def _reach(self, uuid: str) -> None:
        """Check that the VNC server of a guest can be reached.

        Simultaneous checks of a guest share one connection, so that they need no limit.

        Raises:
            DriverError: the guest is not running, or its VNC server does not answer in time.
            UnsupportedFeatureError: the guest has no VNC.
        """
        attempt = self._attempts.get(uuid)
        if attempt is None:
            attempt = self._attempts[uuid] = asyncio.create_task(self._try_to_reach(uuid))
            attempt.add_done_callback(_note_failure)
        await self._ended(attempt, uuid)

    @staticmethod
    async def _ended(attempt: asyncio.Task[None], uuid: str) -> None:
        """Wait for the end of an attempt to reach a VNC server, and raise its error.

        An attempt that takes too long is not cancelled, because the driver could leave a
        connection behind. It keeps its place, so that attempts at a guest that hangs do not add up.
        """
        done, _ = await asyncio.wait({attempt}, timeout=CONNECT_S_MAX)
        if not done:
            reason = f"the VNC server of guest {uuid} did not answer within {CONNECT_S_MAX:g} s"
            raise DriverError(reason)
        attempt.result()

    async def _try_to_reach(self, uuid: str) -> None:
        try:
            (await self._driver.open_vnc(uuid)).close()
        finally:
            del self._attempts[uuid]

    def _make_room_for_token(self, uuid: str) -> None:
        """Remove the oldest token of an instance that has too many, or of the one with the most."""
        counts = Counter(owner for owner, _ in self._tokens.values())
        if counts[uuid] >= VNC_TOKENS_PER_INSTANCE_MAX:
            loser = uuid
        elif len(self._tokens) >= VNC_TOKENS_MAX:
            ((loser, _),) = counts.most_common(1)
        else:
            return
        del self._tokens[next(key for key, one in self._tokens.items() if one[0] == loser)]

    def _check(self, request: VncRequest) -> None:
        # The lookup compares hashes, so its duration reveals nothing about a token.
        uuid, end_ns = self._tokens.get(request.token_hash, ("", 0))
        if uuid != request.instance_uuid or end_ns <= self._clock.ticks_ns():
            raise NotFoundError("console", "with this token")

    async def _open(self, request: VncRequest) -> None:
        """Open a channel; deliveries of the same request share one connection."""
        self._check(request)
        key = _key_of(request)
        channel = self._channels.get(key) or self._begin_to_open(key)
        if channel.is_opening and channel.opening is not None and not channel.is_closed:
            channel.openers += 1
            try:
                await self._ended(channel.opening, request.instance_uuid)
            except DriverError:
                self._end(key, channel)
                raise
            except asyncio.CancelledError:
                # If another delivery waits, that one still needs the channel.
                if channel.openers == 1:
                    self._end(key, channel)
                raise
            finally:
                channel.openers -= 1
        if channel.is_closed:
            raise NotFoundError("console", request.channel)

    def _begin_to_open(self, key: _Key) -> _Channel:
        """Add a channel, which counts towards the limits from now on, and begin to open it.

        Raises:
            UnavailableError: the instance or the host has too many channels.
        """
        uuid, _ = key
        of_instance = sum(owner == uuid for owner, _ in self._channels)
        for whose, count, most in (
            (f"instance {uuid}", of_instance, VNC_CHANNELS_PER_INSTANCE_MAX),
            (f"host {self._host}", len(self._channels), VNC_CHANNELS_MAX),
        ):
            if count >= most:
                raise UnavailableError(f"{whose} has {most} open consoles; close some of them")
        channel = self._channels[key] = _Channel(self._clock.ticks_ns())
        channel.opening = asyncio.create_task(self._connect(key, channel))
        channel.opening.add_done_callback(_note_failure)
        return channel

    async def _connect(self, key: _Key, channel: _Channel) -> None:
        """Open the connection of a channel; free the channel's place if it is not needed."""
        try:
            channel.stream = await self._driver.open_vnc(key[0])
        except BaseException:
            channel.is_closed = True
            raise
        finally:
            channel.is_opening = False
            if channel.is_closed:
                self._end(key, channel)
        if not channel.is_closed:
            channel.used_ns = self._clock.ticks_ns()
            channel.watch = asyncio.create_task(self._watch(key, channel))

    async def _send(self, request: VncRequest) -> None:
        channel, stream = self._in_use(request)
        async with channel.sending:
            if request.number != channel.sent_number + 1:
                if request.number <= channel.sent_number:
                    return  # the bus has delivered the request twice
                raise self._broken(request, channel)  # an earlier part is lost
            channel.sent_number = request.number
            try:
                await stream.write(request.data)
            except DriverError as error:
                raise self._broken(request, channel) from error

    async def _receive(self, request: VncRequest) -> VncReply:
        channel, stream = self._in_use(request)
        async with channel.receiving:
            if request.number == channel.received_number + 1:
                data = await self._next_bytes(request, channel, stream)
                channel.received_number, channel.received = request.number, VncReply(data)
            elif request.number != channel.received_number:
                raise self._broken(request, channel)
            return channel.received

    async def _next_bytes(
        self, request: VncRequest, channel: _Channel, stream: ByteStream
    ) -> bytes:
        """Return the next bytes of a guest, or none if it sends none for some seconds."""
        # A read that is cancelled may lose bytes, so it goes on when the time of a RECEIVE is over,
        # and the next RECEIVE gets its result.
        if channel.reading is None:
            channel.reading = asyncio.create_task(stream.read(VNC_BYTES_MAX))
            channel.reading.add_done_callback(_note_failure)
        done, _ = await asyncio.wait({channel.reading}, timeout=POLL_S)
        if channel.is_closed:
            raise NotFoundError("console", request.channel)
        if not done:
            return b""
        data, channel.reading = channel.reading.result(), None
        if not data:
            raise self._broken(request, channel)
        return data

    def _in_use(self, request: VncRequest) -> tuple[_Channel, ByteStream]:
        """Return an open channel and its connection, and note that the channel is in use."""
        channel = self._channels.get(_key_of(request))
        if channel is None or channel.stream is None:
            raise NotFoundError("console", request.channel)
        channel.used_ns = self._clock.ticks_ns()
        return channel, channel.stream

    def _broken(self, request: VncRequest, channel: _Channel) -> NotFoundError:
        """Close a channel that cannot be used any more, and return the error for its user."""
        self._end(_key_of(request), channel)
        return NotFoundError("console", request.channel)

    async def _close(self, request: VncRequest) -> None:
        """Close a channel, and return once its place is free."""
        key = _key_of(request)
        channel = self._channels.get(key)
        if channel is None:
            return
        self._end(key, channel)
        if channel.opening is not None:
            await asyncio.wait({channel.opening})

    def _end(self, key: _Key, channel: _Channel) -> None:
        """Close a channel, and free its place, which a channel that is opening keeps until then."""
        channel.is_closed = True
        if channel.is_opening:
            return  # `_connect` calls this again
        if self._channels.get(key) is channel:
            del self._channels[key]
        if channel.stream is not None:
            channel.stream.close()
        for task in (channel.reading, channel.watch):
            if task is not None:
                task.cancel()

    async def _watch(self, key: _Key, channel: _Channel) -> None:
        """Close a channel that is no longer used."""
        idle_ns = int(IDLE_S_MAX * _NS_PER_S)
        while (left_ns := channel.used_ns + idle_ns - self._clock.ticks_ns()) > 0:
            await self._clock.sleep(left_ns / _NS_PER_S)
        self._end(key, channel)


def _key_of(request: VncRequest) -> _Key:
    return (request.instance_uuid, request.channel)


def _note_failure(task: asyncio.Task[object]) -> None:
    """Mark the error of a task as known: the callers that await the task raise it."""
    if not task.cancelled():
        task.exception()
