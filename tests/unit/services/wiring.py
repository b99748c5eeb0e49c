"""Services on a memory ledger and a virtual clock, wired as in `berth.app.processes`."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from berth.adapters.bus.local import LocalBus
from berth.adapters.ledger import MemoryLedger
from berth.adapters.ledger.engine.retention import Retention
from berth.config.policy_file import load_policy
from berth.domain.compute.build_failure import HALF_LIFE_S
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.request import Request
from berth.domain.errors import UnavailableError
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.record import Record
from berth.domain.ledger.write import Committed, Outcome, Put, Unit, Write
from berth.ports.ledger import HeartbeatReport, InstanceQuery, MigrationQuery
from berth.scheduling.evaluation.policy import Policy
from berth.services.decisions.decisions import DecisionService
from berth.services.fleet.aggregates import Aggregates
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.alternates import Alternates
from berth.services.gateway.gateway import Gateway
from berth.services.gateway.in_progress import InstancesInProgress
from berth.services.placement.pending_requests import PendingRequests
from berth.services.placement.placement import PlacementService
from berth.services.replica.follower import Follower
from berth.services.replica.liveness import Liveness
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PLACE, PlaceOrder
from berth.services.servers.flavors import Flavors
from berth.services.servers.instances import Instances
from berth.services.servers.server_groups import ServerGroups
from berth.testing.builders import make_flavor, make_fleet, make_uuid
from berth.testing.virtual_time import VirtualClock
from tests.gateways import make_gateway

POLICY = load_policy(Path("nova"))  # it spreads, so tests can tell where instances go
KEPT = Retention()
R = TypeVar("R", bound=Record)


class Told:
    """Telemetry that records the names of events and failures."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failures: list[tuple[str, BaseException]] = []

    def event(self, name: str, **fields: object) -> None:
        """Record the name."""
        self.events.append(name)

    def warning(self, name: str, **fields: object) -> None:
        """Record the name."""
        self.events.append(name)

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Record the name and the error."""
        self.failures.append((name, error))

    @property
    def failed(self) -> list[str]:
        """The names of the recorded failures."""
        return [name for name, _ in self.failures]


class CountedIds:
    """Identifiers that count; see the port `Ids`."""

    def __init__(self) -> None:
        self._last = 0

    def uuid(self) -> str:
        """Return the next uuid."""
        self._last += 1
        return make_uuid("made", self._last)

    def request_id(self) -> str:
        """Return the next request id."""
        return f"req-{self.uuid()}"


class TappedLedger(MemoryLedger):
    """A memory ledger whose commits can be lost, or held up.

    Attributes:
        away: the number of the next commits that do not arrive.
        heartbeats_away: the number of the next reports of heartbeats that do not arrive.
        silent: the number of the next commits that arrive and whose answers are lost.
        gate: an event for which commits wait before they arrive.
        before_commit: called before each commit that arrives.
        reads: the records that were read; reads of the feed are not recorded.
    """

    def __init__(self, retention: Retention = KEPT) -> None:
        super().__init__(retention=retention, now_s=VirtualClock().now_s)
        self.away = 0
        self.silent = 0
        self.heartbeats_away = 0
        self.gate: asyncio.Event | None = None
        self.before_commit: Callable[[Sequence[Unit]], Awaitable[None]] | None = None
        self.commits = 0
        self.reads: list[str] = []

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit the units unless commits are delayed or lost."""
        if self.away:
            self.away -= 1
            raise UnavailableError("the ledger is away")
        if self.gate is not None:
            await self.gate.wait()
        if self.before_commit is not None:
            await self.before_commit(units)
        self.commits += 1
        outcomes = await super().commit(units)
        if self.silent:
            self.silent -= 1
            raise UnavailableError("the answer is lost")
        return outcomes

    async def save_heartbeats(self, report: HeartbeatReport) -> None:
        """Store a report of heartbeats unless it is lost."""
        if self.heartbeats_away:
            self.heartbeats_away -= 1
            raise UnavailableError("the ledger is away")
        await super().save_heartbeats(report)

    async def get(self, noun: type[R], key: str) -> R | None:
        """Return a record, which may be outdated when the caller resumes."""
        self.reads.append(f"{noun.__name__} {key}")
        found = await super().get(noun, key)
        await asyncio.sleep(0)
        return found

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """Return records, which may be outdated when the caller resumes."""
        self.reads.append(noun.__name__)
        found = await super().all(noun, limit=limit)
        await asyncio.sleep(0)
        return found

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Return instances."""
        self.reads.append(f"instances {query.host or ''}")
        return await super().instances(query)

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """Return migrations."""
        self.reads.append(f"migrations {query.host or ''}")
        return await super().migrations(query)

    async def write(self, *writes: Write) -> int:
        """Commit one unit without delays or losses, and return its version."""
        (outcome,) = await super().commit([writes])
        assert isinstance(outcome, Committed), outcome
        assert not outcome.repeated
        return outcome.version

    async def used(self, number: int) -> dict[str, int]:
        """Return the used amounts of `host-N`, without zeros."""
        provider = await self.get(Provider, make_uuid("host", number))
        assert provider is not None
        return {name: amount for name, amount in provider.used.items() if amount}


class FixedPolicy:
    """A policy that does not change by itself.

    Attributes:
        decisions: the number of decisions made with the policy.
        mistakes: the number of the next decisions that fail with an unexpected error.
    """

    def __init__(self) -> None:
        self.decisions = 0
        self.mistakes = 0

    @property
    def policy(self) -> Policy:
        """The policy; each read counts as a decision."""
        self.decisions += 1
        if self.mistakes:
            self.mistakes -= 1
            raise RuntimeError("a mistake")
        return POLICY


class Desk:
    """The services of one process."""

    def __init__(self, ledger: TappedLedger, *, attempts_max: int = 5) -> None:
        self.ledger = ledger
        self.clock = VirtualClock()
        self.told = Told()
        self.policies = FixedPolicy()
        self.replica = Replica()
        self.follower = Follower(ledger, self.clock, [self.replica])
        self.bus = LocalBus(self.told, now_s=self.clock.now_s)
        self.decision_service = DecisionService(self.replica, self.policies, self.clock)
        # Each process has an id of its own in the store of heartbeats.
        gateway = str(uuid.uuid4())
        self.liveness = Liveness(ledger, self.replica, self.clock, self.told, gateway=gateway)
        self.placer = PlacementService(
            ledger=ledger,
            follower=self.follower,
            replica=self.replica,
            decision_service=self.decision_service,
            clock=self.clock,
            attempts_max=attempts_max,
            liveness=self.liveness,
        )
        self.pending = PendingRequests(
            ledger=ledger,
            replica=self.replica,
            placer=self.placer,
            clock=self.clock,
            telemetry=self.told,
        )
        self.instances = Instances(
            ledger=ledger,
            follower=self.follower,
            replica=self.replica,
            bus=self.bus,
            clock=self.clock,
        )
        self.hosts = Hosts(
            ledger=ledger,
            follower=self.follower,
            replica=self.replica,
            ratios=AllocationRatios(ledger=ledger, replica=self.replica),
            clock=self.clock,
            ids=CountedIds(),
        )
        self.aggregates = Aggregates(
            ledger=ledger,
            follower=self.follower,
            replica=self.replica,
            ratios=AllocationRatios(ledger=ledger, replica=self.replica),
            clock=self.clock,
            ids=CountedIds(),
        )
        self.flavors = Flavors(ledger)
        self.groups = ServerGroups(ledger)
        self.in_progress = InstancesInProgress()
        self.follower.subscribers.append(self.in_progress)

    def gateway(
        self,
        *,
        attempts_max: int = 3,
        alternates: Alternates | None = None,
        half_life_s: float = HALF_LIFE_S,
    ) -> Gateway:
        """Return a gateway for the agents of hosts."""
        return make_gateway(
            ledger=self.ledger,
            clock=self.clock,
            hosts=self.hosts,
            replica=self.replica,
            telemetry=self.told,
            attempts_max=attempts_max,
            alternates=alternates,
            half_life_s=half_life_s,
            liveness=self.liveness,
            in_progress=self.in_progress,
        )

    def serve(self) -> Callable[[], None]:
        """Let the scheduler serve the bus; return the function that stops it."""
        return self.bus.serve(PLACE, self.placer.place)

    def used(self, number: int) -> dict[str, int]:
        """Return the used amounts of `host-N` in the replica."""
        row = self.replica.hosts.row_of(make_uuid("host", number))
        assert row is not None
        return self.replica.hosts.used(row)

    def instances_on(self, number: int) -> int:
        """Return the number of instances of `host-N` in the replica."""
        row = self.replica.hosts.row_of(make_uuid("host", number))
        assert row is not None
        return int(self.replica.hosts.num_instances[row])


@dataclass(slots=True)
class Fleet:
    """The number and size of the hosts that a test starts with."""

    hosts: int = 2
    vcpus: int = 16
    retention: Retention = field(default_factory=Retention)


async def open_desk(fleet: Fleet | None = None, *, attempts_max: int = 5) -> Desk:
    """Return services on a ledger with some hosts and flavor 1 (one VCPU)."""
    fleet = fleet or Fleet()
    ledger = TappedLedger(fleet.retention)
    for unit in make_fleet(fleet.hosts, vcpus=fleet.vcpus):
        await ledger.write(*unit)
    await ledger.write(Put(make_flavor()))
    desk = Desk(ledger, attempts_max=attempts_max)
    await desk.follower.start()
    return desk


async def open_second(desk: Desk) -> Desk:
    """Return another process's services on the same ledger."""
    second = Desk(desk.ledger)
    await second.follower.start()
    return second


def order_of(request: Request, *, accepted: bool = False, revision: int = 0) -> PlaceOrder:
    """Return the order of a request with its instances."""
    instances = tuple(
        Instance(
            uuid=uuid,
            name="vm",
            project_id=request.project_id,
            user_id=request.user_id,
            request_id=request.request_id,
            reservation_id="r-00000001",
            flavor=request.flavor,
            launch_index=index,
            revision=revision,
        )
        for index, uuid in enumerate(request.instance_uuids)
    )
    return PlaceOrder(request, instances, accepted=accepted)


@asynccontextmanager
async def running(*loops: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run loops during the body, and raise their errors at its end."""
    tasks = [asyncio.ensure_future(loop()) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(result, asyncio.CancelledError) and result is not None:
                raise result
