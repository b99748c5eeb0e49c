"""Agents: one a host; many can live in one process and share its feed and its heartbeats."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berth.domain.change import Change, Snapshot
from berth.domain.errors import BerthError, BuildError
from berth.domain.instance import Instance, Status, Task
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.ports.virt import Driver
from berth.services.building import Building
from berth.services.hosts import Hosts

_RETRY_S = 1.0
_NO_MORE_NEWS = sys.maxsize


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one host: its driver, and how it carries out tasks with it."""

    host: str
    driver: Driver
    building: Building


class AgentPool:
    """Runs agents: a subscriber of the feed that hands each instance to its host's agent.

    An instance is worked on by one task at a time. What is still to be done when the process
    starts is found in the snapshot.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        hosts: Hosts,
        clock: Clock,
        telemetry: Telemetry,
        *,
        report_interval_s: float = 10.0,
        builds_max: int = 256,
    ) -> None:
        self._agents = dict(agents)
        self._hosts = hosts
        self._clock = clock
        self._telemetry = telemetry
        self._report_interval_s = report_interval_s
        self._slots = asyncio.Semaphore(builds_max)
        self._at_work: dict[str, int] = {}
        """The newest revision that the feed has told of each instance that is worked on."""
        self._done: dict[str, int] = {}
        """Revisions that instances are done with and that the feed is yet to tell."""
        self._todo: dict[str, Instance] = {}
        self._active: list[Instance] | None = []
        """What is to be adopted; None when that was done."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def register(self) -> None:
        """Report every host with its inventory to the ledger."""
        await self._hosts.register([await one.driver.report() for one in self._agents.values()])

    async def run(self) -> None:
        """Send heartbeats for ever."""
        while True:
            await self._clock.sleep(self._report_interval_s)
            try:
                await self._hosts.heartbeat(sorted(self._agents))
            except BerthError as error:
                self._telemetry.failure("heartbeat_failed", error)

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`. Work that is going on goes on."""
        live = {instance.uuid for instance in snapshot.instances}
        self._done = {uuid: done for uuid, done in self._done.items() if uuid in live}
        for uuid in self._at_work.keys() - live:
            self._at_work[uuid] = _NO_MORE_NEWS
        for instance in snapshot.instances:
            self._consider(instance)
        if self._active is not None:
            self._active = [one for one in snapshot.instances if self._should_run(one)]

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            if isinstance(change.event, Instance):
                self._consider(change.event)

    async def adopt(self) -> None:
        """Have the drivers run what the snapshot said is active on their hosts.

        That may take long and is not waited for; whatever comes for an instance meanwhile waits
        for its turn.
        """
        for instance in self._active or ():
            if instance.uuid not in self._at_work:
                self._start(instance)
        self._active = None

    async def close(self) -> None:
        """Stop working; what is not finished is found again at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _should_run(self, instance: Instance) -> bool:
        here = instance.host in self._agents
        return here and instance.status is Status.ACTIVE and instance.task is None

    def _consider(self, instance: Instance) -> None:
        uuid = instance.uuid
        if uuid in self._at_work:
            self._at_work[uuid] = instance.revision
        elif instance.revision < self._done.get(uuid, 0):
            return
        # A server may be deleted without its agent, when that was down: it is destroyed here.
        gone = instance.status is Status.DELETED and instance.revision > self._done.get(uuid, 0)
        if uuid not in self._at_work:
            self._done.pop(uuid, None)
        to_do = gone or instance.task in (Task.SPAWNING, Task.DELETING)
        if to_do and instance.host in self._agents:
            self._start(instance)

    def _start(self, instance: Instance) -> None:
        """Work on an instance, now or when the work that is going on with it is done."""
        uuid = instance.uuid
        self._todo[uuid] = instance
        if uuid not in self._at_work:
            self._at_work[uuid] = instance.revision
            task = asyncio.create_task(self._work(uuid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, uuid: str) -> None:
        done, has_failed = 0, False
        while (instance := self._todo.pop(uuid, None)) is not None:
            if instance.revision < done:
                continue
            agent = self._agents[instance.host or ""]
            in_doubt = has_failed or instance.task is None
            try:
                async with self._slots:
                    done = await agent.building.carry_out(instance, in_doubt=in_doubt)
                has_failed = False
            except BuildError as error:
                self._telemetry.failure("adoption_failed", error, instance=uuid, host=agent.host)
            except Exception as error:  # noqa: BLE001 - a driver may fail in any way; try again
                self._telemetry.failure("task_failed", error, instance=uuid, host=agent.host)
                await self._clock.sleep(_RETRY_S)
                self._todo.setdefault(uuid, instance)
                has_failed = True
        if done > self._at_work.pop(uuid):
            self._done[uuid] = done
