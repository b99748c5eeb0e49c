"""Faults of a run: their rates, defects in the code, and a process's line to the ledger."""

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TypeVar

from berth.adapters.ledger import MemoryLedger
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Footprint
from berth.domain.errors import UnavailableError
from berth.domain.inventory.allocation import Allocation, ConsumerAllocations
from berth.domain.ledger.audit_trail import AuditBlock
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import Kind, Record
from berth.domain.ledger.write import Outcome, Unit
from berth.domain.zones.zone import RemoteInstance
from berth.ports.ledger import HeartbeatReport, InstanceQuery, MigrationQuery
from berth.scheduling.evaluation.policy import Policy
from tests.simulation.books import Books

R = TypeVar("R", bound=Record)

_PATIENCE_S = 10.0


@dataclass(slots=True)
class Weather:
    """The rates of faults, each in [0, 1], and the longest delays of the ledger and of builds."""

    delay_s: float = 0.01
    unavailable: float = 0.0
    lost: float = 0.0
    build_fails: float = 0.0
    verb_fails: float = 0.0
    machine_breaks: float = 0.0
    code_breaks: float = 0.0
    spawn_s: float = 2.0

    def clear_up(self) -> None:
        """Set all fault rates to 0; answers keep short delays."""
        self.delay_s = min(self.delay_s, 0.01)
        self.unavailable = self.lost = 0.0
        self.build_fails = self.verb_fails = self.machine_breaks = self.code_breaks = 0.0


class Away(Enum):
    """How a server is unavailable: it refuses connections, or it is silent until a timeout."""

    REFUSED = "refused"
    SILENT = "silent"


def _is_there() -> Away | None:
    return None


