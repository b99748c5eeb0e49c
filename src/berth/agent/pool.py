"""The pool of agents: one agent per host, which share changes, heartbeats and limits."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from berth.agent.executor import HostExecutor
from berth.agent.executor.leftovers import HostFinding
from berth.agent.executor.reconciliation import ENDED, HostAnomaly
from berth.agent.executor.restarts import RestartRule, Restarts
from berth.agent.leftover_pauses import LeftoverPauses
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance, Status, order_id_of
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.server_image import image_in_progress
from berth.domain.compute.turns import has_leftover, has_turn
from berth.domain.errors import BerthError
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.bus import CONTEXT, Context
from berth.ports.clock import Clock
from berth.ports.gateway import HostGateway, HostNote
from berth.ports.telemetry import Telemetry
from berth.ports.virt import DriverFeature, VirtDriver

_RETRY_S = 1.0
_NS_PER_S = 1_000_000_000
_NO_MORE_NEWS = sys.maxsize
_RUNNING = frozenset({Status.ACTIVE, Status.RESIZED, Status.RESCUED})


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one host: its driver, and the executor of its tasks."""

    host: str
    driver: VirtDriver
    executor: HostExecutor


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals and limits of the agents.

    Attributes:
        report_interval_s: seconds between heartbeats.
        reconcile_interval_s: seconds between two reconciliations of a host.
        hint_delay_s: seconds from a driver's event to the reconciliation of its host.
        builds_max: the maximum number of tasks that run simultaneously in the process.
        restarts: the rule for restarting crashed guests.
    """

    report_interval_s: float = 10.0
    reconcile_interval_s: float = 600.0
    hint_delay_s: float = 1.0
    builds_max: int = 256
    restarts: RestartRule = field(default_factory=RestartRule)


_PACE = Pace()


def _always() -> bool:
    return True


class AgentPool:
    """Runs agents: follows committed changes, and hands each instance to its host's agent.

    Only one asyncio task at a time works on an instance. A new process finds the pending tasks in
    its first snapshot.

    Args:
        agents: the agents by host.
        gateway: reaches the control plane.
        clock: provides the time.
        telemetry: receives failures and findings.
        pace: intervals and limits.
        is_in_touch: returns whether the control plane was heard from recently. If not, it may have
            given up on the host, so the agent asks it before a task begins: the guest may be
            running elsewhere.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        gateway: HostGateway,
        clock: Clock,
        telemetry: Telemetry,
        pace: Pace = _PACE,
        *,
        is_in_touch: Callable[[], bool] = _always,
    ) -> None:
        self._agents = dict(agents)
        # The one host whose agent deletes the stored disks of instances on no host.
        self._disk_hosts = [
            name for name, one in self._agents.items() if DriverFeature.DISKS in one.driver.verbs
        ][:1]
        self._gateway = gateway
        self._clock = clock
        self._telemetry = telemetry
        self._pace = pace
        self._is_in_touch = is_in_touch
        self._slots = asyncio.Semaphore(pace.builds_max)
        # For each instance that a task works on, the newest revision that the feed has delivered.
        self._in_progress: dict[str, int] = {}
        # For instances that are ahead of the feed, the revision up to which no work remains.
        self._done: dict[str, int] = {}
        # The record of each instance to work on next, and the host that must act.
        self._queued: dict[str, tuple[Instance, str]] = {}
        # The moves under way that involve hosts of this process, by uuid.
        self._moves: dict[str, Migration] = {}
        # Moves that have left a guest here, by instance.
        self._leftover_moves: dict[str, list[Migration]] = {}
        # The anomalies of each instance, by host and aspect.
        self._anomalies: dict[str, dict[tuple[str, str], HostAnomaly]] = {}
        self._restarts = Restarts(pace.restarts)
        self._pauses = LeftoverPauses(clock, pace.reconcile_interval_s)
        # Instances whose crashed guests wait for their restart.
        self._delayed: set[str] = set()
        # The instances to adopt after the start; None once the adoption has begun.
        self._active: list[Instance] | None = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by host."""
        return self._agents

    async def register(self) -> None:
        """Report every host with its inventory to the control plane."""
        await self._gateway.register([await one.driver.report() for one in self._agents.values()])

    async def listen(self) -> None:
        """Compare the guests of hosts soon after events of their drivers, until cancelled."""
        hinted: dict[str, None] = {}  # a set that keeps the order of the events
        came = asyncio.Event()

        async def follow(agent: Agent) -> None:
            async for _ in agent.driver.events():
                hinted[agent.host] = None
                came.set()

        async with asyncio.TaskGroup() as group:
            for agent in self._agents.values():
                if DriverFeature.EVENTS in agent.driver.verbs:
                    group.create_task(follow(agent))
            while True:
                await came.wait()
                # Most events are caused by the agents' own tasks, whose outcomes should be reported
                # first.
                await self._clock.sleep(self._pace.hint_delay_s)
                came.clear()
                for host in list(hinted):
                    del hinted[host]
                    await self._compare_guests(host)

    async def run(self) -> None:
        """Send heartbeats and reconcile the hosts in turn, until cancelled."""
        rounds = deque(self._agents)
        due = 0.0
        while True:
            await self._clock.sleep(self._pace.report_interval_s)
            # Only a few hosts are reconciled after each heartbeat. All hosts of a large pool
            # together would occupy the slots that tasks need.
            due += len(rounds) * self._pace.report_interval_s / self._pace.reconcile_interval_s
            for _ in range(min(int(due), len(rounds))):
                self._spawn(self._reconcile(rounds[0]))
                rounds.rotate(-1)
            due -= int(due)
            try:
                await self._gateway.heartbeat(sorted(self._agents))
            except BerthError as error:
                self._telemetry.failure("heartbeat_failed", error)

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`. Tasks in progress continue.

        The control plane may have given a host up before this snapshot, so each host is compared
        with it: a guest that runs elsewhere now is destroyed immediately.
        """
        live = {instance.uuid for instance in snapshot.instances}
        self._done = {uuid: done for uuid, done in self._done.items() if uuid in live}
        # Instances that the snapshot lacks are gone, so no newer revision of them will come.
        for uuid in self._in_progress.keys() - live:
            self._in_progress[uuid] = _NO_MORE_NEWS
        self._moves = {}
        for migration in snapshot.migrations:
            self._note_move(migration)
        for instance in snapshot.instances:
            self._consider(instance)
        if self._active is not None:
            self._active = [one for one in snapshot.instances if self._should_run(one)]
        else:
            self._compare_all(snapshot.instances)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        touched: dict[str, Instance] = {}
        for change in changes:
            if isinstance(change.event, Instance):
                touched[change.event.uuid] = change.event
            elif isinstance(change.event, Migration):
                self._note_move(change.event)
        # All moves are noted before any instance is considered: a version contains both in any
        # order, and the move determines which host must act for its instance.
        for instance in touched.values():
            self._consider(instance)

    async def adopt(self) -> None:
        """Reconcile each host in the background, to start the guests that should run but do not.

        The instances are those of the snapshot that are active or resized and have no task.
        """
        here: dict[str, list[Instance]] = {name: [] for name in self._agents}
        for instance in self._active or ():
            here[instance.host or ""].append(instance)
        self._active = None
        for name, instances in here.items():
            self._spawn(self._reconcile(name, instances))

    def _compare_all(self, instances: Sequence[Instance]) -> None:
        here: dict[str, list[Instance]] = {name: [] for name in self._agents}
        for instance in instances:
            if instance.host in here:
                here[instance.host].append(instance)
        for name, found in here.items():
            self._spawn(self._compare(name, found))

    async def _reconcile(self, host: str, instances: Sequence[Instance] | None = None) -> None:
        """Begin a new pass over a host, and compare it with the ledger."""
        try:
            await self._gateway.save_notes(host, (), begins_pass=True)
        except BerthError as error:
            self._telemetry.failure("reconciliation_failed", error, host=host)
            return
        await self._compare(host, instances)

    async def _compare_guests(self, host: str) -> None:
        """Compare the guests of a host with the ledger.

        Events of guests are frequent on a busy host, and say nothing about leftovers, of which each
        is a question to the control plane.
        """
        await self._compare(host, None, seeks_leftovers=False)

    async def _compare(
        self,
        host: str,
        instances: Sequence[Instance] | None,
        *,
        seeks_leftovers: bool = True,
    ) -> None:
        """Compare a host with the ledger, restart missing guests and queue anomalies."""
        telemetry = self._telemetry
        try:
            async with self._slots:
                executor = self._agents[host].executor
                found = await executor.reconcile(
                    instances, seeks_leftovers=seeks_leftovers and self._pauses.is_due(host)
                )
        except Exception as error:  # noqa: BLE001 - drivers may raise anything; it is retried
            telemetry.failure("reconciliation_failed", error, host=host)
            return
        if found.error is not None:
            telemetry.failure("leftovers_failed", found.error, host=host)
            self._pauses.note_error(host, "", found.error)
        for instance in found.missing:
            self._restart(instance, host)
        for anomaly in found.anomalies:
            self._anomalies.setdefault(anomaly.instance_uuid, {})[host, anomaly.aspect] = anomaly
            self._run(anomaly.instance_uuid, 0)

    def _restart(self, instance: Instance, host: str) -> None:
        """Restart a guest, schedule its restart, or stop restarting it.

        Nothing happens when the instance is queued or its restart is scheduled.
        """
        uuid = instance.uuid
        wait_s: float | None = 0.0
        if uuid in self._queued or uuid in self._delayed:
            return
        # A guest with a task in progress may be starting at this moment, which is not a crash.
        if uuid not in self._in_progress:
            now_s = self._clock.ticks_ns() / _NS_PER_S
            wait_s = self._restarts.wait_s(uuid, now_s)
        if wait_s is None:
            self._spawn(self._stop_restarting(instance, host))
        elif not wait_s:
            self._start(instance, host)
        else:
            self._delayed.add(uuid)
            self._spawn(self._reconcile_later(uuid, host, wait_s))

    async def _reconcile_later(self, uuid: str, host: str, wait_s: float) -> None:
        """Compare a host again after `wait_s` seconds, when a guest on it may be restarted."""
        await self._clock.sleep(wait_s)
        self._delayed.discard(uuid)
        await self._compare_guests(host)

    async def _stop_restarting(self, instance: Instance, host: str) -> None:
        try:
            found = await self._agents[host].executor.stop_restarting(instance, self._pace.restarts)
        except BerthError as error:
            self._telemetry.failure(
                "restarts_not_stopped", error, instance=instance.uuid, host=host
            )
        else:
            if found is not None:
                self._report_finding(host, instance.uuid, found)

    async def close(self) -> None:
        """Cancel all tasks; a new process learns of the unfinished ones from its first snapshot."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _should_run(self, instance: Instance) -> bool:
        here = instance.host in self._agents
        return here and instance.status in _RUNNING and instance.task is None

    def _note_move(self, migration: Migration) -> None:
        turn = migration.turn or ""
        if turn in self._agents and has_leftover(turn, migration):
            self._leftover_moves.setdefault(migration.instance_uuid, []).append(migration)
            self._run(migration.instance_uuid, 0)
        sides = (migration.source.host, migration.destination.host)
        if not migration.has_ended and any(side in self._agents for side in sides):
            self._moves[migration.uuid] = migration
        else:
            self._moves.pop(migration.uuid, None)
        leaves = migration.cancelled and migration.stage is Stage.MOVING
        if leaves and migration.source.host in self._agents:
            self._spawn(self._cancel_move(migration))

    def _host_in_turn(self, instance: Instance) -> str | None:
        """Return the host that must act next for an instance, or None if this process runs none."""
        migration = self._moves.get(instance.migration_uuid or "")
        hosts = [instance.host] if instance.host is not None else self._disk_hosts
        if migration is not None:
            hosts += [migration.source.host, migration.destination.host]
        for host in hosts:
            if host in self._agents and has_turn(host, instance, migration):
                return host
        return None

    def _consider(self, instance: Instance) -> None:
        uuid, done = instance.uuid, self._done.get(instance.uuid, 0)
        if uuid in self._in_progress:
            self._in_progress[uuid] = instance.revision
            # A deletion, for example, must not wait until a large disk is copied.
            if not image_in_progress(instance) and instance.host in self._agents:
                self._agents[instance.host].executor.cancel_image(uuid, instance.revision)
        if instance.revision < done:
            return
        self._done.pop(uuid, None)
        # An instance may be deleted while its agent is down, so its guest is destroyed now.
        gone = instance.status is Status.DELETED and instance.revision > done
        host = (
            instance.host
            if gone and instance.host in self._agents
            else self._host_in_turn(instance)
        )
        if host is not None:
            self._start(instance, host)

    def _start(self, instance: Instance, host: str) -> None:
        """Work on an instance, now or after the task in progress for it."""
        uuid, revision = instance.uuid, instance.revision
        self._queued[uuid] = (instance, host)
        self._run(uuid, revision)
        self._in_progress[uuid] = max(self._in_progress[uuid], revision)

    def _run(self, uuid: str, revision: int) -> None:
        if uuid not in self._in_progress:
            self._in_progress[uuid] = revision
            self._spawn(self._work(uuid))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, uuid: str) -> None:
        done, has_failed = 0, False
        while uuid in self._queued or uuid in self._leftover_moves or uuid in self._anomalies:
            # Leftovers are cleared first: the guest that an earlier move left here must be gone
            # before the instance may come back to this host.
            for migration in self._leftover_moves.pop(uuid, ()):
                await self._clean_up_after_move(migration)
            for (host, _), anomaly in self._anomalies.pop(uuid, {}).items():
                await self._repair(host, anomaly)
            if uuid not in self._queued:
                continue
            instance, host = self._queued.pop(uuid)
            if instance.revision < done:
                continue
            agent = self._agents[host]
            # This task inherited the context of the feed's reader, which may belong to another
            # request.
            CONTEXT.set(Context(order_id_of(instance)))
            try:
                async with self._slots:
                    # The task may have waited for its slot while the control plane was silent.
                    in_doubt = has_failed or instance.task is None or not self._is_in_touch()
                    done = await agent.executor.carry_out(instance, in_doubt=in_doubt)
                has_failed = False
            except BuildError as error:
                self._telemetry.failure("adoption_failed", error, instance=uuid, host=host)
            except Exception as error:  # noqa: BLE001 - drivers may raise anything; it is retried
                self._telemetry.failure("task_failed", error, instance=uuid, host=host)
                await self._clock.sleep(_RETRY_S)
                # A newer version that the feed delivered meanwhile takes precedence.
                self._queued.setdefault(uuid, (instance, host))
                has_failed = True
        # The agent may be ahead of the feed. In that case, older versions that the feed is yet to
        # deliver must not start the same task again.
        if done > self._in_progress.pop(uuid):
            self._done[uuid] = done

    async def _clean_up_after_move(self, migration: Migration) -> None:
        agent = self._agents[migration.turn or ""]
        while True:
            try:
                async with self._slots:
                    await agent.executor.clean_up_after_move(migration)
            except Exception as error:  # noqa: BLE001 - drivers may raise anything; it is retried
                uuid = migration.instance_uuid
                self._telemetry.failure("task_failed", error, instance=uuid, host=agent.host)
                await self._clock.sleep(_RETRY_S)
            else:
                return

    async def _repair(self, host: str, anomaly: HostAnomaly) -> None:
        uuid, key = anomaly.instance_uuid, anomaly.leftover_key
        try:
            async with self._slots:
                # One that waited for its slot may be the next of many that fail alike.
                if key and not self._pauses.is_due(host, key):
                    return
                found = await self._agents[host].executor.repair(anomaly)
        except Exception as error:  # noqa: BLE001 - drivers may raise anything; it is found again
            self._telemetry.failure("reconciliation_failed", error, instance=uuid, host=host)
            if key:
                self._pauses.note_error(host, key, error)
            return
        if key:
            self._pauses.note_success(host, key)
            self._pauses.note_success(host)
        if found is not None:
            self._report_finding(host, uuid, found)

    def _report_finding(self, host: str, uuid: str, found: HostFinding) -> None:
        self._telemetry.event(found.code, host=host, instance=uuid)
        # A guest that has ended is only logged: its owner may have shut it down from within.
        if found.code != ENDED:
            note = HostNote(found.code, uuid, found.text, found.is_repaired)
            self._spawn(self._save_note(host, note))

    async def _save_note(self, host: str, note: HostNote) -> None:
        try:
            await self._gateway.save_notes(host, (note,))
        except BerthError as error:
            # A finding is reported again by the next pass over the host.
            self._telemetry.failure("host_notices_not_saved", error, host=host)

    async def _cancel_move(self, migration: Migration) -> None:
        agent, uuid = self._agents[migration.source.host], migration.instance_uuid
        try:
            await agent.executor.cancel_move(uuid)
        except BerthError as error:
            self._telemetry.failure("move_cancel_failed", error, instance=uuid, host=agent.host)
