"""Agents without a ledger: each host has its own session with the control plane."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from berth.adapters.gateway.remote import RemoteGateway
from berth.adapters.system import LogTelemetry, RandomIds, SystemClock
from berth.agent.audit_rounds import AuditRounds
from berth.agent.instance_casts import InstanceCaster
from berth.agent.isolation import Isolation
from berth.agent.pool import AgentPool
from berth.agent.vnc_channels import HostConsoles
from berth.app.agent_links import HostLink, link_maker
from berth.app.agents import agent_of, pace_of
from berth.app.core import stop_signals
from berth.app.observability import Observation, observe
from berth.app.run import Loop, run_process, running
from berth.app.virt import open_drivers
from berth.config.settings import Settings
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.gateway import HostView
from berth.ports.virt import DriverFeature, VirtDriver
from berth.services.replica.follower import Subscriber
from berth.services.telemetry.health import SessionHealth

# An agent is out of touch when the control plane has been silent for this many heartbeats, of which
# it answers every second or third.
_TOUCH_BEATS: Final = 3


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The objects that the agents of one process share."""

    settings: Settings
    clock: SystemClock
    telemetry: LogTelemetry
    ids: RandomIds
    observation: Observation


class HostFeed:
    """Hands the views of one host to subscribers, as a follower hands out the change feed.

    Args:
        subscribers: receive the views.
        clock: provides the time at which a complete view is taken.
    """

    def __init__(self, subscribers: Sequence[Subscriber], clock: SystemClock) -> None:
        self._subscribers = subscribers
        self._clock = clock

    def take(self, view: HostView) -> None:
        """Hand out a view."""
        if view.is_complete:
            snapshot = Snapshot(
                view.version,
                self._clock.now_s(),
                instances=view.instances,
                migrations=view.migrations,
            )
            for subscriber in self._subscribers:
                subscriber.load(snapshot)
            return
        events: tuple[Migration | Instance, ...] = (*view.migrations, *view.instances)
        changes = [Change(view.version, event) for event in events]
        for subscriber in self._subscribers:
            subscriber.apply(changes)


class RemoteAgent:
    """The agent of one host, with its session.

    Args:
        name: the name of the host.
        driver: the driver of the host.
        link: reaches the control plane.
        parts: the objects that all agents of the process share.

    Raises:
        InvalidInputError: `agent.isolated_pause_s` is not 0, but the driver cannot pause guests.
    """

    def __init__(self, name: str, driver: VirtDriver, link: HostLink, parts: AgentParts) -> None:
        settings, clock = parts.settings, parts.clock
        session = parts.ids.uuid()
        self.name = name
        self.driver = driver
        self._clock = clock
        self._touch_s = _TOUCH_BEATS * settings.agent.heartbeat_interval_s
        self.gateway = RemoteGateway(
            name,
            link.connect,
            link.key,
            clock,
            parts.telemetry,
            random.Random(),  # noqa: S311 - it only spreads reconnections over time
            session=session,
            deletes_disks=DriverFeature.DISKS in driver.verbs,
            pins=link.pins,
        )
        agent = agent_of(name, driver, self.gateway, clock, settings, parts.observation.observer)
        self.pool = AgentPool(
            {name: agent},
            self.gateway,
            clock,
            parts.telemetry,
            pace_of(settings.agent),
            is_in_touch=self._is_in_touch,
        )
        subscribers: list[Subscriber] = [self.pool]
        self.caster: InstanceCaster | None = None
        if settings.tracking.track_instance_changes:
            self.caster = InstanceCaster(
                [name],
                self.gateway,
                clock,
                parts.telemetry,
                random.Random(),  # noqa: S311 - it only spreads the casts of hosts over time
                session=session,
                sync_interval_s=settings.tracking.instance_sync_interval_s,
            )
            subscribers.append(self.caster)
        self._feed = HostFeed(subscribers, clock)
        self._consoles = HostConsoles(name, driver, clock)
        self._isolation = self._isolation_of(parts)
        self._is_adopted = False
        self.rounds = self._rounds(parts)

    def is_connected(self) -> bool:
        """Return whether the host has a session."""
        return self.gateway.is_connected

    def _rounds(self, parts: AgentParts) -> AuditRounds:
        return AuditRounds(
            [self.name],
            self._audit,
            parts.clock,
            parts.telemetry,
            interval_s=parts.settings.agent.audit_interval_s,
            randomness=random.Random(),  # noqa: S311 - it only spreads the audits over time
        )

    def _isolation_of(self, parts: AgentParts) -> Isolation | None:
        pause_s = parts.settings.agent.isolated_pause_s
        if not pause_s:
            return None
        if DriverFeature.PAUSE not in self.driver.verbs:
            reason = f"must be 0, not {pause_s:g}, because the driver cannot pause guests"
            raise InvalidInputError("agent.isolated_pause_s", reason)
        return Isolation(
            self.name,
            self.driver,
            self.gateway,
            parts.clock,
            parts.telemetry,
            silent_s=self.gateway.silent_s,
            pause_s=pause_s,
        )

    def _is_in_touch(self) -> bool:
        return self.gateway.silent_s() <= self._touch_s

    async def run(self) -> None:
        """Keep the session open until cancelled."""
        await self.gateway.run(self.pool.register, self._take, self._consoles)

    def loops(self) -> list[Loop]:
        """Return the background loops of the agent."""
        loops: list[Loop] = [
            (f"session of {self.name}", self.run),
            (f"agent of {self.name}", self.pool.run),
            (f"audits of {self.name}", self.rounds.run),
        ]
        if self.caster is not None:
            loops += [(f"casts of {self.name}", self.caster.run)]
            loops += [(f"syncs of {self.name}", self.caster.sync)]
        if DriverFeature.EVENTS in self.driver.verbs:
            loops.append((f"events of {self.name}", self.pool.listen))
        if self._isolation is not None:
            loops.append((f"isolation of {self.name}", self._isolation.run))
        return loops

    def _take(self, view: HostView) -> None:
        self._feed.take(view)
        if view.is_complete and not self._is_adopted:
            # The first view shows which guests should run; the pool starts those that do not.
            self._is_adopted = True
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.pool.adopt()))

    async def _audit(self, _: str) -> None:
        if self.gateway.is_connected:
            await self.gateway.report(await self.driver.report())


def run_remote_agents(settings: Settings) -> None:
    """Run the agents of one host, or of a simulated fleet, without access to the ledger.

    Raises:
        InvalidInputError: a setting is invalid, or a file or an address that it names cannot be
            used.
    """

    async def main() -> None:
        url = settings.agent.gateway_url or ""
        clock, telemetry = SystemClock(), LogTelemetry("agent")
        link_of = link_maker(settings)
        observation = observe(settings, "agent", clock, telemetry)
        parts = AgentParts(settings, clock, telemetry, RandomIds(), observation)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, observation.finish)
            drivers = await stack.enter_async_context(open_drivers(settings, clock))
            if not drivers:
                reason = "is missing; name a host with --host, or use --fake-hosts"
                raise InvalidInputError("agent.host", reason)
            agents = [
                RemoteAgent(name, driver, link_of(name), parts) for name, driver in drivers.items()
            ]
            loops = [loop for agent in agents for loop in agent.loops()]
            loops += observation.loops(
                SessionHealth([agent.is_connected for agent in agents], clock)
            )
            stopped = stop_signals()
            telemetry.event("agents_started", hosts=len(agents), gateway=url)
            async with running(loops, clock, telemetry):
                await stopped.wait()
            for agent in agents:
                await agent.pool.close()

    run_process(settings.log, main)