class Flaw:
    """A defect that shows at random: a subscriber and a policy source that raise."""

    def __init__(self, policy: Policy, weather: Weather, rng: Random) -> None:
        self._policy = policy
        self._weather = weather
        self._rng = rng

    @property
    def policy(self) -> Policy:
        """Return the policy in force, or raise RuntimeError at random."""
        self._show()
        return self._policy

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`."""
        self._show()

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        self._show()

    def _show(self) -> None:
        if self._rng.random() < self._weather.code_breaks:
            raise RuntimeError("a mistake")


class Line:
    """One process's connection to the ledger; see the port `Ledger`.

    A commit that was sent may arrive although the process has died, and its answer may be lost.
    `away` returns how the ledger is unavailable to this process, None if it is available.
    """

    def __init__(
        self,
        ledger: MemoryLedger,
        books: Books,
        weather: Weather,
        rng: Random,
        away: Callable[[], Away | None] = _is_there,
    ) -> None:
        self._away = away
        self._ledger = ledger
        self._books = books
        self._weather = weather
        self._rng = rng
        self._sent: set[asyncio.Task[list[Outcome] | None]] = set()
        self.is_cut = False

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit units and return the outcomes; the units or the answer may be lost."""
        await self._get_through()
        sent = asyncio.create_task(self._send(units), context=contextvars.Context())
        self._sent.add(sent)
        sent.add_done_callback(self._sent.discard)
        outcomes = await asyncio.shield(sent)
        await self._travel()
        if outcomes is None or self._chance(self._weather.lost):
            raise UnavailableError("the ledger does not answer")
        return outcomes

    async def _send(self, units: Sequence[Unit]) -> list[Outcome] | None:
        await asyncio.sleep(self._rng.uniform(0, self._weather.delay_s))
        if self._chance(self._weather.unavailable):
            return None
        outcomes = await self._ledger.commit(units)
        await self.audit()
        return outcomes

    async def audit(self) -> None:
        """Enter the ledger's new changes in the books; no other task runs meanwhile."""
        changes = await self._ledger.changes(self._books.version)
        self._books.take(changes, await self._ledger.allocations())

    async def get(self, noun: type[R], key: str) -> R | None:
        """See `RecordReader.get`."""
        await self._ask()
        return await self._ledger.get(noun, key)

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """See `RecordReader.all`."""
        await self._ask()
        return await self._ledger.all(noun, limit=limit)

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """See `RecordReader.instances`."""
        await self._ask()
        return await self._ledger.instances(query)

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """See `RecordReader.migrations`."""
        await self._ask()
        return await self._ledger.migrations(query)

    async def actions(self, instance_uuid: str) -> list[Action]:
        """See `RecordReader.actions`."""
        await self._ask()
        return await self._ledger.actions(instance_uuid)

    async def audit_block(self, number: int | None = None) -> AuditBlock | None:
        """See `AuditReader.audit_block`."""
        await self._ask()
        return await self._ledger.audit_block(number)

    async def audit_blocks(self, first: int, limit: int) -> list[AuditBlock]:
        """See `AuditReader.audit_blocks`."""
        await self._ask()
        return await self._ledger.audit_blocks(first, limit)

    async def decisions(self, request_id: str) -> list[Decision]:
        """See `RecordReader.decisions`."""
        await self._ask()
        return await self._ledger.decisions(request_id)

    async def remote_instances(
        self, *, project_id: str | None = None, reservation_id: str | None = None
    ) -> list[RemoteInstance]:
        """See `RecordReader.remote_instances`."""
        await self._ask()
        return await self._ledger.remote_instances(
            project_id=project_id, reservation_id=reservation_id
        )

    async def allocations(
        self, *, consumer_uuid: str | None = None, provider_uuid: str | None = None
    ) -> list[Allocation]:
        """See `RecordReader.allocations`."""
        await self._ask()
        return await self._ledger.allocations(
            consumer_uuid=consumer_uuid, provider_uuid=provider_uuid
        )

    async def consumer_allocations(self, consumer_uuid: str) -> ConsumerAllocations | None:
        """See `ConsumerReader.consumer_allocations`."""
        await self._ask()
        return await self._ledger.consumer_allocations(consumer_uuid)

    async def provider_consumers(self, provider_uuid: str) -> list[ConsumerAllocations]:
        """See `ConsumerReader.provider_consumers`."""
        await self._ask()
        return await self._ledger.provider_consumers(provider_uuid)

    async def project_consumers(
        self, project_id: str, user_id: str | None = None
    ) -> list[ConsumerAllocations]:
        """See `ConsumerReader.project_consumers`."""
        await self._ask()
        return await self._ledger.project_consumers(project_id, user_id)

    async def status_counts(self) -> Mapping[str, int]:
        """See `RecordReader.status_counts`."""
        await self._ask()
        return await self._ledger.status_counts()

    async def project_footprint(self, project_id: str) -> Footprint:
        """See `ConsumerReader.project_footprint`."""
        await self._ask()
        return await self._ledger.project_footprint(project_id)

    async def save_heartbeats(self, report: HeartbeatReport) -> None:
        """See `HeartbeatStore.save_heartbeats`."""
        await self._ask()
        await self._ledger.save_heartbeats(report)

    async def heartbeats(self, known: Mapping[str, int]) -> list[HeartbeatReport]:
        """See `HeartbeatStore.heartbeats`."""
        await self._ask()
        return await self._ledger.heartbeats(known)

    async def next_id(self, kind: Kind) -> int:
        """See `RecordReader.next_id`."""
        await self._ask()
        return await self._ledger.next_id(kind)

    @property
    def losses(self) -> int:
        """See `Feed.losses`."""
        return self._ledger.losses

    async def version(self) -> int:
        """See `Feed.version`."""
        await self._ask()
        return await self._ledger.version()

    async def write_fault(self) -> str | None:
        """See `Ledger.write_fault`."""
        await self._ask()
        return await self._ledger.write_fault()

    async def snapshot(self, now_s: float) -> Snapshot:
        """See `Feed.snapshot`; it arrives late, and may be outdated by then."""
        await self._ask()
        snapshot = await self._ledger.snapshot(now_s)
        await self._travel()
        return snapshot

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """See `Feed.changes`; they arrive late, and at most 20 at a time."""
        await self._ask()
        changes = await self._ledger.changes(after, min(limit, self._rng.randint(1, 20)))
        await self._travel()
        return changes

    def news(self, after: int) -> list[Change]:
        """See `Feed.news`; often none are returned, or only some."""
        found = self._ledger.news(after)
        if not found or self._chance(0.5):
            return []
        last = self._rng.randint(after + 1, found[-1].version)
        return [change for change in found if change.version <= last]

    async def wait(self, after: int, timeout_s: float) -> bool:
        """See `Feed.wait`; the answer arrives late."""
        self._check()
        found = await self._ledger.wait(after, timeout_s)
        await self._travel()
        return found

    async def close(self) -> None:
        """Leave the ledger open for the other processes."""

    async def _ask(self) -> None:
        await self._travel()
        if self._chance(self._weather.unavailable):
            raise UnavailableError("the ledger cannot be reached")

    async def _travel(self) -> None:
        self._check()
        await asyncio.sleep(self._rng.uniform(0, self._weather.delay_s))
        await self._get_through()

    async def _get_through(self) -> None:
        """Return if the ledger is available; otherwise raise, after a timeout if it is silent."""
        self._check()
        if self._away() is Away.SILENT:
            await asyncio.sleep(_PATIENCE_S)
            self._check()
            raise UnavailableError("the ledger has not answered")
        if self._away() is Away.REFUSED:
            raise UnavailableError("the ledger takes no connection")

    def _check(self) -> None:
        if self.is_cut:
            raise UnavailableError("this process is dead")

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share
