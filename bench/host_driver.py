"""The agents of a fleet in one process: one session for each host, with little work for each.

Each session has its own key, connection, host and state, and does what an agent does: it proves its
identity, registers its host, receives views, sends heartbeats, reports and casts, carries out tasks
at once, and connects again with the backoff of an agent. It runs apart from the measuring process:
`python -m bench.host_driver PLAN`, with the JSON of a `DriverPlan`. It reads orders from standard
input, one JSON object a line, and answers each with one line.
"""

import asyncio
import hashlib
import ssl
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final, cast

import msgspec
import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from berth.adapters.gateway.remote import PAUSE_FIRST_S, PAUSE_MAX_S
from berth.adapters.gateway.websocket_server import PATH
from berth.adapters.gateway.wire import (
    CONTROL_FRAME_BYTES_MAX,
    PROTOCOL,
    Beat,
    Call,
    Cast,
    Hello,
    Proof,
    Reply,
    View,
    Watch,
    Welcome,
    control_frame_of,
    encode,
    proof_text,
    raw,
)
from berth.adapters.ledger import open_ledger
from berth.adapters.system import SystemClock
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.step import StepOutcome, StepResult
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.ledger.write import Put
from berth.services.tracking.lists import list_digest
from berth.services.tracking.messages import FORMAT, SYNC, InstancesSynced, MessageHead

REPORT_S: Final = 60.0
"""Seconds between two reports of a host, the default of agents."""
RECONCILE_S: Final = 600.0
SYNC_S: Final = 120.0

_TOTALS: Final = {VCPU: 1, MEMORY_MB: 2_048, DISK_GB: 20}
_OPEN_S_MAX: Final = 20.0
_OPENING_MAX: Final = 64
_WAIT_S_MAX: Final = 300.0
_FLAVOR: Final = Flavor("push", "push", vcpus=1, memory_mb=1, root_gb=0)


@dataclass(frozen=True, slots=True)
class DriverPlan:
    """Where the API is, whether it uses TLS, and the largest number of hosts."""

    host: str
    port: int
    tls: bool
    hosts: int
    beat_s: float


class Order(msgspec.Struct):
    """An order: what to do, with how many hosts or in which ledger."""

    do: str
    count: int = 0
    beat_s: float = 0.0
    ledger: str = ""


class Answer(msgspec.Struct):
    """The answer to an order.

    Attributes:
        open: the sessions that have a view of their host now.
        seconds: how long it took until all were open.
        peak_per_s: the most connections that were begun within one second.
        beats: the heartbeats that were sent so far.
        built: the tasks that were carried out so far.
        pushes_ms: the times from a commit to the arrival of its view at the agent.
        lost: the connections that have ended so far.
    """

    open: int
    seconds: float = 0.0
    peak_per_s: int = 0
    beats: int = 0
    built: int = 0
    pushes_ms: list[float] = msgspec.field(default_factory=list)
    lost: int = 0


def host_name(number: int) -> str:
    """Return the name of a host, numbered from 0."""
    return f"host-{number:05d}"


def key_of(host: str) -> Ed25519PrivateKey:
    """Return the private key of a host, the same in each process."""
    seed = hashlib.sha256(f"bench {host}".encode()).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def public_bytes(host: str) -> bytes:
    """Return the public key of a host."""
    return key_of(host).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


class Fleet:
    """The sessions of a process.

    Args:
        plan: where they connect.
        random: the source of jitter.
    """

    def __init__(self, plan: DriverPlan, random: Random) -> None:
        self.plan = plan
        self.random = random
        self.beat_s = plan.beat_s
        self.sessions: list[Session] = []
        self.connecting = Counter[int]()
        self.open = self.beats = self.built = self.lost = 0
        self.changed = asyncio.Event()
        self.arrivals: dict[str, float] = {}
        scheme = "wss" if plan.tls else "ws"
        self.uri = parse_uri(f"{scheme}://{plan.host}:{plan.port}{PATH}")
        self.tls: ssl.SSLContext | None = None
        if plan.tls:
            # Real agents run elsewhere. What they check costs the control plane nothing, so this
            # process, which shares the machine with it, does not check certificates.
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_3

    async def grow(self, count: int) -> None:
        """Hold so many sessions."""
        clock = SystemClock()
        while len(self.sessions) < count:
            name = host_name(len(self.sessions))
            report = await FakeDriver(FakeHost(name, _TOTALS), clock).report()
            self.sessions.append(Session(self, name, raw((report,)), raw(((report,),))))
            self.sessions[-1].start()
            # A fleet is added by and by; a restart is what all sessions have in common.
            while len(self.sessions) - self.open > _OPENING_MAX:
                self.changed.clear()
                await self.changed.wait()

    async def until_open(self, is_stale: Callable[[], bool]) -> None:
        """Wait until all sessions are open."""
        async with asyncio.timeout(_WAIT_S_MAX):
            while is_stale() or self.open < len(self.sessions):
                self.changed.clear()
                await self.changed.wait()


