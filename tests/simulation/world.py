"""A run: machines, processes, clients and operators on one ledger, all drawn from one seed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from berth.adapters.ledger import MemoryLedger, Retention
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.config.policy_source import PolicySource
from berth.domain.errors import (
    BerthError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from berth.domain.flavor import Flavor
from berth.domain.instance import Status
from berth.domain.request import instance_uuid_of
from berth.domain.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.server_group import GroupPolicy, ServerGroup
from berth.domain.write import Put
from berth.lab.kernel import VirtualClock, VirtualLoop
from berth.services.instances import Accepted, Order
from tests.simulation.books import ACTIVE, DELETED, ERROR, Books, BrokenLawError, state_of
from tests.simulation.faults import Flaw, Fleet, Line, Machine, Weather
from tests.simulation.processes import Journal, Process, Role, SeededIds, make_task

T = TypeVar("T")

FLAVORS = (
    Flavor("small", "small", vcpus=1, memory_mb=1024, root_gb=1),
    Flavor("medium", "medium", vcpus=3, memory_mb=2048, root_gb=10),
    Flavor("large", "large", vcpus=8, memory_mb=8192, root_gb=20),
    Flavor("huge", "huge", vcpus=64, memory_mb=8192, root_gb=20),
)
GROUPS = tuple(ServerGroup(str(policy), str(policy), policy) for policy in GroupPolicy)

_QUIET_MAX_S = 900.0
_POLICY = PolicySource(None).policy


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is run, and how rough it gets.

    `crash_s` is the mean time between two kills of a process, None for none; `orders` is how
    many each client places, and `trouble_s` how long things go wrong.
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
    accepted: dict[str, Order] = field(default_factory=dict[str, Order])
    deleted: set[str] = field(default_factory=set[str])
    fleet: Fleet = field(init=False)

    def __post_init__(self) -> None:
        """Make the machines."""
        self.fleet = Fleet(self.books)
        totals = {
            VCPU: self.scenario.vcpus,
            MEMORY_MB: 1024 * self.scenario.vcpus,
            DISK_GB: 20 * self.scenario.vcpus,
        }
        for number in range(self.scenario.hosts):
            fake = FakeHost(f"host-{number}", totals)
            self.fleet.machines[fake.name] = Machine(
                FakeDriver(fake, self.clock), self.fleet, self.scenario.weather, self._dice()
            )

    def line(self) -> Line:
        """Return a new line to the ledger."""
        return Line(self.ledger, self.books, self.scenario.weather, self._dice())

    def roles(self) -> list[Role]:
        """Return what processes there are."""
        some = self.scenario
        machines = list(self.fleet.machines.items())
        return [
            *(Role(f"scheduler-{n}", serves=True, schedules=True) for n in range(some.schedulers)),
            *(Role(f"api-{n}", serves=True) for n in range(some.bare_apis)),
            *(
                Role(f"agent-{n}", machines=dict(machines[n :: some.agents]))
                for n in range(some.agents)
            ),
        ]

    def start(self, role: Role) -> Process:
        """Start a process, in the place of its former life."""
        policy = replace(_POLICY, host_subset_size=self.scenario.subset_size)
        flaw = Flaw(policy, self.scenario.weather, self._dice())
        process = Process(role, self.line(), flaw, self._dice(), self.journal)
        self.processes[role.name] = process
        process.spawn(process.live())
        return process

    async def api(self) -> Process:
        """Return a process that serves clients, when one is up."""
        while True:
            up = [one for one in self.processes.values() if one.is_up and one.role.serves]
            if up:
                return self.rng.choice(up)
            await self.clock.sleep(0.5)

    async def insist(
        self, ask: Callable[[Process, bool], Coroutine[Any, Any, T]], *, tries_max: int = 100
    ) -> T:
        """Ask one API process after the other until one answers, as a client would."""
        for tries in range(tries_max):
            process = await self.api()
            try:
                return await process.ask(ask(process, tries > 0))
            except (UnavailableError, RuntimeError):
                await self.clock.sleep(self.rng.uniform(0, 2))
        raise UnavailableError("nobody answers")

    def notice(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take an error that nobody has caught for a broken law."""
        error = BrokenLawError(f"nobody has caught: {context}")
        error.__cause__ = context.get("exception")
        self.books.accuse(error)

    def _dice(self) -> Random:
        return Random(self.rng.getrandbits(64))


# --- who acts ---


