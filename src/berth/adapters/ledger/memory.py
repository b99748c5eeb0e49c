"""A ledger in memory, for tests, simulations and trying out Berth. Nothing in it is durable."""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from berth.adapters.ledger.engine.apply import apply_units
from berth.adapters.ledger.engine.listing import (
    DECISIONS_MAX,
    check_in_feed,
    decided_last,
    derived_consumer,
    group_holdings,
    in_key_order,
    is_live,
    kind_of_noun,
    matches,
    matches_migration,
    newest_first,
    owner_of,
    started_last,
)
from berth.adapters.ledger.engine.quota_counts import REMOTE_KEY_PREFIX, CountedRow, start_counting
from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.engine.version_watch import VersionWatch
from berth.adapters.ledger.engine.working_set import ChangeSet, WorkingSet
from berth.domain.compute.decision import Decision
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Footprint, footprint_of
from berth.domain.errors import NotFoundError, UnavailableError
from berth.domain.inventory.allocation import Allocation, Consumer, ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.audit_trail import AuditBlock
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import RECORD_SPECS, Kind, Record
from berth.domain.ledger.write import Outcome, QuotaCheck, Unit
from berth.domain.zones.zone import RemoteInstance, remote_footprint
from berth.ports.ledger import (
    HEARTBEATS_KEPT_MS,
    HeartbeatReport,
    InstanceQuery,
    MigrationQuery,
)

R = TypeVar("R", bound=Record)

_DEFAULT: Final = Retention()


