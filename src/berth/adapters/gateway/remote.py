"""The agent's end of a session: the gateway as reached over the network."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, Final, Protocol, TypeVar

import msgspec

from berth.adapters.bus.message_codec import error_document_of, error_of
from berth.adapters.gateway.control_pins import ControlPins
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.wire import (
    METHODS,
    PROTOCOL,
    Answer,
    Ask,
    Beat,
    Call,
    Cast,
    Hello,
    Proof,
    Query,
    Reply,
    View,
    Watch,
    Welcome,
    control_frame_of,
    encode,
    proof_text,
    raw,
)
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.step import Conclusion, LeftoverVerdict, Standing, StepOutcome
from berth.domain.errors import (
    AccessDeniedError,
    BerthError,
    InvalidInputError,
    UnavailableError,
    UnsupportedFeatureError,
)
from berth.ports.bus import Command
from berth.ports.clock import Clock
from berth.ports.gateway import HostNote, HostQueries, HostView, VncRequest
from berth.ports.telemetry import Telemetry
from berth.ports.virt import HostReport, Power

A = TypeVar("A")
R = TypeVar("R")

CALL_S_MAX: Final = 60.0
"""Seconds to wait for the reply to a call."""

_SILENT_BEATS_MAX: Final = 4
PAUSE_FIRST_S: Final = 1.0
"""The longest pause before the first attempt to connect again, in seconds.

