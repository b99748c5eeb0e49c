"""A ledger, a scheduler and the agents of several hosts in one process and virtual time."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from berth.adapters.virt.fake import FakeDriver, FakeHost, FakeMachine, FakeNetwork
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.pool import Agent, AgentPool
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action, Caller
from berth.domain.compute.migration import Migration
from berth.domain.compute.request import Request
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.write import Put
from berth.ports.ledger import InstanceQuery, MigrationQuery
from berth.services.servers.operations import Operations
from berth.testing.builders import make_flavor, make_request
from tests.unit.services.wiring import Desk, Fleet, TappedLedger, open_desk, order_of, running

DOWN_S = 60.0
_ALL = InstanceQuery(deleted=None)
BIG = make_flavor(2)
"""A second flavor."""


def caller(number: int = 1, *, is_admin: bool = True) -> Caller:
    """Return a caller with the request id `req-ask-N`."""
    return Caller(f"req-ask-{number}", "project-1", "user-1", is_admin)


class Town:
    """A ledger, a scheduler, and the agents and fake machines of its hosts."""

    def __init__(self, desk: Desk, fakes: Mapping[str, FakeHost], **settings: bool) -> None:
        self.desk = desk
        self.ledger: TappedLedger = desk.ledger
        self.network = FakeNetwork()
        self.machines = {name: FakeMachine(name) for name in fakes}
        self.fakes = dict(fakes)
        self.offloads = settings.pop("offloads", True)
        self.resizes_in_place = settings.pop("resizes_in_place", False)
        assert not settings
        self.operations = self._operations()
        self.drivers: dict[str, FakeDriver] = {}
        self.pool = self._pool(fakes)

    def _operations(self) -> Operations:
        return Operations(
            ledger=self.ledger,
            replica=self.desk.replica,
            clock=self.desk.clock,
            resizes_in_place=self.resizes_in_place,
            liveness=self.desk.liveness,
        )

    def _pool(self, fakes: Mapping[str, FakeHost]) -> AgentPool:
        agents: dict[str, Agent] = {}
        self.gateway = self.desk.gateway()
        for name, fake in fakes.items():
            driver = FakeDriver(fake, self.desk.clock, self.machines[name], self.network)
            self.drivers[name] = driver
            context = HostContext(
                name, self.gateway, driver, self.desk.clock, offloads=self.offloads
            )
            agents[name] = Agent(name, driver, HostExecutor(context))
        desk = self.desk
        pool = AgentPool(agents, self.gateway, desk.clock, desk.told)
        self.desk.follower.subscribers.append(pool)
        return pool

    async def work(self, seconds: float = 120.0) -> None:
        """Let the scheduler and the agents work for a while."""
        async with running(
            self.desk.follower.run, self.desk.pending.run, self.desk.liveness.run, self.pool.run
        ):
            await asyncio.sleep(seconds)

    async def create(self, request: Request | None = None) -> Instance:
        """Place the request's instances, wait until they are built, and return the first."""
        request = request or make_request(1)
        order = order_of(request)
        group = request.group_uuid
        members = tuple(replace(one, group_uuid=group) for one in order.instances)
        await self.desk.placer.place(replace(order, instances=members))
        await self.work()
        return await self.get(request.instance_uuids[0])

    async def get(self, uuid: str) -> Instance:
        """Return an instance as recorded in the ledger."""
        found = await self.ledger.get(Instance, uuid)
        assert found is not None
        return found

    every = MigrationQuery()

    async def migration(self, number: int = 0) -> Migration:
        """Return the n-th migration, newest first."""
        return (await self.ledger.migrations(self.every))[number]

    async def action(self, instance: Instance) -> Action:
        """Return the newest action of an instance."""
        return (await self.ledger.actions(instance.uuid))[0]

    async def flavor(self, vcpus: int = 2) -> None:
        """Store the second flavor, with the given number of VCPUs, in the ledger."""
        await self.ledger.write(Put(replace(BIG, vcpus=vcpus)))

    def guests(self) -> dict[str, list[str]]:
        """Return the power states of the guests by host, leaving out hosts without guests."""
        return {
            name: [str(guest.power) for _, guest in sorted(machine.guests.items())]
            for name, machine in self.machines.items()
            if machine.guests
        }

    async def used(self) -> dict[str, int]:
        """Return the VCPUs in use by host, without zeros."""
        found = {
            name: await self.ledger.used(int(name.removeprefix("host-"))) for name in self.fakes
        }
        return {name: used[VCPU] for name, used in found.items() if used.get(VCPU)}

    async def held(self) -> int:
        """Return the number of consumers with allocations."""
        return len({one.consumer_uuid for one in await self.ledger.allocations()})

    async def kill(self, host: str) -> None:
        """Force the service of a host down and end its agent; its guests keep running."""
        service = await self.ledger.get(Service, host)
        assert service is not None
        await self.ledger.write(Put(replace(service, forced_down=True)))
        rest = {name: fake for name, fake in self.fakes.items() if name != host}
        await self.restart(rest)

    async def restart(self, fakes: Mapping[str, FakeHost]) -> None:
        """End all agents and start those of the given hosts on the same machines."""
        await self.pool.close()
        self.desk = Desk(self.ledger)
        self.operations = self._operations()
        self.pool = self._pool(fakes)
        await self.desk.follower.start()
        await self.desk.liveness.share()
        await self.pool.adopt()

    async def assert_settled(self) -> None:
        """Check that no task is in progress and that the replica equals a fresh one."""
        for instance in await self.ledger.instances(_ALL):
            assert instance.task is None, instance
            assert instance.action is None, instance
        await self.desk.follower.catch_up()
        other = Desk(self.ledger)
        await other.follower.start()
        for number in range(1, len(self.machines) + 1):
            assert self.desk.used(number) == other.used(number)
            assert self.desk.instances_on(number) == other.instances_on(number)
        assert not self.desk.told.failures, self.desk.told.failures


async def open_town(*fakes: FakeHost, hosts: int = 3, vcpus: int = 16, **settings: bool) -> Town:
    """Return a town with hosts `host-1` and so on, and an agent for each of them."""
    desk = await open_desk(Fleet(hosts=hosts, vcpus=vcpus))
    named = {f"host-{number}": FakeHost(f"host-{number}") for number in range(1, hosts + 1)}
    town = Town(desk, named | {fake.name: fake for fake in fakes}, **settings)
    await desk.follower.start()
    await town.pool.adopt()
    return town