class MemoryLedger:
    """Keeps all records in dictionaries; a batch is applied and stored without interruption.

    Args:
        retention: the minimum history to keep.
        now_s: returns the Unix time in seconds, by which claim keys, deleted instances and their
            history expire.
    """

    def __init__(
        self, *, retention: Retention = _DEFAULT, now_s: Callable[[], float] = time.time
    ) -> None:
        self._retention = retention
        self._now_s = now_s
        self._working_set = WorkingSet()
        self._records: dict[Kind, dict[str, Record]] = {kind: {} for kind in RECORD_SPECS}
        self._claims: deque[tuple[float, str, int]] = deque()
        self._feed: list[tuple[Change, ...]] = []
        self._floor = 0
        self._counters: dict[Kind, int] = {}
        self._heartbeats: dict[str, HeartbeatReport] = {}
        self._watch = VersionWatch()
        self._closed = False

    # --- Writer ---

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """See `Writer.commit`."""
        self._check_open()
        before = self._working_set.version
        self._start_counts(units)
        # There is no `await` from here to the end, so concurrent callers run one after the other.
        outcomes = apply_units(self._working_set, units)
        self._write(self._working_set.take_changes())
        if self._retention.is_due(before, self._working_set.version):
            self._trim()
        self._watch.advance(self._working_set.version)
        return outcomes

    def _start_counts(self, units: Sequence[Unit]) -> None:
        """Start counting each project whose quota a unit checks for the first time."""
        asked = {write.project_id for unit in units for write in unit if type(write) is QuotaCheck}
        asked -= self._working_set.counted.keys()
        if asked:
            start_counting(self._working_set, asked, self._counted(asked))

    def _counted(self, projects: Collection[str]) -> Iterator[CountedRow]:
        for instance in self._all_instances():
            if instance.project_id in projects and (counts := footprint_of(instance)):
                yield instance.project_id, instance.uuid, counts.vcpus, counts.memory_mb
        for remote in self._all(RemoteInstance):
            if remote.project_id in projects and (counts := remote_footprint(remote)):
                key = f"{REMOTE_KEY_PREFIX}{remote.instance_uuid}"
                yield remote.project_id, key, counts.vcpus, counts.memory_mb

    def _write(self, change_set: ChangeSet) -> None:
        for (kind, key), record in change_set.puts.items():
            if record is None:
                self._records[kind].pop(key, None)
            else:
                self._records[kind][key] = record
        services = self._records[Kind.SERVICE]
        for host, at_s in change_set.seen.items():
            services[host] = replace(cast("Service", services[host]), last_seen_s=at_s)
        if change_set.claimed or change_set.guarded:
            now_s = self._now_s()
            for keys in (change_set.claimed, change_set.guarded):
                self._claims.extend((now_s, key, version) for key, version in keys.items())
        versions: dict[int, list[Change]] = {}
        for change in change_set.changes:
            versions.setdefault(change.version, []).append(change)
        self._feed.extend(tuple(changes) for changes in versions.values())

    def _trim(self) -> None:
        surplus = len(self._feed) - self._retention.feed_versions
        if surplus > 0:
            del self._feed[:surplus]
            self._floor += surplus
        oldest_s = self._now_s() - self._retention.claim_keys_s
        while self._claims and self._claims[0][0] < oldest_s:
            _, key, version = self._claims.popleft()
            # A guard that a later unit has used has a newer version and must stay.
            if self._working_set.claimed.get(key) == version:
                del self._working_set.claimed[key]
        self._trim_instances()
        if len(self._records[Kind.DECISION]) > self._retention.decisions:
            surplus_decisions = self._decisions()[self._retention.decisions :]
            self._forget(Kind.DECISION, [decision.request_id for decision in surplus_decisions])

    def _trim_instances(self) -> None:
        """Remove instances deleted long ago, with their actions and migrations.

        A deleted instance is kept as long as one of its migrations has not ended.
        """
        oldest_s = self._now_s() - self._retention.deleted_instances_s
        migrations = cast("dict[str, Migration]", self._records[Kind.MIGRATION])
        actions = cast("dict[str, Action]", self._records[Kind.ACTION])
        moved = {one.instance_uuid for one in migrations.values() if not one.has_ended}
        gone = {
            instance.uuid
            for instance in self._all_instances()
            if instance.status is Status.DELETED
            and instance.updated_at_s < oldest_s
            and instance.uuid not in moved
        }
        self._forget(Kind.INSTANCE, gone)
        for kind, history in ((Kind.MIGRATION, migrations), (Kind.ACTION, actions)):
            of_gone = [key for key, one in history.items() if one.instance_uuid in gone]
            self._forget(kind, of_gone)

    def _forget(self, kind: Kind, keys: Iterable[str]) -> None:
        for key in keys:
            del self._records[kind][key]
            self._working_set.revisions.pop((kind, key), None)

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError(
                "the ledger is closed, because this process is stopping; try again"
            )

    # --- Records ---

    async def get(self, noun: type[R], key: str) -> R | None:
        """See `RecordReader.get`."""
        self._check_open()
        record = self._records[kind_of_noun(noun)].get(key)
        return None if record is None else cast("R", self._current(record))

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """See `RecordReader.all`."""
        self._check_open()
        if noun is Decision:
            return cast("list[R]", self._decisions()[:limit])
        return self._all(noun)[:limit]

    async def audit_block(self, number: int | None = None) -> AuditBlock | None:
        """See `AuditReader.audit_block`."""
        self._check_open()
        found = [one for one in self._all(AuditBlock) if number is None or one.first <= number]
        return max(found, key=lambda block: block.first, default=None)

    async def audit_blocks(self, first: int, limit: int) -> list[AuditBlock]:
        """See `AuditReader.audit_blocks`."""
        self._check_open()
        found = (one for one in self._all(AuditBlock) if one.first >= first)
        return sorted(found, key=lambda block: block.first)[:limit]

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """See `RecordReader.instances`."""
        self._check_open()
        found = self._all_instances()
        found = [instance for instance in found if matches(query, instance)]
        if query.marker is not None:
            marker = cast("Instance | None", self._records[Kind.INSTANCE].get(query.marker))
            if marker is None or query.project_id not in {None, marker.project_id}:
                raise NotFoundError("instance", query.marker)
            found = [i for i in found if newest_first(i) < newest_first(marker)]
        found.sort(key=newest_first, reverse=True)
        return found[: query.limit]

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """See `RecordReader.migrations`."""
        self._check_open()
        found = [one for one in self._all(Migration) if matches_migration(query, one)]
        if query.marker is not None:
            marker = cast("Migration | None", self._records[Kind.MIGRATION].get(query.marker))
            if marker is None:
                raise NotFoundError("migration", query.marker)
            found = [one for one in found if newest_first(one) < newest_first(marker)]
        return sorted(found, key=newest_first, reverse=True)[: query.limit]

    async def actions(self, instance_uuid: str) -> list[Action]:
        """See `RecordReader.actions`."""
        self._check_open()
        found = [one for one in self._all(Action) if one.instance_uuid == instance_uuid]
        return sorted(found, key=started_last, reverse=True)

    async def decisions(self, request_id: str) -> list[Decision]:
        """See `RecordReader.decisions`."""
        self._check_open()
        derived = f"{request_id}.", f"{request_id}/"
        found = (one for one in self._decisions() if one.request_id.startswith(derived))
        exact = cast("Decision | None", self._records[Kind.DECISION].get(request_id))
        both = [*found] if exact is None else [exact, *found]
        return sorted(both, key=decided_last, reverse=True)[:DECISIONS_MAX]

    async def remote_instances(
        self, *, project_id: str | None = None, reservation_id: str | None = None
    ) -> list[RemoteInstance]:
        """See `RecordReader.remote_instances`."""
        self._check_open()
        return in_key_order(
            one
            for one in self._all(RemoteInstance)
            if project_id in {None, one.project_id} and reservation_id in {None, one.reservation_id}
        )

    async def allocations(
        self, *, consumer_uuid: str | None = None, provider_uuid: str | None = None
    ) -> list[Allocation]:
        """See `RecordReader.allocations`."""
        self._check_open()
        held = self._working_set.held
        if consumer_uuid is not None:
            held = {consumer_uuid: held.get(consumer_uuid, {})}
        return sorted(
            (
                Allocation(consumer, provider, dict(amounts))
                for consumer, holding in held.items()
                for provider, amounts in holding.items()
                if provider_uuid in {None, provider}
            ),
            key=lambda allocation: (allocation.consumer_uuid, allocation.provider_uuid),
        )

    async def next_id(self, kind: Kind) -> int:
        """See `RecordReader.next_id`."""
        self._check_open()
        self._counters[kind] = self._counters.get(kind, 0) + 1
        return self._counters[kind]

    async def save_heartbeats(self, report: HeartbeatReport) -> None:
        """See `HeartbeatStore.save_heartbeats`."""
        self._check_open()
        oldest = report.number - HEARTBEATS_KEPT_MS
        self._heartbeats[report.gateway] = report
        self._heartbeats = {
            name: one for name, one in self._heartbeats.items() if one.number >= oldest
        }

    async def heartbeats(self, known: Mapping[str, int]) -> list[HeartbeatReport]:
        """See `HeartbeatStore.heartbeats`."""
        self._check_open()
        reports = self._heartbeats.values()
        return [one for one in reports if one.number > known.get(one.gateway, -1)]

    def _current(self, record: Record) -> Record:
        if isinstance(record, Provider):
            capacity = self._working_set.capacities[record.uuid]
            return replace(record, used=dict(capacity.used), generation=capacity.generation)
        return record

    def _all(self, noun: type[R]) -> list[R]:
        records = self._records[kind_of_noun(noun)].values()
        return cast("list[R]", [self._current(record) for record in in_key_order(records)])

    def _all_instances(self) -> list[Instance]:
        return cast("list[Instance]", list(self._records[Kind.INSTANCE].values()))

    def _decisions(self) -> list[Decision]:
        decisions = cast("list[Decision]", list(self._records[Kind.DECISION].values()))
        return sorted(decisions, key=decided_last, reverse=True)

    # --- Holdings ---

    async def consumer_allocations(self, consumer_uuid: str) -> ConsumerAllocations | None:
        """See `ConsumerReader.consumer_allocations`."""
        found = self._holdings(self._working_set.held.keys() & {consumer_uuid})
        return found[0] if found else None

    async def provider_consumers(self, provider_uuid: str) -> list[ConsumerAllocations]:
        """See `ConsumerReader.provider_consumers`."""
        held = self._working_set.held
        holders = [uuid for uuid, holding in held.items() if provider_uuid in holding]
        return self._holdings(holders, provider_uuid)

    async def project_consumers(
        self, project_id: str, user_id: str | None = None
    ) -> list[ConsumerAllocations]:
        """See `ConsumerReader.project_consumers`."""
        known = self._working_set.consumers.keys() | self._records[Kind.INSTANCE].keys()
        return [
            holding
            for holding in self._holdings(self._working_set.held.keys() & known)
            if holding.consumer.project_id == project_id
            and user_id in {None, holding.consumer.user_id}
        ]

    async def status_counts(self) -> Mapping[str, int]:
        """See `RecordReader.status_counts`."""
        self._check_open()
        found = Counter(one.status.value for one in self._all_instances())
        del found[Status.DELETED.value]
        return found

    async def project_footprint(self, project_id: str) -> Footprint:
        """See `ConsumerReader.project_footprint`."""
        self._check_open()
        # The footprint is computed in a separate working set, because the ledger's own has only the
        # projects whose quotas were checked.
        working_set = WorkingSet(0)
        start_counting(working_set, (project_id,), self._counted({project_id}))
        return working_set.sums[project_id]

    def _holdings(
        self, consumer_uuids: Iterable[str], provider_uuid: str | None = None
    ) -> list[ConsumerAllocations]:
        self._check_open()
        return group_holdings(
            (self._consumer(uuid), provider, dict(amounts))
            for uuid in consumer_uuids
            for provider, amounts in self._working_set.held[uuid].items()
            if provider_uuid in {None, provider}
        )

    def _consumer(self, uuid: str) -> Consumer:
        instance = cast("Instance | None", self._records[Kind.INSTANCE].get(uuid))
        owner = None if instance is None else owner_of(instance)
        return self._working_set.consumers.get(uuid) or derived_consumer(uuid, owner)

    # --- Feed ---

    @property
    def losses(self) -> int:
        """See `Feed.losses`. This ledger loses nothing while its process lives."""
        return 0

    async def version(self) -> int:
        """See `Feed.version`."""
        self._check_open()
        return self._working_set.version

    async def snapshot(self, now_s: float) -> Snapshot:
        """See `Feed.snapshot`."""
        self._check_open()
        records: dict[str, Any] = {}
        for kind, spec in RECORD_SPECS.items():
            if not spec.in_feed:
                continue
            found: Sequence[Record] = self._all(spec.noun)
            if kind is Kind.INSTANCE:
                found = [one for one in found if isinstance(one, Instance) and is_live(one)]
            elif kind is Kind.MIGRATION:
                found = [one for one in found if isinstance(one, Migration) and not one.has_ended]
            records[spec.collection] = tuple(found)
        return Snapshot(version=self._working_set.version, now_s=now_s, **records)

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """See `Feed.changes`."""
        self._check_open()
        check_in_feed(after, self._floor, self._working_set.version)
        start = after - self._floor
        return [change for version in self._feed[start : start + limit] for change in version]

    def news(self, after: int) -> list[Change]:
        """See `Feed.news`. The ledger knows every change that its feed still holds."""
        if self._closed or not self._floor <= after:
            return []
        return [change for version in self._feed[after - self._floor :] for change in version]

    async def wait(self, after: int, timeout_s: float) -> bool:
        """See `Feed.wait`."""
        self._check_open()
        return await self._watch.wait(after, timeout_s)

    async def write_fault(self) -> str | None:
        """See `Ledger.write_fault`. Nothing keeps this ledger from storing writes."""
        await self.version()
        return None

    async def close(self) -> None:
        """Wake all waiters; there are no files or connections to release."""
        self._closed = True
        self._watch.close()
