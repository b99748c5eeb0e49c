"""The control plane's end of a session: it authenticates an agent and serves its calls."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec

from berth.adapters.bus.message_codec import error_document_of, error_of
from berth.adapters.gateway.wire import (
    METHODS,
    NONCE_BYTES,
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
    agent_frame_of,
    encode,
    proof_text,
    raw,
)
from berth.domain.compute.host_identity import HostKey
from berth.domain.errors import BerthError, InvalidInputError, UnavailableError
from berth.ports.clock import Clock
from berth.ports.gateway import HostSessions, HostView, VncReply, VncRequest
from berth.ports.telemetry import Telemetry
from berth.ports.virt import GuestDiagnostics

NORMAL: Final = 1000
"""The close code of a session that ends normally; all codes are those of WebSocket."""
MALFORMED: Final = 4400
"""A frame was malformed or came out of order."""
DENIED: Final = 4401
"""The agent could not prove its identity, or its key was revoked."""
REPLACED: Final = 4409
"""A newer session of the same host has begun."""
FLOODED: Final = 4429
"""The agent sent more than a host is allowed to."""

PROOF_S_MAX: Final = 10.0
"""Seconds in which an agent must prove its identity."""

_FLOOD: Final = "the host sends more than a host is allowed to; see SECURITY.md"
_UNPROVEN: Final = "unproven"
_CALLS_MAX: Final = 64
# An agent of a busy host makes a few calls a second. The bucket bounds the frames and bytes that a
# compromised agent can make the gateway process.
_FRAMES_PER_S: Final = 100.0
_FRAMES_MAX: Final = 2_000.0
_BYTES_PER_S: Final = 1024.0 * 1024.0
_BYTES_MAX: Final = 32.0 * 1024 * 1024
_NS_PER_S: Final = 1_000_000_000
_CONSOLE_S: Final = 10.0
_CONSOLE_CHARS_MAX: Final = 100 * 1024


class SessionList:
    """The sessions of one process: at most one for each host.

    Args:
        services: the services that the control plane offers to sessions.
        clock: provides the time.
        telemetry: receives sessions that were refused or failed.
        random_bytes: returns the given number of unpredictable bytes.
        control_keys: returns the public keys of the control plane, which agents pin.
    """

    def __init__(
        self,
        services: HostSessions,
        clock: Clock,
        telemetry: Telemetry,
        random_bytes: Callable[[int], bytes],
        control_keys: Callable[[], tuple[bytes, ...]] = tuple,
    ) -> None:
        self.services = services
        self.clock = clock
        self.telemetry = telemetry
        self.random_bytes = random_bytes
        self.control_keys = control_keys
        self.by_host: dict[str, AgentSession] = {}
        self.unproven: set[object] = set()
        """Connections on which no identity is proven yet, of transports that limit their number."""

    def check_keys(self, hosts: Iterable[str]) -> None:
        """End sessions whose keys are no longer valid; have agents rotate keys if required.

        Args:
            hosts: the hosts whose identities have changed, whether they have a session or not.
        """
        for host in hosts:
            session = self.by_host.get(host)
            if session is not None:
                session.check_key()


class AgentSession:
    """One session with an agent, over any transport.

    Args:
        sessions: the sessions of the process.
        send: sends a frame to the agent; it must not block.
        close: closes the transport with a code and a reason; `ended` is called afterwards.
        nonce: the nonce that the agent must sign, if the transport derives one; None makes a random
            one.

    Attributes:
        host: the host's name, empty until the agent has proven it.
        deletes_disks: whether the agent can delete stored disks.
        is_over: whether the session has ended.
    """

    __slots__ = (
        "_answers",
        "_bytes",
        "_close",
        "_frames",
        "_key",
        "_nonce",
        "_number",
        "_refilled_ns",
        "_send",
        "_services",
        "_sessions",
        "_stops",
        "_tasks",
        "deletes_disks",
        "host",
        "is_over",
    )

    def __init__(
        self,
        sessions: SessionList,
        send: Callable[[bytes], None],
        close: Callable[[int, str], None],
        nonce: bytes | None = None,
    ) -> None:
        self.host = ""
        self.deletes_disks = False
        self.is_over = False
        self._sessions = sessions
        self._services = sessions.services
        self._send = send
        self._close = close
        self._nonce = nonce or sessions.random_bytes(NONCE_BYTES)
        self._key: HostKey | None = None
        self._stops: list[Callable[[], None]] = []
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._frames, self._bytes = _FRAMES_MAX, _BYTES_MAX
        self._refilled_ns = sessions.clock.ticks_ns()

    @property
    def is_authentic(self) -> bool:
        """Whether the agent has proven the identity of its host."""
        return self._key is not None

    def begin(self) -> None:
        """Send the first frame."""
        self._send(encode(Hello(PROTOCOL, self._nonce)))

    def receive(self, data: bytes) -> None:
        """Handle a frame from the agent."""
        if self.is_over:
            return
        try:
            if not self._may_receive(len(data)):
                self.end(FLOODED, _FLOOD)
                return
            self._handle(data)
        except InvalidInputError as error:
            self.end(MALFORMED, str(error))

    def receive_control(self, size: int) -> None:
        """Count a frame of `size` bytes that the transport handles itself, such as a ping."""
        if not self.is_over and not self._may_receive(size):
            self.end(FLOODED, _FLOOD)

    def check_key(self) -> None:
        """End the session if its key is no longer valid; have the agent rotate it if required."""
        if self._key is None:
            return
        if not self._services.is_valid(self.host, self._key):
            self.end(DENIED, "the key of the host was revoked")
        elif self._services.wants_rotation(self.host, self._key):
            self._send(encode(Welcome(rotates_key=True)))

    def end(self, code: int, reason: str) -> None:
        """End the session with a code and a reason, which are sent to the agent."""
        if not self.is_over:
            self.is_over = True
            if code not in {NORMAL, REPLACED}:
                self._sessions.telemetry.event(
                    "host_session_ended", host=self.host or _UNPROVEN, code=code, reason=reason
                )
            self._close(code, reason)

    def ended(self) -> None:
        """Release everything; the transport calls this after it has closed."""
        self.is_over = True
        while self._stops:
            self._stops.pop()()
        if self._sessions.by_host.get(self.host) is self:
            del self._sessions.by_host[self.host]
        for task in list(self._tasks):
            task.cancel()
        gone = f"the agent of host {self.host} has disconnected"
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(UnavailableError(gone))
        self._answers.clear()

    def _handle(self, data: bytes) -> None:
        frame = agent_frame_of(data)
        if isinstance(frame, Proof):
            self._authenticate(frame)
        elif self._key is None:
            raise InvalidInputError("frame", "must be a proof of the host's identity")
        elif isinstance(frame, Beat):
            self._services.note_alive(self.host)
            if frame.wants_echo:
                self._send(data)
        elif isinstance(frame, Call):
            self._begin_call(frame)
        elif isinstance(frame, Watch):
            self._watch()
        elif isinstance(frame, Answer):
            self._take_answer(frame, len(data))
        else:
            self._cast(frame)

    def _may_receive(self, size: int) -> bool:
        """Charge a frame to the host's allowance; return False if the allowance is used up."""
        now_ns = self._sessions.clock.ticks_ns()
        passed_s = (now_ns - self._refilled_ns) / _NS_PER_S
        self._refilled_ns = now_ns
        self._frames = min(_FRAMES_MAX, self._frames + passed_s * _FRAMES_PER_S) - 1
        self._bytes = min(_BYTES_MAX, self._bytes + passed_s * _BYTES_PER_S) - size
        return self._frames >= 0 and self._bytes >= 0

    def _authenticate(self, proof: Proof) -> None:
        if self._key is not None:
            raise InvalidInputError("frame", "proves the identity of the host a second time")
        services, host = self._services, proof.host
        key = services.signer(host, proof_text(host, proof.session, self._nonce), proof.signature)
        if key is None:
            self._sessions.telemetry.event("host_refused", host=host[:255])
            self.end(DENIED, "the signature was not made with a valid key of the host")
            return
        self.host, self._key, self.deletes_disks = host, key, proof.deletes_disks
        before = self._sessions.by_host.get(host)
        if before is not None:
            before.end(REPLACED, "a newer session of this host has begun")
        self._sessions.by_host[host] = self
        services.note_alive(host)
        self._spawn(self._settle(key))
        welcome = Welcome(services.wants_rotation(host, key), self._sessions.control_keys())
        self._send(encode(welcome))

    async def _settle(self, key: HostKey) -> None:
        try:
            await self._services.settle(self.host, key)
        except BerthError as error:
            self._sessions.telemetry.failure("host_key_not_confirmed", error, host=self.host)

    def _begin_call(self, call: Call) -> None:
        if len(self._tasks) >= _CALLS_MAX:
            self.end(FLOODED, f"more than {_CALLS_MAX} calls are in progress")
            return
        self._spawn(self._serve(call))

    async def _serve(self, call: Call) -> None:
        try:
            value = await self._value_of(call)
            reply = Reply(call.number, None, raw(value))
        except BerthError as error:
            reply = Reply(call.number, error_document_of(error), raw(None))
        except Exception as error:  # noqa: BLE001 - one call must not end the session
            self._sessions.telemetry.failure(
                "host_call_failed", error, host=self.host, method=call.method
            )
            failure = BerthError(f"the control plane failed to serve {call.method}; see its log")
            reply = Reply(call.number, error_document_of(failure), raw(None))
        if not self.is_over:
            self._send(encode(reply))

    async def _value_of(self, call: Call) -> object:
        """Return the result of a call.

        Raises:
            BerthError: see the method of `HostGateway`.
            InvalidInputError: there is no such method, or its arguments have the wrong types.
        """
        services = self._services
        if call.method == "add_key":
            (public_key,) = _decoded(call.args, tuple[str], call.method)
            await services.add_key(self.host, public_key)
            return None
        method = METHODS.get(call.method)
        if method is None:
            raise InvalidInputError(
                "method",
                f"{call.method[:80]!r} is unknown; run the same version of Berth everywhere",
            )
        args = _decoded(call.args, method.args, call.method)
        return await method.call(services.gateway, self.host, *args)

    def _watch(self) -> None:
        if self._stops:
            raise InvalidInputError("frame", "requests views a second time in this session")
        self._stops.append(self._services.serve_queries(self.host, self))
        self._spawn(self._open())

    async def _open(self) -> None:
        try:
            stop = await self._services.watch(
                self.host, self._tell, deletes_disks=self.deletes_disks
            )
        except BerthError as error:
            self._sessions.telemetry.failure("host_view_failed", error, host=self.host)
            self.end(NORMAL, "the view of the host cannot be read now; connect again")
            return
        self._stops.append(stop)

    def _tell(self, view: HostView) -> None:
        if not self.is_over:
            self._send(encode(View(view)))

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """See `HostQueries.console`."""
        answer = await self._query(Query.CONSOLE, instance_uuid, bytes_max)
        return answer.text[-_CONSOLE_CHARS_MAX:]

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """See `HostQueries.diagnostics`."""
        found: GuestDiagnostics = self._value(
            await self._query(Query.DIAGNOSTICS, instance_uuid), GuestDiagnostics
        )
        return found

    async def uptime(self) -> str:
        """See `HostQueries.uptime`."""
        found: str = self._value(await self._query(Query.UPTIME), str)
        return found

    async def vnc(self, request: VncRequest) -> VncReply:
        """See `HostQueries.vnc`."""
        found: VncReply = self._value(
            await self._query(Query.VNC, request.instance_uuid, value=request), VncReply
        )
        return found

    def _value(self, answer: Answer, kind: Any) -> Any:  # noqa: ANN401 - any type form
        """Return the value in an answer, decoded as a `kind`.

        Raises:
            UnavailableError: the value has another type, as from agents of the previous version,
                which answer every query with a console.
        """
        try:
            return _decoded(answer.value, kind, "value")
        except InvalidInputError as error:
            raise UnavailableError(
                f"the agent of host {self.host} gave an invalid answer ({error.reason})"
            ) from error

    async def _query(
        self, query: Query, instance_uuid: str = "", bytes_max: int = 0, value: object = None
    ) -> Answer:
        # A number is never used twice: an answer that arrives after its query has been given up
        # must not be taken for that of another query.
        self._number += 1
        number = self._number
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._send(encode(Ask(number, instance_uuid, bytes_max, query, raw(value))))
        try:
            async with asyncio.timeout(_CONSOLE_S):
                return await answer
        except TimeoutError as error:
            raise UnavailableError(
                f"the agent of host {self.host} does not answer; see its log"
            ) from error
        finally:
            self._answers.pop(number, None)

    def _take_answer(self, frame: Answer, size: int) -> None:
        answer = self._answers.get(frame.number)
        if answer is None or answer.done():
            return  # the caller no longer waits
        # An expected answer is not charged to the host's allowance. The control plane limits the
        # number of answers by its queries, and the screen of a busy guest would use the allowance
        # up.
        self._frames += 1
        self._bytes += size
        if frame.failure is not None:
            answer.set_exception(error_of(frame.failure))
        else:
            answer.set_result(frame)

    def _cast(self, cast: Cast) -> None:
        kind = self._services.cast_type(cast.command)
        if kind is None:
            raise InvalidInputError(
                "command", f"{cast.command[:80]!r} is not a command that agents may send"
            )
        message = _decoded(cast.message, kind, "message")
        self._spawn(self._fan_out(cast.command, message))

    async def _fan_out(self, command: str, message: object) -> None:
        try:
            await self._services.cast(self.host, command, message)
        except InvalidInputError as error:
            self.end(MALFORMED, str(error))
        except UnavailableError:
            return  # the next message reveals that this one was lost, so nothing is repeated here

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _decoded(data: msgspec.Raw, kind: Any, field: str) -> Any:  # noqa: ANN401 - any type form
    """Return a decoded value of a frame.

    Raises:
        InvalidInputError: its type is not `kind`; the error names `field`.
    """
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            field, f"cannot be decoded ({error}); run the same version of Berth everywhere"
        ) from error