This limit doubles with each further attempt. The pause itself is random.
"""

PAUSE_MAX_S: Final = 30.0
"""The longest pause before any attempt to connect again, in seconds."""

_NS_PER_S: Final = 1_000_000_000


class FrameStream(Protocol):
    """A connection that carries frames."""

    async def send(self, data: bytes) -> None:
        """Send a frame.

        Raises:
            UnavailableError: the connection is closed.
        """
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the frames that arrive until the connection is closed."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...

    @property
    def close_reason(self) -> str:
        """The reason that the control plane gave for closing the connection; empty if none."""
        ...


Connect = Callable[[], AbstractAsyncContextManager[FrameStream]]
"""Opens a connection to a gateway; raises a BerthError if that fails."""


class RemoteGateway:
    """The gateway as the agent of one host reaches it over the network.

    While there is no session, calls fail with UnavailableError, and heartbeats are dropped. `run`
    opens a new session whenever one has ended.

    Args:
        host: the name of the host.
        connect: opens a connection.
        key: the key of the host.
        clock: provides the time.
        telemetry: receives changes of the session.
        rng: provides the jitter of the waits between connections.
        session: an id that is new at each start of the agent.
        deletes_disks: whether the driver can delete stored disks.
        pins: keeps the public keys of the control plane; None keeps none.
    """

    def __init__(  # noqa: PLR0913 - the collaborators and three values
        self,
        host: str,
        connect: Connect,
        key: HostKeyFile,
        clock: Clock,
        telemetry: Telemetry,
        rng: Random,
        *,
        session: str,
        deletes_disks: bool,
        pins: ControlPins | None = None,
    ) -> None:
        self._host = host
        self._connect = connect
        self._key = key
        self._clock = clock
        self._telemetry = telemetry
        self._rng = rng
        self._session = session
        self._deletes_disks = deletes_disks
        self._pins = pins
        self._stream: FrameStream | None = None
        self._number = 0
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # The heartbeats sent since the gateway last echoed one in this session.
        self._silent_beats = 0
        self._is_rotating = False
        # The instances on the host, by uuid, as of the latest view of this session; None before
        # its first view.
        self._here: dict[str, Instance] | None = None
        # When the control plane was last heard from, by both clocks; None before the first time.
        self._heard: tuple[float, int] | None = None
        # Why this end closed the connection; empty if it did not.
        self._own_reason = ""
        self.is_connected = False
        """Whether there is a session now."""

    def silent_s(self) -> float:
        """Return the seconds since the control plane was last heard from; infinite if it never was.

        The larger of two differences counts, because the monotonic clock stands still while the
        machine is suspended.
        """
        if self._heard is None:
            return math.inf
        heard_s, heard_ns = self._heard
        passed_s = (self._clock.ticks_ns() - heard_ns) / _NS_PER_S
        return max(passed_s, abs(self._clock.now_s() - heard_s))

    async def run(
        self,
        prepare: Callable[[], Awaitable[None]],
        take: Callable[[HostView], None],
        queries: HostQueries,
    ) -> None:
        """Keep a session open until cancelled.

        Args:
            prepare: called in each new session before views are sent; registers the host.
            take: called with each view of the host.
            queries: answers the control plane's queries about the host and its guests.
        """
        pause_s = PAUSE_FIRST_S
        while True:
            began_s = self._clock.now_s()
            reason = self._own_reason = ""
            try:
                async with self._connect() as stream:
                    await self._serve(stream, prepare, take, queries)
                    reason = (
                        self._own_reason
                        or stream.close_reason
                        or "the control plane closed the connection"
                    )
            except BerthError as error:
                reason = str(error)
            finally:
                self._leave()
            self._telemetry.event("gateway_lost", host=self._host, reason=reason)
            if self._clock.now_s() - began_s > PAUSE_MAX_S:
                pause_s = PAUSE_FIRST_S
            # The pause is random, so that agents do not all come back at the same moment after a
            # restart of the control plane.
            await self._clock.sleep(pause_s * self._rng.uniform(0.1, 1.0))
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _serve(
        self,
        stream: FrameStream,
        prepare: Callable[[], Awaitable[None]],
        take: Callable[[HostView], None],
        queries: HostQueries,
    ) -> None:
        """Serve one session until its connection is closed.

        Raises:
            BerthError: the session could not be opened, or a frame is malformed.
        """
        async for data in stream:
            frame = control_frame_of(data)
            if self.is_connected:
                self._heard = self._clock.now_s(), self._clock.ticks_ns()
            match frame:
                case Hello():
                    await self._prove(stream, frame)
                case Welcome() if not self.is_connected:
                    self._stream, self.is_connected, self._silent_beats = stream, True, 0
                    self._telemetry.event("gateway_connected", host=self._host)
                    self._pin(frame.control_keys)
                    self._keep(asyncio.create_task(self._open(stream, prepare, frame)))
                case Welcome():
                    self._keep(asyncio.create_task(self._rotate(stream)))
                case Beat():
                    self._silent_beats = 0
                case Reply():
                    self._settle(frame)
                case View():
                    self._note(frame.view)
                    take(frame.view)
                case Ask():
                    self._keep(asyncio.create_task(self._answer(stream, frame, queries)))

    async def _prove(self, stream: FrameStream, hello: Hello) -> None:
        if hello.protocol != PROTOCOL:
            reason = f"is {hello.protocol}, but this agent speaks {PROTOCOL}; upgrade the agent"
            raise InvalidInputError("protocol", reason)
        signature = self._key.sign(proof_text(self._host, self._session, hello.nonce))
        proof = Proof(PROTOCOL, self._host, self._session, signature, self._deletes_disks)
        await stream.send(encode(proof))

    def _pin(self, keys: tuple[bytes, ...]) -> None:
        """Trust the current keys of the control plane, which the transport has authenticated."""
        if self._pins is None or not keys or keys == self._pins.keys:
            return
        try:
            self._pins.save(keys)
        except InvalidInputError as error:
            self._telemetry.failure("control_keys_not_saved", error, host=self._host)
            return
        self._telemetry.event("control_keys_saved", host=self._host, keys=len(keys))

    async def _open(
        self, stream: FrameStream, prepare: Callable[[], Awaitable[None]], welcome: Welcome
    ) -> None:
        try:
            await prepare()
        except BerthError as error:
            self._telemetry.failure("host_not_registered", error, host=self._host)
            await self._close(stream, "the host was not registered")
            return
        await stream.send(encode(Watch()))
        if welcome.rotates_key:
            await self._rotate(stream)

    async def _rotate(self, stream: FrameStream) -> None:
        """Replace the key of the host, and begin a new session with the new one."""
        if self._is_rotating:
            return
        self._is_rotating = True
        try:
            await self.call("add_key", self._key.prepare())
            self._key.adopt()
        except (BerthError, OSError) as error:
            self._telemetry.failure("key_not_rotated", error, host=self._host)
            self._is_rotating = False
            return
        # The flag stays set until the session ends: the control plane asks again when it learns of
        # the added key, and this session still has the old one.
        self._telemetry.event("key_rotated", host=self._host)
        await self._close(stream, "the next session uses the new key")

    async def _close(self, stream: FrameStream, reason: str) -> None:
        """Close the connection; another session begins."""
        self._own_reason = reason
        await stream.close()

    async def _answer(self, stream: FrameStream, ask: Ask, queries: HostQueries) -> None:
        try:
            answer = await _answer_to(ask, queries)
        except BerthError as error:
            answer = Answer(ask.number, error_document_of(error))
        await stream.send(encode(answer))

    def _settle(self, reply: Reply) -> None:
        waiting = self._waiting.get(reply.number)
        if waiting is None or waiting.done():
            return
        if reply.failure is not None:
            waiting.set_exception(error_of(reply.failure))
        else:
            waiting.set_result(reply.value)

    def _note(self, view: HostView) -> None:
        if view.is_complete:
            self._here = {}
        if self._here is None:
            return
        for instance in view.instances:
            self._here.pop(instance.uuid, None)
            if instance.host == self._host and instance.status is not Status.DELETED:
                self._here[instance.uuid] = instance

    def _leave(self) -> None:
        """Fail everything that waits for the session that has ended."""
        self._stream, self.is_connected, self._here = None, False, None
        self._is_rotating = False
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(UnavailableError("the connection to the gateway was lost"))
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._drop)

    def _drop(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._telemetry.failure("gateway_task_failed", error, host=self._host)

    async def call(self, method: str, *args: object) -> Any:  # noqa: ANN401 - as the method says
        """Call a method of the gateway, and return its decoded result.

        Raises:
            UnavailableError: there is no session, or no reply within a minute.
            InvalidInputError: the reply cannot be decoded.
            BerthError: the error that the method raised.
        """
        stream = self._stream
        if stream is None:
            raise UnavailableError(self._not_connected())
        self._number += 1
        number = self._number
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await stream.send(encode(Call(number, method, raw(args))))
            async with asyncio.timeout(CALL_S_MAX):
                value = await waiting
        except TimeoutError as error:
            text = f"the gateway did not reply to {method} within {CALL_S_MAX:.0f} s; see its log"
            raise UnavailableError(text) from error
        finally:
            self._waiting.pop(number, None)
        known = METHODS.get(method)
        kind = None if known is None else known.value
        try:
            return msgspec.msgpack.decode(value, type=kind)
        except (msgspec.MsgspecError, ValueError) as error:
            raise InvalidInputError(
                method,
                f"the reply cannot be decoded ({error}); run the same version of Berth everywhere",
            ) from error

    def _not_connected(self) -> str:
        return f"host {self._host} is not connected to a gateway; its agent connects automatically"

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Ask the gateway to send a message about the host's instances to all schedulers.

        Raises:
            UnavailableError: there is no session, or its connection is closed.
        """
        stream = self._stream
        if stream is None:
            raise UnavailableError(self._not_connected())
        await stream.send(encode(Cast(command.name, raw(args))))

    async def register(self, reports: Sequence[HostReport]) -> None:
        """See `HostGateway.register`."""
        await self.call("register", tuple(reports))

    async def heartbeat(self, hosts: Sequence[str]) -> None:
        """See `HostGateway.heartbeat`. The connection is closed if the gateway is silent."""
        stream = self._stream
        if stream is None or self._host not in hosts:
            return
        self._silent_beats += 1
        if self._silent_beats > _SILENT_BEATS_MAX:
            await self._close(stream, "the control plane does not answer heartbeats")
            return
        # An echo costs the gateway as much as a heartbeat, so only some heartbeats ask for one.
        await stream.send(encode(Beat(wants_echo=self._silent_beats > 1)))

    async def report(self, report: HostReport) -> None:
        """See `HostGateway.report`."""
        await self.call("report", report)

    async def instances(self, host: str) -> Sequence[Instance]:
        """See `HostGateway.instances`. Once a complete view has arrived, this needs no call."""
        self._check(host)
        if self._here is not None:
            return tuple(self._here.values())
        found: Sequence[Instance] = await self.call("instances")
        return found

    async def standing(self, host: str, instance_uuid: str) -> Standing:
        """See `HostGateway.standing`."""
        self._check(host)
        found: Standing = await self.call("standing", instance_uuid)
        return found

    async def move(self, host: str, migration_uuid: str) -> Migration | None:
        """See `HostGateway.move`."""
        self._check(host)
        found: Migration | None = await self.call("move", migration_uuid)
        return found

    async def conclude(self, host: str, outcome: StepOutcome) -> Conclusion:
        """See `HostGateway.conclude`."""
        self._check(host)
        found: Conclusion = await self.call("conclude", outcome)
        return found

    async def leftover_move(self, host: str, migration_uuid: str) -> Migration | None:
        """See `HostGateway.leftover_move`."""
        self._check(host)
        found: Migration | None = await self.call("leftover_move", migration_uuid)
        return found

    async def report_cleared(self, host: str, migration_uuid: str) -> None:
        """See `HostGateway.report_cleared`."""
        self._check(host)
        await self.call("report_cleared", migration_uuid)

    async def report_power(
        self, host: str, instance_uuid: str, revision: int, power: Power | None
    ) -> str | None:
        """See `HostGateway.report_power`."""
        self._check(host)
        found: str | None = await self.call("report_power", instance_uuid, revision, power)
        return found

    async def report_crashes(
        self, host: str, instance_uuid: str, revision: int, *, restarts: int, window_s: float
    ) -> bool:
        """See `HostGateway.report_crashes`."""
        self._check(host)
        args = (instance_uuid, revision, restarts, window_s)
        found: bool = await self.call("report_crashes", *args)
        return found

    async def judge_leftover(
        self, host: str, instance_uuid: str, *, address: str
    ) -> LeftoverVerdict:
        """See `HostGateway.judge_leftover`."""
        self._check(host)
        found: LeftoverVerdict = await self.call("judge_leftover", instance_uuid, address)
        return found

    async def report_image_cleared(self, host: str, image_id: str) -> None:
        """See `HostGateway.report_image_cleared`."""
        self._check(host)
        await self.call("report_image_cleared", image_id)

    async def save_notes(
        self, host: str, notes: Sequence[HostNote], *, begins_pass: bool = False
    ) -> None:
        """See `HostGateway.save_notes`."""
        self._check(host)
        await self.call("save_notes", tuple(notes), begins_pass)

    def _check(self, host: str) -> None:
        if host != self._host:
            raise AccessDeniedError(f"this is the session of host {self._host}, not of {host}")


