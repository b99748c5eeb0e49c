"""The processes of a run: their parts, their start and their death."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from berth.adapters.bus.local import LocalBus
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.pool import Agent, AgentPool, Pace
from berth.app.run import supervise
from berth.domain.errors import UnavailableError
from berth.services.decisions.decisions import DecisionService
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.in_progress import InstancesInProgress
from berth.services.placement.pending_requests import PendingRequests
from berth.services.placement.placement import PlacementService
from berth.services.replica.follower import Follower
from berth.services.replica.liveness import Liveness
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PLACE
from berth.services.servers.instances import Instances
from berth.services.servers.operations import Operations
from berth.testing.virtual_time import VirtualClock
from tests.gateways import make_alternates, make_gateway
from tests.simulation.brokers import Brokered
from tests.simulation.faults import Flaw, Line
from tests.simulation.machines import Machine

T = TypeVar("T")

_RESTART_S = 2.0
_DOWN_S = 60.0
_PACE = Pace(reconcile_interval_s=40.0)
_PROCESS: contextvars.ContextVar["Process"] = contextvars.ContextVar("process")


def make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    """Return a new task, and register it with the process that it is part of: a task factory."""
    task = asyncio.Task(coro, loop=loop, context=context)
    process = _PROCESS.get(None) if context is None else context.get(_PROCESS)
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None))
    return task


class SeededIds:
    """Identifiers drawn from a seed; see the port `Ids`."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def uuid(self) -> str:
        """Return a new uuid."""
        digits = f"{self._rng.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def request_id(self) -> str:
        """Return a new `req-` id."""
        return f"req-{self.uuid()}"


@dataclass(slots=True)
class Journal:
    """Telemetry of a run: the count of each name, and the last error of each failure."""

    told: dict[str, int] = field(default_factory=dict[str, int])
    last: dict[str, BaseException] = field(default_factory=dict[str, BaseException])

    def event(self, name: str, **fields: object) -> None:
        """Count an event."""
        self.told[name] = self.told.get(name, 0) + 1

    def warning(self, name: str, **fields: object) -> None:
        """Count an event."""
        self.event(name)

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Count a failure and keep its error."""
        self.event(name)
        self.last[name] = error


@dataclass(frozen=True, slots=True)
class Role:
    """The tasks of a process: serving clients, scheduling, running agents, or several of these."""

    name: str
    serves: bool = False
    schedules: bool = False
    machines: Mapping[str, Machine] = field(default_factory=dict[str, Machine])
    offloads: bool = True
    resizes_in_place: bool = False


class Process:
    """One life of a process, with its parts wired as in `berth.app.processes`."""

    def __init__(self, role: Role, line: Line, flaw: Flaw, rng: Random, journal: Journal) -> None:
        self.role = role
        self.line = line
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.clock = VirtualClock()
        self.journal = journal
        self._rng = rng
        self.replica = Replica()
        self.follower = Follower(line, self.clock, [self.replica, flaw])
        self.bus: LocalBus | Brokered = LocalBus(journal, now_s=self.clock.now_s)
        self.hosts = Hosts(
            ledger=line,
            follower=self.follower,
            replica=self.replica,
            ratios=AllocationRatios(ledger=line, replica=self.replica),
            clock=self.clock,
            ids=SeededIds(rng),
        )
        self.instances = self._instances()
        gateway_id = SeededIds(rng).uuid()
        self.liveness = Liveness(line, self.replica, self.clock, journal, gateway_id)
        self.placer = PlacementService(
            ledger=line,
            follower=self.follower,
            replica=self.replica,
            decision_service=DecisionService(self.replica, flaw, self.clock),
            clock=self.clock,
            liveness=self.liveness,
        )
        self.pending = PendingRequests(
            ledger=line,
            replica=self.replica,
            placer=self.placer,
            clock=self.clock,
            telemetry=journal,
        )
        in_progress = InstancesInProgress()
        self.follower.subscribers.append(in_progress)
        self.gateway = make_gateway(
            ledger=line,
            clock=self.clock,
            hosts=self.hosts,
            replica=self.replica,
            telemetry=journal,
            alternates=make_alternates(self.follower, self.replica, self.clock),
            liveness=self.liveness,
            in_progress=in_progress,
        )
        self.pool = AgentPool(
            {name: self._agent(name, machine) for name, machine in role.machines.items()},
            self.gateway,
            self.clock,
            journal,
            _PACE,
        )
        self.operations = Operations(
            ledger=line,
            replica=self.replica,
            clock=self.clock,
            resizes_in_place=role.resizes_in_place,
            liveness=self.liveness,
        )
        self.is_up = False

    def call_over(self, bus: "Brokered") -> None:
        """Use a bus to other processes; this must be called before `live`."""
        self.bus = bus
        self.instances = self._instances()

    def spawn(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine inside this process, which cancels it when it dies."""
        context = contextvars.Context()
        context.run(_PROCESS.set, self)
        return asyncio.get_running_loop().create_task(coro, context=context)

    async def ask(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine inside this process for a client, and return its result.

        Raises:
            UnavailableError: the process died meanwhile.
        """
        task = self.spawn(coro)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise UnavailableError("the connection was closed")
        return task.result()

    async def live(self) -> None:
        """Start the parts and loops of the process, which run until it dies."""
        role = self.role
        loops: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        if role.machines:
            self.follower.subscribers.append(self.pool)
            await self._insist(self.pool.register)
            loops += [("agents", self.pool.run), ("hints", self.pool.listen)]
        await self._insist(self.follower.start)
        await self._insist(self.liveness.share)
        loops.append(("heartbeats", self.liveness.run))
        if role.machines:
            await self.pool.adopt()
        if role.schedules:
            loops.append(("pending", self.pending.run))
            self.bus.serve(PLACE, self.placer.place)
        for name, loop in [*loops, ("follower", self.follower.run)]:
            self.spawn(
                supervise(name, loop, clock=self.clock, telemetry=self.journal, rng=Random(name))
            )
        self.is_up = True

    async def die(self) -> None:
        """Kill the process immediately: no further commit of it is sent."""
        self.is_up = False
        self.line.is_cut = True
        if isinstance(self.bus, Brokered):
            self.bus.leave()
        while self.tasks:
            for task in list(self.tasks):
                task.cancel()
            await asyncio.sleep(0)

    async def _insist(self, start: Callable[[], Awaitable[None]]) -> None:
        """Call `start` until it succeeds, as a supervisor of processes would."""
        while True:
            try:
                await start()
            except Exception as error:  # noqa: BLE001 - whatever it is, a supervisor tries again
                self.journal.failure("start_failed", error)
                await self.clock.sleep(_RESTART_S)
            else:
                return

    def _instances(self) -> Instances:
        return Instances(
            ledger=self.line,
            follower=self.follower,
            replica=self.replica,
            bus=self.bus,
            clock=self.clock,
        )

    def _agent(self, name: str, machine: Machine) -> Agent:
        context = HostContext(name, self.gateway, machine, self.clock, offloads=self.role.offloads)
        return Agent(name, machine, HostExecutor(context))
