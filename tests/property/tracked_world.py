"""A scheduler, and agents that cast to it over a faulty bus; one seed decides everything."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

from berth.agent.instance_casts import InstanceCaster
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.compute.request import Request
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.ports.bus import Bus, Command
from berth.ports.ledger import InstanceQuery
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.follower import Follower
from berth.services.replica.instance_overlay import with_attributes
from berth.services.tracking import InstanceTracker, LedgerView, TrackingPace
from berth.services.tracking.list_reload import read_list
from berth.services.tracking.lists import list_digest
from berth.services.tracking.messages import DELETE, FORMAT, SYNC, UPDATE, Message
from berth.testing.builders import make_flavor, make_instance, make_migration, make_request
from berth.testing.faulty_bus import Faults, FaultyBus
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Desk, Fleet, Told, open_desk, order_of

SYNC_S = 30.0
QUIET_S = SYNC_S * 8
"""Within this time every agent has sent its list, and a silent agent is known to be silent."""
HOSTS = 4


class Dialect:
    """A bus that sends an agent's messages in another format; 0 sends nothing."""

    def __init__(self, bus: Bus, spoken: int) -> None:
        self.bus = bus
        self.spoken = spoken

    async def fanout(self, command: Command[Any, Any], args: Message) -> None:
        """Send a message in the chosen format, or not at all."""
        if self.spoken:
            head = replace(args.head, format=self.spoken)
            await self.bus.fanout(command, replace(args, head=head))