def _argument_of(ask: Ask, kind: type[A]) -> A:
    """Return the argument of a query.

    Raises:
        InvalidInputError: the argument cannot be decoded as a `kind`.
    """
    try:
        return msgspec.msgpack.decode(ask.value, type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidInputError(
            ask.query,
            f"the query cannot be decoded ({error}); run the same version of Berth everywhere",
        ) from error


async def _answer_to(ask: Ask, queries: HostQueries) -> Answer:
    """Return the answer to a query.

    Raises:
        UnsupportedFeatureError: the agent does not know the query.
        BerthError: the driver cannot answer the query.
    """
    match ask.query:
        case Query.CONSOLE:
            text = await queries.console(ask.instance_uuid, bytes_max=ask.bytes_max)
            return Answer(ask.number, None, text)
        case Query.DIAGNOSTICS:
            return Answer(ask.number, None, value=raw(await queries.diagnostics(ask.instance_uuid)))
        case Query.UPTIME:
            return Answer(ask.number, None, value=raw(await queries.uptime()))
        case Query.VNC:
            request = _argument_of(ask, VncRequest)
            return Answer(ask.number, None, value=raw(await queries.vnc(request)))
        case _:
            text = f"the agent does not know the query {ask.query[:80]!r}; upgrade the agent"
            raise UnsupportedFeatureError(text)