async def be_client(world: World, number: int) -> None:
    """Order instances, some of them twice, rename and delete some; then go home."""
    rng = Random(world.rng.getrandbits(64))
    ids = SeededIds(rng)
    for _ in range(world.scenario.orders):
        await world.clock.sleep(rng.expovariate(world.scenario.orders / world.scenario.trouble_s))
        order = _draw_order(rng, ids.request_id(), f"project-{number}")
        try:
            if rng.random() < 0.2:
                await asyncio.gather(_order(world, order), _order(world, order))
            uuids = await _order(world, order)
        except InvalidInputError:
            # The host that it names was taken away.
            continue
        if rng.random() < 0.4:
            await _rename(world, rng.choice(uuids))
        await world.clock.sleep(rng.uniform(0, 8))
        if rng.random() < 0.3:
            with suppress(InvalidInputError):  # as above, meanwhile
                await _order(world, order)
        if rng.random() < 0.6:
            for uuid in rng.sample(uuids, rng.randint(1, len(uuids))):
                await _delete(world, uuid)


def _draw_order(rng: Random, request_id: str, project_id: str) -> Order:
    (flavor,) = rng.choices(FLAVORS, weights=(6, 4, 2, 1))
    zone = f"nova:host-{rng.randrange(4)}" if rng.random() < 0.1 else None
    hints = {"group": (rng.choice(GROUPS).uuid,)} if rng.random() < 0.3 else {}
    return Order(
        request_id=request_id,
        name="vm",
        flavor_id=flavor.flavor_id,
        project_id=project_id,
        user_id="user",
        count=rng.choice((1, 1, 1, 2, 4)),
        zone=zone,
        hints=hints,
    )


async def _order(world: World, order: Order) -> list[str]:
    async def create(process: Process, is_repeat: bool) -> Accepted:
        once_more = replace(order, may_repeat=is_repeat and world.rng.random() < 0.5)
        return await process.instances.create(once_more)

    accepted = await world.insist(create)
    uuids = [instance.uuid for instance in accepted.instances]
    expected = [instance_uuid_of(order.request_id, index) for index in range(order.count)]
    if uuids != expected:
        world.books.accuse(BrokenLawError(f"{order.request_id} was answered with {uuids}"))
    if any(uuid not in world.books.instances for uuid in uuids):
        world.books.accuse(BrokenLawError(f"{order.request_id} was accepted and not kept"))
    world.accepted[order.request_id] = order
    return uuids


async def _delete(world: World, uuid: str) -> None:
    async def delete(process: Process, is_repeat: bool) -> None:
        try:
            await process.instances.delete(uuid)
        except NotFoundError:
            if not is_repeat and uuid not in world.deleted:
                world.books.accuse(BrokenLawError(f"{uuid} was accepted and is not found"))
        except ConflictError as error:
            raise UnavailableError(str(error)) from error

    await world.insist(delete)
    world.deleted.add(uuid)


async def _rename(world: World, uuid: str) -> None:
    async def rename(process: Process, is_repeat: bool) -> None:
        instance = await process.instances.get(uuid)
        if instance.status is not Status.DELETED:
            await process.instances.save(replace(instance, name=f"vm at {instance.revision}"))

    with suppress(ConflictError):
        await world.insist(rename)


async def be_operator(world: World) -> None:
    """Disable hosts and enable them again, and take idle ones away until their agent restarts."""
    rng = Random(world.rng.getrandbits(64))
    while True:
        await world.clock.sleep(rng.expovariate(1 / 5))
        host = rng.choice(sorted(world.fleet.machines))
        try:
            process = await world.api()
            if rng.random() < 0.7:
                disabled = rng.random() < 0.3
                await process.ask(process.hosts.set_service(host, disabled=disabled))
            else:
                await process.ask(process.hosts.remove(host))
                agent = next(p for p in world.processes.values() if host in p.role.machines)
                await agent.die()
                world.start(agent.role)
        except (BerthError, RuntimeError):
            pass


async def be_fate(world: World, crash_s: float) -> None:
    """Kill processes and start them again."""
    rng = Random(world.rng.getrandbits(64))
    while True:
        await world.clock.sleep(rng.expovariate(1 / crash_s))
        victim = world.processes[rng.choice(sorted(world.processes))]
        await victim.die()
        await world.clock.sleep(rng.uniform(0, 3))
        if world.processes[victim.role.name] is victim:
            world.start(victim.role)


# --- the run ---


