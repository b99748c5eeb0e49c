"""The VNC consoles of a host's guests, and the queries that its agent answers."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from berth.domain.errors import DriverError, NotFoundError, UnavailableError
from berth.ports.clock import Clock
from berth.ports.gateway import VNC_BYTES_MAX, VncReply, VncRequest, VncStep
from berth.ports.virt import ByteStream, GuestDiagnostics, VirtDriver

POLL_S: Final = 4.0
"""Seconds for which a RECEIVE waits for bytes; less than the timeout of a query."""
IDLE_S_MAX: Final = 60.0
"""Seconds without a step after which a channel is closed, because its API must have ended."""
CHANNELS_MAX: Final = 64
TOKENS_MAX: Final = 4_096
_NS_PER_S: Final = 1_000_000_000
_NOTHING: Final = VncReply()


@dataclass(slots=True)
class _Channel:
    """A connection to the VNC server of a guest; `received` is the last result of a RECEIVE."""

    stream: ByteStream
    used_s: float
    sent_number: int = 0
    received_number: int = 0
    received: VncReply = _NOTHING
    sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    receiving: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostConsoles:
    """Answers the queries about a host and its guests; see `HostQueries`.

    The object keeps the hashes of the tokens that open the VNC consoles of these guests, and the
    open channels. Both are lost when the agent stops; the browser's page then shows that the
    connection has ended.

    Args:
        host: the name of the host.
        driver: the driver of the host.
        clock: provides the time.
    """

    def __init__(self, host: str, driver: VirtDriver, clock: Clock) -> None:
        self._host = host
        self._driver = driver
        self._clock = clock
        # The instance and the end of each token, in ticks, by its hash.
        self._tokens: dict[str, tuple[str, int]] = {}
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._watches: set[asyncio.Task[None]] = set()

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
                self._close((request.instance_uuid, request.channel))
        return _NOTHING

    async def _grant(self, request: VncRequest) -> None:
        (await self._driver.open_vnc(request.instance_uuid)).close()
        now_ns = self._clock.ticks_ns()
        self._tokens = {key: one for key, one in self._tokens.items() if one[1] > now_ns}
        while len(self._tokens) >= TOKENS_MAX:
            del self._tokens[next(iter(self._tokens))]  # the oldest one
        end_ns = now_ns + int(request.lifetime_s * _NS_PER_S)
        self._tokens[request.token_hash] = (request.instance_uuid, end_ns)

    def _check(self, request: VncRequest) -> None:
        # The lookup compares hashes, so its duration reveals nothing about a token.
        uuid, end_ns = self._tokens.get(request.token_hash, ("", 0))
        if uuid != request.instance_uuid or end_ns <= self._clock.ticks_ns():
            raise NotFoundError("console", "with this token")

    async def _open(self, request: VncRequest) -> None:
        self._check(request)
        key = (request.instance_uuid, request.channel)
        if key in self._channels:
            return  # the bus has delivered the request twice
        if len(self._channels) >= CHANNELS_MAX:
            text = f"host {self._host} has {CHANNELS_MAX} open consoles; close some of them"
            raise UnavailableError(text)
        stream = await self._driver.open_vnc(request.instance_uuid)
        self._channels[key] = _Channel(stream, self._clock.now_s())
        watch = asyncio.create_task(self._watch(key))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _send(self, request: VncRequest) -> None:
        channel = self._channel(request)
        async with channel.sending:
            if request.number != channel.sent_number + 1:
                if request.number <= channel.sent_number:
                    return  # the bus has delivered the request twice
                raise self._closed(request)  # an earlier part is lost
            channel.sent_number = request.number
            try:
                await channel.stream.write(request.data)
            except DriverError as error:
                raise self._closed(request) from error

    async def _receive(self, request: VncRequest) -> VncReply:
        channel = self._channel(request)
        async with channel.receiving:
            if request.number == channel.received_number + 1:
                data = b""
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        data = await channel.stream.read(VNC_BYTES_MAX)
                        if not data:
                            raise self._closed(request)
                channel.received_number, channel.received = request.number, VncReply(data)
            elif request.number != channel.received_number:
                raise self._closed(request)
            return channel.received

    def _channel(self, request: VncRequest) -> _Channel:
        channel = self._channels.get((request.instance_uuid, request.channel))
        if channel is None:
            raise NotFoundError("console", request.channel)
        channel.used_s = self._clock.now_s()
        return channel

    def _closed(self, request: VncRequest) -> NotFoundError:
        """Close a channel that cannot be used any more, and return the error for its user."""
        self._close((request.instance_uuid, request.channel))
        return NotFoundError("console", request.channel)

    def _close(self, key: tuple[str, str]) -> None:
        channel = self._channels.pop(key, None)
        if channel is not None:
            channel.stream.close()

    async def _watch(self, key: tuple[str, str]) -> None:
        """Close a channel that is no longer used."""
        while (channel := self._channels.get(key)) is not None:
            left_s = channel.used_s + IDLE_S_MAX - self._clock.now_s()
            if left_s <= 0:
                self._close(key)
                return
            await self._clock.sleep(left_s)
