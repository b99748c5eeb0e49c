"""A control plane and the agents of hosts that reach it over sessions, in virtual time."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.remote import Connect, RemoteGateway
from berth.adapters.gateway.session import SessionList
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnsupportedFeatureError
from berth.ports.gateway import VNC_BYTES_MAX, HostView, VncReply, VncRequest
from berth.ports.virt import DiskCounters, GuestDiagnostics
from berth.services.gateway.assignments import Assignments
from berth.services.gateway.identities import HostIdentities
from berth.services.gateway.sessions import SessionServices
from berth.services.replica.liveness import Liveness
from berth.testing.builders import make_instance, make_uuid
from tests.unit.adapters.gateway.pipe import connect_pipe
from tests.unit.services.wiring import Desk, Fleet, open_desk, running

DIAGNOSTICS = GuestDiagnostics(
    "fake", (5,), memory_kb=8, memory_used_kb=7, disks=(DiskCounters("vda", 1, 2, 3, 4, 5),)
)


class KnownAnswers:
    """Answers the queries about a host with fixed values."""

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """Return the arguments."""
        return f"{instance_uuid} {bytes_max}"

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """Return the same for each guest except a missing one."""
        if instance_uuid == "missing":
            raise DriverError("guest missing does not exist")
        return DIAGNOSTICS

    async def vnc(self, request: VncRequest) -> VncReply:
        """Return the bytes that are sent, or the most bytes that there may be."""
        return VncReply(request.data or bytes(VNC_BYTES_MAX))

    async def uptime(self) -> str:
        """Raise the error of a driver without an uptime."""
        raise UnsupportedFeatureError("the driver does not know the uptime")


class Agent:
    """The agent's end of a session, and what it has received."""

    def __init__(
        self, plane: "Plane", host: str, key: HostKeyFile, connect: Connect | None = None
    ) -> None:
        self.host, self.key, self.plane = host, key, plane
        self.views: list[HostView] = []
        self.prepared = 0
        self.gateway = RemoteGateway(
            host,
            connect or (lambda: connect_pipe(plane.sessions)),
            key,
            plane.desk.clock,
            plane.desk.told,
            Random(1),
            session=f"session-{host}",
            deletes_disks=True,
        )

    async def _prepare(self) -> None:
        self.prepared += 1

    async def run(self) -> None:
        """Keep the session open."""
        await self.gateway.run(self._prepare, self.views.append, KnownAnswers())

    @property
    def seen(self) -> dict[str, Instance]:
        """The latest record of each instance that the agent was told of."""
        return {one.uuid: one for view in self.views for one in view.instances}


class Plane:
    """The control plane."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk, self.folder = desk, folder
        self.assignments = Assignments(desk.ledger, desk.replica)
        self.identities = HostIdentities(desk.ledger, desk.clock, os.urandom)
        gateway = make_uuid("gateway", 2)
        self.liveness = Liveness(desk.ledger, desk.replica, desk.clock, desk.told, gateway=gateway)
        desk.follower.subscribers += [self.assignments, self.identities]
        services = SessionServices(
            desk.gateway(), self.assignments, self.identities, self.liveness, desk.bus
        )
        self.sessions = SessionList(services, desk.clock, desk.told, os.urandom)
        self.identities.changed = self.sessions.check_keys

    async def agent(self, host: str) -> Agent:
        """Enroll a host and return its agent."""
        key = HostKeyFile.create(self.folder / f"{host}.key")
        token = await self.identities.enroll(host)
        await self.identities.redeem(host, token, key.public_key)
        await self.desk.follower.catch_up()
        return Agent(self, host, key)

    @asynccontextmanager
    async def running(self, *agents: Agent) -> AsyncIterator[None]:
        """Run the follower and the sessions of agents, from when they are connected."""
        loops = [agent.run for agent in agents]
        async with running(self.desk.follower.run, *loops):
            await asyncio.sleep(1)
            yield


async def open_plane(folder: Path, hosts: int = 2) -> Plane:
    """Return a control plane with some hosts in the ledger."""
    desk = await open_desk(Fleet(hosts=hosts))
    plane = Plane(desk, folder)
    await desk.follower.start()
    return plane


def vm(number: int = 1, host: str | None = "host-1") -> Instance:
    """Return an instance on a host."""
    return make_instance(number, host=host)
