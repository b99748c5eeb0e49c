"""The complete API with agents on fake hosts, in virtual time."""

import asyncio
from dataclasses import replace

from berth.adapters.virt.fake import DriverFaults, FakeDriver, FakeHost, FakeMachine, FakeNetwork
from berth.agent.executor import HostContext, HostExecutor
from berth.agent.pool import Agent, AgentPool
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.ledger.write import Put
from berth.services.placement.pending_requests import PendingRequests
from berth.testing.virtual_time import VirtualClock
from tests.gateways import make_gateway
from tests.unit.api.cloud import Answer, FakeClock, Json, Stack
from tests.unit.services.wiring import running

OWNER = "alice:web"
OTHER = "bob:shop"
NEWEST = "2.96"
SLOW = DriverFaults(
    delay_s=dict.fromkeys(("stop", "offer_disks", "fetch_disks", "take_in", "hand_over"), 5.0)
)
"""Each step of a move takes five seconds."""


class _RunningClock(FakeClock):
    """A clock that shows the time of the virtual loop."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = VirtualClock()

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        return self._clock.now_s()

    def ticks_ns(self) -> int:
        """Return a monotonic count of nanoseconds."""
        return self._clock.ticks_ns()

    async def sleep(self, seconds: float) -> None:
        """Wait for this time of the virtual loop."""
        await self._clock.sleep(seconds)


class Staffed(Stack):
    """A deployment with an API whose hosts have agents."""

    def __init__(self) -> None:
        super().__init__(clock=_RunningClock())
        self.network = FakeNetwork()
        self.machines: dict[str, FakeMachine] = {}
        self.pool: AgentPool
        self.pending = PendingRequests(
            ledger=self.ledger,
            replica=self.replica,
            placer=self.placer,
            clock=self.clock,
            telemetry=self.told,
        )

    async def man(self, faults: DriverFaults | None, *, offloads: bool) -> None:
        """Start an agent for each host."""
        agents: dict[str, Agent] = {}
        gateway = make_gateway(
            ledger=self.ledger,
            clock=self.clock,
            hosts=self.hosts,
            replica=self.replica,
            telemetry=self.told,
        )
        for service in await self.ledger.all(Service):
            name = service.host
            self.machines[name] = FakeMachine(name)
            fake = FakeHost(name, faults=faults or DriverFaults())
            driver = FakeDriver(fake, self.clock, self.machines[name], self.network)
            context = HostContext(name, gateway, driver, self.clock, offloads=offloads)
            agents[name] = Agent(name, driver, HostExecutor(context))
        self.pool = AgentPool(agents, gateway, self.clock, self.told)
        self.follower.subscribers.append(self.pool)
        await self.follower.start()
        await self.pool.adopt()

    async def close(self) -> None:
        """Close the agents and the ledger."""
        await self.pool.close()
        await self.ledger.close()

    async def work(self, seconds: float = 120.0) -> None:
        """Let schedulers and agents work for this many seconds."""
        async with running(self.follower.run, self.pending.run, self.pool.run):
            await asyncio.sleep(seconds)

    async def act(
        self,
        uuid: str,
        action: str,
        args: object = None,
        *,
        version: str = NEWEST,
        token: str | None = None,
    ) -> Answer:
        """Request an action on a server."""
        path = f"/v2.1/servers/{uuid}/action"
        return await self.ask("POST", path, {action: args}, version=version, token=token)

    async def done(self, uuid: str, action: str, args: object = None) -> Json:
        """Request an action, wait until it is complete, and return the server."""
        answer = await self.act(uuid, action, args, version="2.94")
        assert answer.status in {200, 202, 204}, answer.body
        await self.work()
        return await self.show(uuid)

    async def built(self, *, token: str | None = OWNER, **values: object) -> str:
        """Create a server, wait until it is active, and return its id."""
        uuid = await self.server(token=token, **values)
        await self.work()
        server = await self.show(uuid)
        assert server["status"] == "ACTIVE", server
        return uuid

    async def show(self, uuid: str, *, version: str = NEWEST, token: str | None = None) -> Json:
        """Return a server as the API shows it."""
        answer = await self.ask("GET", f"/v2.1/servers/{uuid}", version=version, token=token)
        assert answer.status == 200, answer.body
        found: Json = answer.body["server"]
        return found

    async def states(self, uuid: str) -> tuple[str, str, int, str | None]:
        """Return status, vm_state, power_state and task_state of a server."""
        server = await self.show(uuid)
        ext = "OS-EXT-STS"
        return (
            server["status"],
            server[f"{ext}:vm_state"],
            server[f"{ext}:power_state"],
            server[f"{ext}:task_state"],
        )

    async def host_of(self, uuid: str) -> str:
        """Return the name of a server's host."""
        host: str = (await self.show(uuid))["OS-EXT-SRV-ATTR:host"]
        return host

    async def force(self, uuid: str, **fields: object) -> None:
        """Change fields of an instance in the ledger."""
        instance = await self.ledger.get(Instance, uuid)
        assert instance is not None
        await self.ledger.commit([(Put(replace(instance, **fields)),)])  # type: ignore[arg-type]

    async def take_down(self, host: str) -> None:
        """Force the service of a host down."""
        service = await self.ledger.get(Service, host)
        assert service is not None
        await self.ledger.commit([(Put(replace(service, forced_down=True)),)])
        await self.follower.catch_up()


async def open_staffed(
    hosts: int = 3, *, faults: DriverFaults | None = None, offloads: bool = True
) -> Staffed:
    """Return a deployment with agents on `host-0` etc., and the flavors `small` and `large`."""
    cloud = Staffed()
    await cloud.start(hosts)
    await cloud.man(faults, offloads=offloads)
    await cloud.flavor()
    await cloud.flavor("large", vcpus=4, ram=8192)
    return cloud