class AgentProcess:
    """The agent of one host, which may be restarted as another version."""

    def __init__(self, world: "World", host: str) -> None:
        self.world = world
        self.host = host
        self.spoken = FORMAT
        self.starts = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, spoken: int) -> None:
        """Start the agent as a version that sends in this format."""
        self.starts += 1
        self.spoken = spoken
        desk = self.world.desk
        teller = InstanceCaster(
            [self.host],
            Dialect(self.world.bus, spoken),  # type: ignore[arg-type] # it casts, and nothing else
            desk.clock,
            Told(),
            self.world.rng,
            session=f"{self.host}-{self.starts}",
            sync_interval_s=SYNC_S,
        )
        follower = Follower(desk.ledger, desk.clock, [teller])
        await follower.start()
        loops: tuple[Callable[[], Awaitable[None]], ...] = (follower.run, teller.run, teller.sync)
        self.tasks = [asyncio.ensure_future(loop()) for loop in loops]

    async def stop(self) -> None:
        """Stop the agent without cleanup, as if its process were killed."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class AuditedDeciding(DecisionService):
    """A decision service that calls an auditor before each decision.

    Attributes:
        audit: called before a decision with the hosts that it leaves out.
        left_out: the number of decisions that left out a host.
    """

    audit: Callable[[frozenset[str]], None]
    left_out = 0

    def decide(
        self, request: Request, *, attempt: int = 1, left_out: frozenset[str] = frozenset()
    ) -> Decision:
        """Audit, decide, and check that no instance is placed on a host that is left out."""
        self.audit(left_out)
        self.left_out += bool(left_out)
        decision = super().decide(request, attempt=attempt, left_out=left_out)
        assert not {one.host for one in decision.placements} & left_out
        return decision


class World:
    """One ledger, one scheduler, and an agent for each host.

    Attributes:
        faults: the faults of the bus.
        history: by host, the digests of its list, each with its first version.
        told_version: by host, the highest version among the messages that were delivered.
    """

    def __init__(self, desk: Desk, rng: Random, *, by_casts: bool) -> None:
        self.desk = desk
        self.rng = rng
        self.faults = Faults()
        self.bus = FaultyBus(desk.bus, self.faults, rng)
        self.tracker = InstanceTracker(
            LedgerView(desk.ledger, desk.follower, desk.replica),
            desk.policies,
            desk.clock,
            desk.told,
            TrackingPace(SYNC_S),
            by_casts=by_casts,
        )
        self.tracker.serve(desk.bus, "scheduler-1")
        desk.follower.subscribers.append(self.tracker)
        self.decision_service = AuditedDeciding(desk.replica, desk.policies, desk.clock)
        self.decision_service.audit = self.audit
        desk.placer._decision_service = self.decision_service
        desk.placer._tracker = self.tracker
        self.names = [f"host-{number}" for number in range(1, HOSTS + 1)]
        self.agents = {name: AgentProcess(self, name) for name in self.names}
        self.history: dict[str, list[tuple[int, bytes]]] = {name: [] for name in self.names}
        self.told_version: dict[str, int] = {}
        self.numbers = 0
        desk.bus.serve(UPDATE, self._note, server="auditor")
        desk.bus.serve(DELETE, self._note, server="auditor")
        desk.bus.serve(SYNC, self._note, server="auditor")

    async def _note(self, message: Message) -> None:
        head = message.head
        if head.format == FORMAT:
            self.told_version[head.host] = max(head.version, self.told_version.get(head.host, 0))

    # ---- what happens -------------------------------------------------------------------------

    async def commit(self, *records: Instance | Migration) -> None:
        """Write records, and note the lists that result."""
        version = await self.desk.ledger.write(*map(Put, records))
        await self.note_lists(version)

    async def note_lists(self, version: int) -> None:
        """Note the digests of lists in the ledger that have changed."""
        for name, known in self.history.items():
            digest = await self.digest(name)
            if not known or known[-1][1] != digest:
                known.append((version, digest))

    async def digest(self, name: str) -> bytes:
        """Return the digest of a host's list in the ledger."""
        read = await read_list(self.desk.ledger, name)
        return list_digest((one.resident, one.attributes) for one in read)

    async def instances(self) -> list[Instance]:
        """Return the live instances that have a host."""
        found = await self.desk.ledger.instances(InstanceQuery())
        return [one for one in found if one.host is not None]

    async def place(self) -> None:
        """Have this scheduler place an instance."""
        self.numbers += 1
        order = order_of(make_request(self.numbers))
        try:
            await self.desk.placer.place(order)
        except UnavailableError:
            return
        await self.note_lists(await self.desk.ledger.version())

    async def place_elsewhere(self) -> None:
        """Have another scheduler place an instance."""
        self.numbers += 1
        instance = make_instance(self.numbers, host=self.rng.choice(self.names))
        await self.commit(replace(instance, task=Task.SPAWNING))

    async def change(self) -> None:
        """Change, delete, offload or move a random instance, or go on with its move."""
        found = await self.instances()
        if not found:
            return
        one = self.rng.choice(found)
        move = None
        if one.migration_uuid is not None:
            move = await self.desk.ledger.get(Migration, one.migration_uuid)
        if move is not None:
            await self._move_on(one, move)
            return
        what = self.rng.randrange(5)
        if what == 0:
            await self.commit(replace(one, task=None, status=Status.ACTIVE))
        elif what == 1:
            gone = replace(one, host=None, node=None, status=Status.DELETED, task=None)
            await self.commit(gone)
        elif what == 2:
            await self.commit(replace(one, flavor=make_flavor(self.rng.randrange(1, 4))))
        elif what == 3:
            away = replace(one, host=None, node=None, status=Status.SHELVED_OFFLOADED, task=None)
            await self.commit(away)
        else:
            await self._start_move(one)

    async def _start_move(self, one: Instance) -> None:
        self.numbers += 1
        to = self.rng.choice([name for name in self.names if name != one.host])
        base = make_migration(self.numbers)
        source = Place(one.host or "", one.node or "", one.flavor)
        move = replace(
            base,
            instance_uuid=one.uuid,
            source=source,
            destination=Place(to, to, make_flavor(self.rng.randrange(1, 4))),
        )
        leaving = replace(one, task=Task.RESIZE_MIGRATING, migration_uuid=move.uuid)
        await self.commit(leaving, move)

    async def _move_on(self, one: Instance, move: Migration) -> None:
        to = move.destination
        if move.stage is Stage.LEAVING:
            if self.rng.random() < 0.3:
                failed = replace(move, stage=Stage.FAILED)
                await self.commit(replace(one, task=None, migration_uuid=None), failed)
                return
            there = replace(one, host=to.host, node=to.node, flavor=to.flavor, task=None)
            await self.commit(there, replace(move, stage=Stage.ARRIVED))
            return
        over = replace(move, stage=Stage.CONFIRMED)
        await self.commit(replace(one, migration_uuid=None), over)

    async def restart(self, spoken: int | None = None) -> None:
        """Restart a random agent, as the same version or as another."""
        agent = self.agents[self.rng.choice(self.names)]
        await agent.stop()
        await asyncio.sleep(self.rng.uniform(0, 20))
        await agent.start(agent.spoken if spoken is None else spoken)

    def spoil(self) -> None:
        """Remove a random instance from the table, as a defect of the scheduler would."""
        hosts = self.desk.replica.hosts
        found = sorted(hosts.occupants.by_uuid)
        told = [uuid for uuid in found if not self.desk.replica.is_placed_by_hold(uuid)]
        if told:
            hosts.remove_instance(self.rng.choice(told))

    # ---- the laws -----------------------------------------------------------------------------

    def audit(self, left_out: frozenset[str]) -> None:
        """Check that every list that a decision is about to use is up to date.

        Each list must be that of some version that is not older than its agent's last message.
        """
        assert self.tracker.doubted <= left_out
        view = LedgerView(self.desk.ledger, self.desk.follower, self.desk.replica)
        for name in self.names:
            if name in left_out:
                continue
            told = 0
            if name in view.overlay.hosts:
                told = min(self.told_version[name], view.version)
            elif self.spoilt:
                continue
            else:
                told = view.version
            since = (
                self.tracker._host_messages[name].version if name in view.overlay.hosts else told
            )
            here = view.overlay.residents_on(view.hosts, name, since)
            here_now = list_digest(with_attributes(view.hosts, here))
            assert here_now in self._lists_since(name, told), name

    spoilt = False

    def _lists_since(self, name: str, version: int) -> list[bytes]:
        """Return the digests that a list had at a version and at all later ones."""
        known = self.history[name]
        before = [digest for at, digest in known if at <= version]
        return [*before[-1:], *(digest for at, digest in known if at > version)]

    async def assert_true(self) -> None:
        """Check that no list is in doubt and every list in the table equals the ledger's."""
        await self.desk.follower.catch_up()
        hosts = self.desk.replica.hosts
        assert not self.tracker.doubted
        for name in self.names:
            here = self.desk.replica.overlay.residents_on(hosts, name, hosts.version)
            there = {one.uuid: one.resident for one in await read_list(self.desk.ledger, name)}
            assert here == there, name
            (row,) = hosts.host_names.of_name(name)
            assert int(hosts.num_instances[row]) == len(there)


async def open_world(seed: int, *, by_casts: bool, spoken: int = FORMAT) -> World:
    """Return a world with hosts, a scheduler that follows the ledger, and running agents."""
    rng = Random(seed)
    desk = await open_desk(Fleet(hosts=HOSTS, vcpus=10_000))
    assert isinstance(desk.clock, VirtualClock)
    world = World(desk, rng, by_casts=by_casts)
    await desk.follower.start()
    await world.note_lists(0)
    for agent in world.agents.values():
        await agent.start(spoken)
    return world
