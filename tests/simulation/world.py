"""The state of a run: machines and processes on one ledger, all drawn from one seed."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from berth.adapters.bus.local import LocalBus
from berth.adapters.ledger import MemoryLedger
from berth.adapters.virt.fake import FakeHost
from berth.config.policy_source import PolicySource
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import UnavailableError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.services.servers.instances import CreateOrder
from berth.testing.virtual_time import VirtualClock
from tests.simulation.books import Books, BrokenLawError
from tests.simulation.brokers import Brokered
from tests.simulation.faults import Away, Flaw, Line, Weather
from tests.simulation.machines import Fleet, Machine
from tests.simulation.processes import Journal, Process, Role

T = TypeVar("T")

FLAVORS = (
    Flavor("small", "small", vcpus=1, memory_mb=1024, root_gb=1),
    Flavor("medium", "medium", vcpus=3, memory_mb=2048, root_gb=10),
    Flavor("large", "large", vcpus=8, memory_mb=8192, root_gb=20),
    Flavor("huge", "huge", vcpus=64, memory_mb=8192, root_gb=20),
)
GROUPS = (
    *(ServerGroup(str(policy), str(policy), policy) for policy in GroupPolicy),
    ServerGroup("pairs", "pairs", GroupPolicy.ANTI_AFFINITY, max_server_per_host=2),
)

_POLICY = PolicySource(None).policy


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a run: its fleet, processes, clients and faults.

    `crash_s` is the mean time between two kills of a process, None for none; `orders` is the number
    of orders of each client, and `trouble_s` the time during which faults occur. Owners are clients
    that request `deeds` operations on their instances; with `moves` administrators move instances.
    `outage_s` is the mean time between two outages of the ledger or of the broker, None for none;
    with `calls` processes call each other over a broker.
    """

    weather: Weather
    hosts: int = 4
    vcpus: int = 12
    schedulers: int = 2
    bare_apis: int = 1
    agents: int = 2
    clients: int = 3
    orders: int = 8
    trouble_s: float = 40.0
    crash_s: float | None = None
    subset_size: int = 1
    feed_versions: int = 100_000
    operates: bool = True
    owners: int = 0
    deeds: int = 12
    moves: bool = False
    offloads: bool = True
    resizes_in_place: bool = False
    outage_s: float | None = None
    calls: bool = False


@dataclass(slots=True)
class World:
    """The state of a run."""

    scenario: Scenario
    rng: Random
    ledger: MemoryLedger
    books: Books
    journal: Journal = field(default_factory=Journal)
    clock: VirtualClock = field(default_factory=VirtualClock)
    processes: dict[str, Process] = field(default_factory=dict[str, Process])
    accepted: dict[str, CreateOrder] = field(default_factory=dict[str, CreateOrder])
    deleted: set[str] = field(default_factory=set[str])
    asked: set[str] = field(default_factory=set[str])
    """The keys of accepted actions."""
    away: dict[str, Away] = field(default_factory=dict[str, Away])
    """The processes for which the ledger is unavailable, and how."""
    cut_off: dict[str, Away] = field(default_factory=dict[str, Away])
    """The processes for which the broker is unavailable, and how."""
    fleet: Fleet = field(init=False)
    broker: LocalBus = field(init=False)

    def __post_init__(self) -> None:
        """Create the machines and the broker."""
        self.broker = LocalBus(self.journal, now_s=self.clock.now_s)
        self.fleet = Fleet(self.books)
        totals = {
            VCPU: self.scenario.vcpus,
            MEMORY_MB: 1024 * self.scenario.vcpus,
            DISK_GB: 20 * self.scenario.vcpus,
        }
        for number in range(self.scenario.hosts):
            fake = FakeHost(f"host-{number}", totals)
            self.fleet.machines[fake.name] = Machine(
                fake, self.clock, self.fleet, self.scenario.weather, self.dice()
            )

    def line(self, name: str = "") -> Line:
        """Return a new connection of a process to the ledger."""
        weather = self.scenario.weather
        return Line(self.ledger, self.books, weather, self.dice(), lambda: self.away.get(name))

    def roles(self) -> list[Role]:
        """Return the roles of all processes."""
        some = self.scenario
        machines = list(self.fleet.machines.items())
        return [
            *(self._serving(f"scheduler-{n}", schedules=True) for n in range(some.schedulers)),
            *(self._serving(f"api-{n}") for n in range(some.bare_apis)),
            *(
                Role(
                    f"agent-{n}", machines=dict(machines[n :: some.agents]), offloads=some.offloads
                )
                for n in range(some.agents)
            ),
        ]

    def _serving(self, name: str, *, schedules: bool = False) -> Role:
        in_place = self.scenario.resizes_in_place
        return Role(name, serves=True, schedules=schedules, resizes_in_place=in_place)

    def start(self, role: Role) -> Process:
        """Start a process, replacing its former life, and return it."""
        policy = replace(_POLICY, host_subset_size=self.scenario.subset_size)
        flaw = Flaw(policy, self.scenario.weather, self.dice())
        process = Process(role, self.line(role.name), flaw, self.dice(), self.journal)
        if self.scenario.calls:
            name = role.name
            bus = Brokered(self.broker, process, lambda: self.cut_off.get(name))
            process.call_over(bus)
        self.processes[role.name] = process
        process.spawn(process.live())
        return process

    async def api(self) -> Process:
        """Wait for a running process that serves clients, and return it."""
        while True:
            up = [one for one in self.processes.values() if one.is_up and one.role.serves]
            if up:
                return self.rng.choice(up)
            await self.clock.sleep(0.5)

    async def insist(
        self, ask: Callable[[Process, bool], Coroutine[Any, Any, T]], *, tries_max: int = 100
    ) -> T:
        """Call `ask` with random API processes until one answers, as a client would."""
        for tries in range(tries_max):
            process = await self.api()
            try:
                return await process.ask(ask(process, tries > 0))
            except (UnavailableError, RuntimeError):
                await self.clock.sleep(self.rng.uniform(0, 2))
        raise UnavailableError("nobody answers")

    def notice(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an uncaught error as a broken law."""
        error = BrokenLawError(f"nobody has caught: {context}")
        error.__cause__ = context.get("exception")
        self.books.accuse(error)

    def dice(self) -> Random:
        """Return a new random generator, seeded from the run's."""
        return Random(self.rng.getrandbits(64))