class Link(asyncio.Protocol):
    """One connection of a session, which ignores it once it has another one."""

    __slots__ = ("session", "transport")

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        self.session.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session, if it still has this connection."""
        del exc
        if self.session.link is self:
            self.session.lose()

    def data_received(self, data: bytes) -> None:
        """Pass data on to the session, if it still has this connection."""
        if self.session.link is self:
            self.session.receive(data)


class Session:
    """The agent of one host.

    Args:
        fleet: the other sessions.
        host: the name of the host.
        report: the encoded arguments of `report`.
        registration: the encoded arguments of `register`.
    """

    __slots__ = (
        "_alarm", "_beats", "_key", "_protocol", "_sequence", "_timers", "_transport", "fleet",
        "host", "instances", "is_open", "link", "number", "opened", "pause_s", "registration",
        "report", "session",
    )  # fmt: skip

    def __init__(
        self, fleet: Fleet, host: str, report: msgspec.Raw, registration: msgspec.Raw
    ) -> None:
        self.fleet = fleet
        self.host = host
        self.report, self.registration = report, registration
        self.instances: dict[str, Instance] = {}
        self.is_open = False
        self.link: Link | None = None
        self.opened = 0
        self.pause_s = PAUSE_FIRST_S
        self.session = str(uuid.uuid4())
        self.number = 0
        self._key = key_of(host)
        self._beats = self._sequence = 0
        self._protocol: ClientProtocol | None = None
        self._transport: asyncio.Transport | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._alarm: asyncio.TimerHandle | None = None

    # ---- the connection -----------------------------------------------------------------------

    def start(self) -> None:
        """Connect."""
        asyncio.ensure_future(self._connect())  # noqa: RUF006 - it ends by itself

    async def _connect(self) -> None:
        fleet = self.fleet
        fleet.connecting[int(time.monotonic())] += 1
        loop, link = asyncio.get_running_loop(), Link(self)
        try:
            async with asyncio.timeout(_OPEN_S_MAX):
                await loop.create_connection(
                    lambda: link, fleet.plan.host, fleet.plan.port, ssl=fleet.tls
                )
        except OSError:
            # If the connection was made at the last moment, its end begins the next attempt.
            if self.link is link and self._transport is not None:
                self._transport.abort()
            else:
                self._retry()

    def _retry(self) -> None:
        wait_s = self.pause_s * self.fleet.random.uniform(0.1, 1.0)
        self.pause_s = min(self.pause_s * 2, PAUSE_MAX_S)
        asyncio.get_running_loop().call_later(wait_s, self.start)

    def begin(self, link: Link) -> None:
        """Ask for the upgrade of a new connection."""
        self.link, transport = link, link.transport
        if transport is None:
            return
        self._transport = transport
        protocol = ClientProtocol(self.fleet.uri, max_size=CONTROL_FRAME_BYTES_MAX)
        self._protocol = protocol
        protocol.send_request(protocol.connect())
        self._flush()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(_OPEN_S_MAX, transport.abort)

    def lose(self) -> None:
        """Connect again after a pause."""
        self.link, fleet = None, self.fleet
        fleet.lost += 1
        fleet.open -= self.is_open
        if self.is_open:
            self.pause_s = PAUSE_FIRST_S
        self.is_open = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        self._protocol = self._transport = None
        fleet.changed.set()
        self._retry()

    def receive(self, data: bytes) -> None:
        """Handle the frames in some bytes."""
        protocol = self._protocol
        if protocol is None:
            return
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                self._take(bytes(event.data))
        if protocol.state is State.CLOSING and self._transport is not None:
            self._transport.close()
        self._flush()

    def _send(self, data: bytes) -> None:
        protocol = self._protocol
        if protocol is not None and protocol.state is State.OPEN:
            protocol.send_binary(data)
            self._flush()

    def _flush(self) -> None:
        if self._protocol is not None and self._transport is not None:
            for data in self._protocol.data_to_send():
                if data:
                    self._transport.write(data)

    # ---- the session --------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        frame = control_frame_of(data)
        match frame:
            case Hello():
                text = proof_text(self.host, self.session, frame.nonce)
                proof = Proof(PROTOCOL, self.host, self.session, self._key.sign(text))
                self._send(encode(proof))
            case Welcome():
                self._call("register", self.registration)
            case Reply() if not self.is_open and frame.failure is None:
                self._send(encode(Watch()))
            case Reply() if not self.is_open and self._transport is not None:
                self._transport.close()
            case View():
                self._look(frame)
            case _:
                self._beats = 0

    def _look(self, frame: View) -> None:
        view, fleet = frame.view, self.fleet
        if view.is_complete:
            self.instances.clear()
            self._opened()
        for instance in view.instances:
            fleet.arrivals[instance.name] = time.perf_counter()
            if instance.host != self.host or instance.status is Status.DELETED:
                self.instances.pop(instance.uuid, None)
                continue
            self.instances[instance.uuid] = instance
            if instance.task is Task.SPAWNING:
                fleet.built += 1
                done = StepOutcome(instance.uuid, instance.revision, StepResult.DONE)
                self._call("conclude", raw((done,)))

    def _opened(self) -> None:
        if self.is_open:
            return
        self.is_open = True
        self.opened += 1
        fleet, draw = self.fleet, self.fleet.random.random
        fleet.open += 1
        fleet.changed.set()
        if self._alarm is not None:
            self._alarm.cancel()
        self.beat_again()
        self._repeat("report", REPORT_S * draw(), self._report, lambda: REPORT_S)
        self._repeat("reconcile", RECONCILE_S * draw(), self._reconcile, lambda: RECONCILE_S)
        self._repeat("sync", SYNC_S * draw(), self._sync, lambda: SYNC_S)

    def beat_again(self) -> None:
        """Send heartbeats at the present interval of the fleet, if the session is open."""
        fleet = self.fleet
        if self.is_open:
            wait_s = fleet.beat_s * fleet.random.random()
            self._repeat("beat", wait_s, self._beat, lambda: fleet.beat_s)

    def _repeat(
        self, name: str, wait_s: float, do: Callable[[], None], again_s: Callable[[], float]
    ) -> None:
        """Do something after `wait_s` seconds and then periodically, until the session ends."""
        loop = asyncio.get_running_loop()
        if name in self._timers:
            self._timers[name].cancel()

        def run() -> None:
            do()
            if self.is_open:
                self._timers[name] = loop.call_later(again_s(), run)

        self._timers[name] = loop.call_later(wait_s, run)

    def _beat(self) -> None:
        self._beats += 1
        self.fleet.beats += 1
        self._send(encode(Beat(wants_echo=self._beats > 1)))

    def _report(self) -> None:
        self._call("report", self.report)

    def _reconcile(self) -> None:
        self._call("save_notes", raw(((), True)))

    def _sync(self) -> None:
        self._sequence += 1
        head = MessageHead(
            FORMAT, self.host, self.session, self._sequence, 0, len(self.instances), list_digest(())
        )
        self._send(encode(Cast(SYNC.name, raw(InstancesSynced(head, tuple(self.instances))))))

    def _call(self, method: str, args: msgspec.Raw) -> None:
        self.number += 1
        self._send(encode(Call(self.number, method, args)))


async def _push(fleet: Fleet, url: str, count: int) -> list[float]:
    """Return the times, in milliseconds, from commits to the arrival of the views."""
    ledger = await open_ledger(url)
    times_ms: list[float] = []
    now_s = time.time()
    try:
        for number in range(count):
            name, host = f"push-{number}", fleet.random.choice(fleet.sessions).host
            instance = Instance(
                uuid=str(uuid.uuid4()),
                name=name,
                project_id="bench",
                user_id="bench",
                request_id="req-push",
                reservation_id="r-push",
                flavor=_FLAVOR,
                host=host,
                node=host,
                status=Status.ACTIVE,
                created_at_s=now_s,
            )
            await ledger.commit([(Put(instance),)])
            committed = time.perf_counter()
            while name not in fleet.arrivals:  # noqa: ASYNC110 - the views of all hosts set it
                await asyncio.sleep(0.001)
            times_ms.append(max(0.0, fleet.arrivals.pop(name) - committed) * 1e3)
            gone = replace(instance, revision=1, status=Status.DELETED, host=None)
            await ledger.commit([(Put(gone),)])
            # Commits come at any time, not in step with the writer.
            await asyncio.sleep(0.02 * fleet.random.random())
    finally:
        await ledger.close()
    return times_ms


async def _carry_out(fleet: Fleet, order: Order) -> Answer:
    began_s, pushes_ms = time.monotonic(), list[float]()
    fleet.connecting.clear()
    match order.do:
        case "grow":
            await fleet.grow(order.count)
            await fleet.until_open(lambda: False)
        case "reopen":
            # Given before the control plane is restarted: all sessions end first.
            before = {one.host: one.opened for one in fleet.sessions}
            await fleet.until_open(
                lambda: any(one.opened == before[one.host] for one in fleet.sessions)
            )
        case "push":
            pushes_ms = await _push(fleet, order.ledger, order.count)
        case "beat":
            fleet.beat_s = order.beat_s
            for session in fleet.sessions:
                session.beat_again()
        case _:
            pass
    return Answer(
        open=fleet.open,
        seconds=time.monotonic() - began_s,
        peak_per_s=max(fleet.connecting.values(), default=0),
        beats=fleet.beats,
        built=fleet.built,
        pushes_ms=pushes_ms,
        lost=fleet.lost,
    )


async def _run(plan: DriverPlan) -> None:
    fleet = Fleet(plan, Random(1))
    loop = asyncio.get_running_loop()
    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            return
        answer = await _carry_out(fleet, msgspec.json.decode(line, type=Order))
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Hold sessions until standard input ends."""
    uvloop.run(_run(msgspec.json.decode(arguments[0], type=DriverPlan)))


if __name__ == "__main__":
    main(sys.argv[1:])
