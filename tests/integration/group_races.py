"""Several schedulers and agents that work concurrently on the members of server groups."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import Random

from berth.adapters.bus.local import LocalBus
from berth.adapters.system import RandomIds, SystemClock
from berth.adapters.virt.fake import DriverFaults, FakeDriver, FakeHost, FakeMachine, FakeNetwork
from berth.agent.executor import HostContext, HostExecutor
from berth.config.policy_source import PolicySource
from berth.domain.compute import lifecycle
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.migration import Migration
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import BerthError, NotFoundError
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Change
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Free, Heartbeats, Put, Take
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.decisions.decisions import DecisionService
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.in_progress import InstancesInProgress
from berth.services.placement.pending_requests import PendingRequests
from berth.services.placement.placement import PlacementService
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PLACE
from berth.services.servers.instances import CreateOrder, Instances
from berth.services.servers.moves import MoveTarget
from berth.services.servers.operations import Operations
from berth.testing.builders import make_flavor, make_fleet, make_uuid
from tests.gateways import make_alternates, make_gateway
from tests.unit.services.wiring import Told

HOSTS = 6
DOWN_S = 3600.0
GROUPS = (
    ServerGroup(make_uuid("group", 1), "apart", GroupPolicy.ANTI_AFFINITY),
    ServerGroup(make_uuid("group", 2), "pairs", GroupPolicy.ANTI_AFFINITY, max_server_per_host=2),
    *(
        ServerGroup(make_uuid("group", n), f"together-{n}", GroupPolicy.AFFINITY)
        for n in (3, 4, 5, 6)
    ),
)
SMALL, LARGE = make_flavor(1), make_flavor(2, vcpus=2)


class LateFollower(Follower):
    """A follower that often fails to catch up, as with a slow connection."""

    dice: Random

    async def catch_up(self) -> bool:
        """Catch up, or return False in 40 % of calls."""
        await asyncio.sleep(0)
        return False if self.dice.random() < 0.4 else await super().catch_up()


class Unlucky(FakeDriver):
    """A driver that fails 35 % of builds."""

    dice: Random

    async def spawn(self, instance: Instance) -> None:
        """Start a guest, or raise BuildError."""
        await asyncio.sleep(0)
        if self.dice.random() < 0.35:
            raise BuildError("no luck")
        await super().spawn(instance)


class Process:
    """The replica and the services of one process."""

    def __init__(self, ledger: Ledger, dice: Random) -> None:
        clock, told = SystemClock(), Told()
        self.ledger, self.dice = ledger, dice
        self.replica = Replica()
        self.follower = LateFollower(ledger, clock, [self.replica])
        self.follower.dice = dice
        bus = LocalBus(told, now_s=clock.now_s)
        decision_service = DecisionService(self.replica, PolicySource(None), clock)
        self.placer = PlacementService(
            ledger=ledger,
            follower=self.follower,
            replica=self.replica,
            decision_service=decision_service,
            clock=clock,
        )
        bus.serve(PLACE, self.placer.place)
        self.pending = PendingRequests(
            ledger=ledger,
            replica=self.replica,
            placer=self.placer,
            clock=clock,
            telemetry=told,
        )
        self.instances = Instances(
            ledger=ledger, follower=self.follower, replica=self.replica, bus=bus, clock=clock
        )
        self.operations = Operations(ledger=ledger, replica=self.replica, clock=clock)
        hosts = Hosts(
            ledger=ledger,
            follower=self.follower,
            replica=self.replica,
            ratios=AllocationRatios(ledger=ledger, replica=self.replica),
            clock=clock,
            ids=RandomIds(),
        )
        in_progress = InstancesInProgress()
        self.follower.subscribers.append(in_progress)
        self.gateway = make_gateway(
            ledger=ledger,
            clock=clock,
            hosts=hosts,
            replica=self.replica,
            telemetry=told,
            alternates=make_alternates(self.follower, self.replica, clock),
            in_progress=in_progress,
        )
        self.clock = clock


class Race:
    """A fleet and several processes that act concurrently; all randomness comes from one seed."""

    def __init__(self, ledger: Ledger, seed: int, processes: int = 3) -> None:
        self.ledger = ledger
        self.dice = Random(seed)
        self.processes = [Process(ledger, Random(seed + n)) for n in range(processes)]
        self.agents: dict[str, HostExecutor] = {}
        self._numbers = iter(range(1, 1_000_000))
        self._seed = seed

    async def open(self) -> None:
        """Create hosts, flavors and groups, and start the processes and agents."""
        for unit in make_fleet(HOSTS, vcpus=24):
            await self.ledger.commit([unit])
        await self.ledger.commit([(Put(SMALL), Put(LARGE), *map(Put, GROUPS))])
        now_s, network = self.processes[0].clock.now_s(), FakeNetwork()
        for process in self.processes:
            await process.follower.start()
        for number in range(1, HOSTS + 1):
            name = f"host-{number}"
            machine = FakeMachine(name)
            process = self.processes[number % len(self.processes)]
            fake = FakeHost(name, faults=DriverFaults())
            driver = Unlucky(fake, process.clock, machine, network)
            driver.dice = Random(self._seed + number)
            context = HostContext(name, process.gateway, driver, process.clock)
            self.agents[name] = HostExecutor(context)
        await self._beat(now_s)

    async def _beat(self, now_s: float) -> None:
        await self.ledger.commit([(Heartbeats(tuple(self.agents), now_s),)])

    async def run(self, workers: int = 5, steps: int = 60) -> None:
        """Run several workers concurrently, each of which takes a number of random steps."""
        await asyncio.gather(*(self._work(steps) for _ in range(workers)))

    async def _work(self, steps: int) -> None:
        deeds: Sequence[tuple[Callable[[Process], Awaitable[None]], int]] = (
            (self._create, 4),
            (self._decide, 8),
            (self._be_agent, 20),
            (self._operate, 10),
            (self._delete, 2),
            (self._write_by_the_other_door, 1),
        )
        for _ in range(steps):
            (deed,) = self.dice.choices(
                [deed for deed, _ in deeds], weights=[weight for _, weight in deeds]
            )
            with suppress(BerthError):  # the state may forbid it, or another worker was faster
                await deed(self.dice.choice(self.processes))

    async def _create(self, process: Process) -> None:
        """Order members of a group, sometimes on a forced host."""
        group, number = self.dice.choice(GROUPS), next(self._numbers)
        forced = self.dice.random() < 0.15
        order = CreateOrder(
            request_id=f"req-{number:06}",
            name="vm",
            flavor_id=SMALL.flavor_id,
            project_id="project-1",
            user_id="user-1",
            count=self.dice.choice((1, 1, 1, 2)),
            zone=f"nova:host-{self.dice.randint(1, HOSTS)}" if forced else None,
            hints={"group": (group.uuid,)},
        )
        await process.instances.create(order)

    async def _decide(self, process: Process) -> None:
        """Place a random pending request, if there is one."""
        waiting = await self.ledger.all(PendingRequest)
        if waiting:
            await process.pending._place(self.dice.choice(waiting).request, has_broken=False)

    async def _be_agent(self, _: Process) -> None:
        """Have an agent carry out the next step for a random instance."""
        instance = await self._any()
        move = None
        if instance.migration_uuid is not None:
            move = await self.ledger.get(Migration, instance.migration_uuid)
        turn = instance.host if move is None or move.turn is None else move.turn
        if turn is not None:
            await self.agents[turn].carry_out(instance, in_doubt=True)

    async def _operate(self, process: Process) -> None:
        """Request an operation that the state of a random instance allows, if there is one."""
        instance = await self._any()
        uuid, target = instance.uuid, MoveTarget()
        caller = Caller(f"req-{next(self._numbers):06}", "project-1", "user-1", is_admin=True)
        ask = process.operations
        if instance.status is Status.RESIZED:
            settle = self.dice.choice((ask.revert, ask.revert, ask.confirm))
            await settle(uuid, caller, service_down_time_s=DOWN_S)
        elif instance.status is Status.SHELVED_OFFLOADED:
            await ask.unshelve(uuid, target, caller)
        elif instance.task is None and instance.status is Status.ACTIVE:
            deed = self.dice.choice(("resize", "migrate", "live", "shelve", "evacuate"))
            if deed == "resize":
                await ask.resize(uuid, LARGE, caller)
            elif deed == "migrate":
                await ask.migrate(uuid, target, caller)
            elif deed == "live":
                forced = MoveTarget(f"host-{self.dice.randint(1, HOSTS)}", forced=True)
                await ask.live_migrate(uuid, self.dice.choice((target, forced)), caller)
            elif deed == "shelve":
                await ask.begin(uuid, lifecycle.SHELVE, caller)
            else:
                await ask.evacuate(uuid, target, caller, service_down_time_s=-1.0)

    async def _delete(self, process: Process) -> None:
        await process.instances.delete((await self._any()).uuid)

    async def _write_by_the_other_door(self, _: Process) -> None:
        """Claim and free an amount, as a client of the Placement API does, regardless of groups."""
        number = next(self._numbers)
        host = make_uuid("host", self.dice.randint(1, HOSTS))
        consumer = make_uuid("consumer", number)
        claim = Claim(f"other-{number}", (Allocation(consumer, host, {VCPU: 1}),))
        await self.ledger.commit([(Take(claim),)])
        await asyncio.sleep(0)
        await self.ledger.commit([(Free(consumer),)])

    async def _any(self) -> Instance:
        found = await self.ledger.instances(InstanceQuery())
        if not found:
            raise NotFoundError("instance", "any")
        live = [one for one in found if one.status is not Status.ERROR] or found
        busy = [one for one in live if one.task is not None]
        return self.dice.choice(busy if busy and self.dice.random() < 0.6 else live)


def broken_groups(changes: Sequence[Change]) -> list[str]:
    """Return a line for each violation of a group's hard policy in any version of a ledger.

    Args:
        changes: all changes from the first version on.
    """
    groups = {group.uuid: group for group in GROUPS}
    members: dict[str, dict[str, str]] = {uuid: {} for uuid in groups}
    found: list[str] = []
    for at, change in enumerate(changes):
        one = change.event
        if isinstance(one, Instance) and one.group_uuid is not None:
            here = members[one.group_uuid]
            here.pop(one.uuid, None)
            if one.host is not None and one.status is not Status.DELETED:
                here[one.uuid] = one.host
        is_last = at + 1 == len(changes) or changes[at + 1].version != change.version
        if is_last:
            found += [
                f"v{change.version}: {group.name}: {dict(counts)}"
                for group in groups.values()
                if _is_broken(group, counts := Counter(members[group.uuid].values()))
            ]
    return found


def _is_broken(group: ServerGroup, counts: Mapping[str, int]) -> bool:
    if group.policy is GroupPolicy.AFFINITY:
        return len(counts) > 1
    return max(counts.values(), default=0) > group.max_server_per_host
