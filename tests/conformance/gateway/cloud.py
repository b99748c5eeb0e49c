"""A control plane in real time, and agents that reach it in any of the ways."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from berth.adapters.gateway.remote import FrameStream
from berth.domain.compute.instance import Instance
from berth.domain.ledger.write import Put
from berth.ports.gateway import HostGateway, HostView
from berth.services.servers.consoles import CONSOLE, ConsoleAsked
from tests.conformance.gateway.transports import Transport
from tests.unit.adapters.gateway.rig import Agent, KnownAnswers, Plane
from tests.unit.services.wiring import running

_WITHIN_S = 60.0


class HostAgent(Protocol):
    """What an agent of a host has: the gateway, and the views that it receives."""

    views: list[HostView]

    @property
    def gateway(self) -> HostGateway:
        """The gateway, which is the same port in every process."""
        ...

    @property
    def seen(self) -> dict[str, Instance]:
        """The latest record of each instance that the agent was told of."""
        ...


class NearAgent:
    """An agent in the process of the control plane, which uses the gateway in memory."""

    def __init__(self, plane: Plane) -> None:
        self.views: list[HostView] = []
        self._plane = plane

    @property
    def gateway(self) -> HostGateway:
        """See `HostAgent.gateway`."""
        return self._plane.sessions.services.gateway

    @property
    def seen(self) -> dict[str, Instance]:
        """See `HostAgent.seen`."""
        return {one.uuid: one for view in self.views for one in view.instances}


class Way(Protocol):
    """A way in which agents reach the control plane."""

    def joined(self, host: str) -> AbstractAsyncContextManager[HostAgent]:
        """Enroll a host, and run its agent from when it has its first view."""
        ...


class NearWay:
    """The way of `berth up`: the agents are in the same process."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    @asynccontextmanager
    async def joined(self, host: str) -> AsyncGenerator[HostAgent]:
        """See `Way.joined`."""
        agent, services = NearAgent(self._plane), self._plane.sessions.services
        stop = await services.watch(host, agent.views.append, deletes_disks=True)
        hang_up = services.serve_queries(host, KnownAnswers())
        try:
            yield agent
        finally:
            hang_up()
            stop()


class FarWay:
    """The way of separate processes: a session over a transport."""

    def __init__(self, plane: Plane, transport: Transport) -> None:
        self.plane, self.transport = plane, transport

    async def enrolled(self, host: str) -> Agent:
        """Enroll a host and return its agent, which does not run yet."""
        agent = await self.plane.agent(host)
        return Agent(self.plane, host, agent.key, self.transport.connect(host, agent.key))

    @asynccontextmanager
    async def joined(self, host: str) -> AsyncGenerator[Agent]:
        """See `Way.joined`."""
        agent = await self.enrolled(host)
        async with self.running(agent):
            yield agent

    @asynccontextmanager
    async def running(self, agent: Agent) -> AsyncGenerator[None]:
        """Run an agent from when it has its first view."""
        async with running(agent.run):
            await until(lambda: agent.views)
            yield

    def stream(self, agent: Agent) -> AbstractAsyncContextManager[FrameStream]:
        """Open a connection of an agent, for tests that send single frames."""
        return self.transport.connect(agent.host, agent.key)()


async def read_console(plane: Plane, host: str, instance_uuid: str) -> str:
    """Return the last 7 bytes of a console, which the API asks for over the bus."""
    asked = ConsoleAsked(instance_uuid, 7)
    return (await plane.desk.bus.call(CONSOLE, asked, timeout_s=5, server=host)).text


async def put(plane: Plane, instance: Instance) -> Instance:
    """Write an instance at its current revision, and return it."""
    ledger = plane.desk.ledger
    before = await ledger.get(Instance, instance.uuid)
    await ledger.write(Put(replace(instance, revision=before.revision if before else 0)))
    found = await ledger.get(Instance, instance.uuid)
    assert found is not None
    return found


async def until(is_so: Callable[[], object]) -> None:
    """Wait until `is_so` returns something true, or raise TimeoutError after a minute."""
    async with asyncio.timeout(_WITHIN_S):
        while not is_so():  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.01)


async def repeated(call: Callable[[], Awaitable[object]], error: type[Exception]) -> object:
    """Repeat a call until it raises no such error, and return its result."""
    async with asyncio.timeout(_WITHIN_S):
        while True:
            try:
                return await call()
            except error:
                await asyncio.sleep(0.02)