def run_scenario(scenario: Scenario, seed: int) -> World:
    """Run a scenario to its end and check every law on the way.

    Raises:
        BrokenLawError: what was broken first.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_task_factory(make_task)
        try:
            return runner.run(_run(scenario, seed))
        except Exception as error:
            error.add_note(f"replay: python -m pytest tests/simulation --seed {seed}")
            raise


async def _run(scenario: Scenario, seed: int) -> World:
    clock = VirtualClock()
    retention = Retention(feed_versions=scenario.feed_versions)
    ledger = MemoryLedger(retention=retention, now_s=clock.now_s)
    world = World(scenario, Random(seed), ledger, Books())
    asyncio.get_running_loop().set_exception_handler(world.notice)
    await ledger.commit([(*map(Put, FLAVORS), *map(Put, GROUPS))])
    await world.line().audit()
    for role in world.roles():
        world.start(role)
    clients = [asyncio.create_task(be_client(world, n)) for n in range(scenario.clients)]
    async with _troubles(world):
        await _pass(world, scenario.trouble_s)
    for process in list(world.processes.values()):
        if process.line.is_cut:
            world.start(process.role)
    while not all(client.done() for client in clients):
        await _pass(world, 1.0)
    for client in clients:
        client.result()
    await _quieten(world)
    await check_end(world)
    for process in world.processes.values():
        await process.die()
    return world


@asynccontextmanager
async def _troubles(world: World) -> AsyncIterator[None]:
    """Let things go wrong for as long as the body takes."""
    tasks: list[asyncio.Task[None]] = []
    if world.scenario.operates:
        tasks.append(asyncio.create_task(be_operator(world)))
    if world.scenario.crash_s is not None:
        tasks.append(asyncio.create_task(be_fate(world, world.scenario.crash_s)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        world.scenario.weather.clear_up()


async def _pass(world: World, seconds: float) -> None:
    """Let time pass, up to the first broken law."""
    end_s = world.clock.now_s() + seconds
    while world.clock.now_s() < end_s:
        await world.clock.sleep(min(1.0, seconds))
        if world.books.broken is not None:
            raise world.books.broken


async def _quieten(world: World) -> None:
    """Wait until nothing is left to be done."""
    end_s = world.clock.now_s() + _QUIET_MAX_S
    while unrest := _unrest(world):
        if world.clock.now_s() > end_s:
            raise BrokenLawError(f"never done: {unrest}; {world.journal}")
        await _pass(world, 1.0)
    await _pass(world, 3.0)


def _unrest(world: World) -> list[str]:
    books = world.books
    found = [f"{one.role.name} is down" for one in world.processes.values() if not one.is_up]
    found += [f"{key} is pending" for key in books.pending]
    found += [
        f"{one.uuid} is {one.task} on {one.host}"
        for one in books.instances.values()
        if one.task is not None
    ]
    return found


# --- what must be true at the end ---


async def check_end(world: World) -> None:
    """Check that every promise was kept and nothing is left over.

    Raises:
        BrokenLawError: naming what is wrong.
    """
    books = world.books
    for uuid, instance in books.instances.items():
        state = state_of(instance)
        _law(state in {ACTIVE, ERROR, DELETED}, f"{uuid} is {state}")
        _law(uuid not in world.deleted or state == DELETED, f"{uuid} was deleted and is {state}")
        fault = instance.fault
        _law(state != ERROR or fault is not None, f"{uuid} is in ERROR without a reason")
    for order in world.accepted.values():
        for index in range(order.count):
            uuid = instance_uuid_of(order.request_id, index)
            _law(uuid in books.instances, f"{order.request_id} has lost {uuid}")
    runs = {name: machine.instances for name, machine in world.fleet.machines.items()}
    should: dict[str, set[str]] = {name: set() for name in runs}
    for uuid, instance in books.instances.items():
        if instance.status is Status.ACTIVE:
            should[instance.host or ""].add(uuid)
    _law(runs == should, f"{runs} run where {should} should")
    for process in world.processes.values():
        await _check_process(world, process)


async def _check_process(world: World, process: Process) -> None:
    name, replica = process.role.name, process.replica
    await process.follower.catch_up()
    _law(replica.held == 0, f"{name} holds {replica.held}")
    _law(not replica.pending, f"{name} has pending requests")
    alive = {replica.hosts.host(int(row)).uuid: int(row) for row in replica.hosts.alive_rows()}
    _law(alive.keys() == world.books.used.keys(), f"{name} has other hosts")
    for uuid, row in alive.items():
        used = replica.hosts.used(row)
        _law(used == world.books.used[uuid], f"{name} counts {used} used of {uuid}")
        host = replica.hosts.host(row).name
        there = [
            one
            for one in world.books.instances.values()
            if one.host == host and one.status is not Status.DELETED
        ]
        count = int(replica.hosts.num_instances[row])
        _law(count == len(there), f"{name} counts {count} on {host}, not {len(there)}")
        building = int(replica.hosts.num_io_ops[row])
        _law(building == 0, f"{name} counts {building} being built on {host}")
    left = {
        "orders": process.placing._at_work,
        "pending requests": process.pending._at_work,
        "tasks": process.pool._at_work,
        "task list": process.pool._todo,
        "revisions": process.pool._done,
        "commands": process.bus._tasks,
    }
    for what, things in left.items():
        _law(not things, f"{name} has {what} left over: {things}")


def _law(holds: bool, complaint: str) -> None:
    if not holds:
        raise BrokenLawError(complaint)
