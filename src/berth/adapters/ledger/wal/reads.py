"""Reads of a SQL ledger, independent of its driver: each read is a generator of statements.

A read yields a statement with its parameters, receives the items found as one JSON array, and
returns the result. A ledger runs the statements with or without `await`, in one transaction if they
must see the same state. A read raises LedgerError if stored data cannot be decoded.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from berth.adapters.ledger.engine.codec import (
    changes_of,
    decode_changes,
    decode_heartbeats,
    decode_json,
    decode_records,
)
from berth.adapters.ledger.engine.listing import (
    AFTER_SLASH,
    InstanceOwner,
    check_in_feed,
    decided_last,
    derived_consumer,
    group_holdings,
    in_key_order,
    kind_of_noun,
    newest_first,
    started_last,
)
from berth.adapters.ledger.sql.queries import (
    HoldingsBy,
    Parameter,
    Queries,
    Statement,
    remote_instances_statement,
)
from berth.adapters.ledger.sql.quota_queries import footprint_statement
from berth.adapters.ledger.sql.row_batch import CHANGES
from berth.adapters.ledger.sql.write_requests import WriteRequest
from berth.adapters.ledger.wal.write_ahead_log import unpack_batch
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Footprint, sum_of
from berth.domain.errors import LedgerError, NotFoundError, UnavailableError
from berth.domain.inventory.allocation import Allocation, Consumer, ConsumerAllocations
from berth.domain.ledger.audit_trail import AuditBlock, audit_key
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import RECORD_SPECS, Kind, Record
from berth.domain.ledger.write import Outcome, Unit
from berth.domain.zones.zone import RemoteInstance
from berth.ports.ledger import HeartbeatReport, InstanceQuery, MigrationQuery

T = TypeVar("T")
R = TypeVar("R", bound=Record)

BoundStatement = tuple[Statement, tuple[Parameter, ...]]
Read = Generator[BoundStatement, str, T]

# A row that `Queries.holdings` selects: (consumer, provider), amounts, the consumer's record, and
# the owner of its instance.
_Held = tuple[tuple[str, str], dict[str, int], Consumer | None, InstanceOwner | None]

NO_LIMIT: Final = 2**31 - 1
"""A limit on the number of records that no ledger reaches."""

NO_HEAD: Final = (
    "the table `head` of the ledger is empty; the ledger was not created by `berth`, or it is "
    "damaged and must be restored from a backup"
)
"""Why a ledger without versions cannot be used, and what to do, for error messages."""

# One statement of a snapshot reads at most this many instances, which bounds the size of its JSON.
_CHUNK = 10_000
_NUMBER_MAX: Final = 10**19 - 1


class LedgerHead(NamedTuple):
    """The versions of a ledger.

    Attributes:
        version: the newest committed version.
        feed_floor: the newest version whose changes were trimmed from the feed.
        checkpointed: the version that the tables have reached; newer ones are only in the log.
        timelines: the first version of each timeline, by its name; empty for SQLite.
    """

    version: int
    feed_floor: int
    checkpointed: int
    timelines: Mapping[str, int] = MappingProxyType({})

    def timeline_of(self, version: int) -> str:
        """Return the name of the timeline that a version belongs to; "" if none began before it."""
        begun = ((first, name) for name, first in self.timelines.items() if first <= version)
        return max(begun, default=(0, ""))[1]


def _ignore(_: LedgerHead) -> None:
    """Do nothing with the versions of a ledger."""


def read_head(queries: Queries) -> Read[LedgerHead]:
    """Read the versions of the ledger.

    Raises:
        LedgerError: the table `head` is empty.
    """
    statement = queries.head()
    found = decode_json(
        list[tuple[int, int, int, dict[str, int]]], (yield statement, statement.bind())
    )
    if not found:
        raise LedgerError(NO_HEAD)
    return LedgerHead(*found[0])


def read_heartbeats(queries: Queries, known: Mapping[str, int]) -> Read[list[HeartbeatReport]]:
    """Read the reports of heartbeats that are newer than those with the known numbers."""
    numbers = queries.heartbeat_numbers()
    found = decode_json(list[tuple[str, int]], (yield numbers, numbers.bind()))
    newer = [gateway for gateway, number in found if number > known.get(gateway, -1)]
    reports: list[HeartbeatReport] = []
    statement = queries.heartbeats_of()
    for gateway in newer:
        texts = yield statement, statement.bind(gateway=gateway)
        reports += [HeartbeatReport(gateway, *one) for one in decode_heartbeats(texts)]
    return reports


def read_one(queries: Queries, noun: type[R], key: str) -> Read[R | None]:
    """Read the record with the given key; the result is None if it does not exist."""
    statement = queries.one(kind_of_noun(noun))
    found = decode_records(noun, (yield statement, statement.bind(key=key)))
    return found[0] if found else None


def read_beside_head(
    queries: Queries, noun: type[R], key: str
) -> Read[tuple[LedgerHead, R | None]]:
    """Read the ledger's versions, and the record with the given key or None if there is none."""
    head = yield from read_head(queries)
    return head, (yield from read_one(queries, noun, key))


def read_all(queries: Queries, noun: type[R], limit: int = NO_LIMIT) -> Read[list[R]]:
    """Read at most `limit` records of a type: decisions newest first, others in key order."""
    statement = queries.every(kind_of_noun(noun))
    found = decode_records(noun, (yield statement, statement.bind(limit=limit)))
    if noun is Decision:
        return sorted(found, key=_decided, reverse=True)
    # The records are sorted again, because SQLite's `group_concat` guarantees no order.
    return in_key_order(found)


def read_instances(queries: Queries, query: InstanceQuery) -> Read[list[Instance]]:
    """Read the instances that match a query, newest first.

    Raises:
        NotFoundError: `query.marker` is not an instance, or belongs to another project.
    """
    values: dict[str, Parameter] = {
        name: getattr(query, name) for name in query.__slots__ if name != "deleted"
    }
    if query.marker is not None:
        marker = yield from _read_marker(queries, Instance, query.marker)
        if query.project_id not in {None, marker.project_id}:
            raise NotFoundError(kind_of_noun(Instance), query.marker)
        values["marker_at_s"] = marker.created_at_s
    statement = queries.instances(query)
    found = decode_records(Instance, (yield statement, statement.bind(**values)))
    return sorted(found, key=newest_first, reverse=True)


def read_migrations(queries: Queries, query: MigrationQuery) -> Read[list[Migration]]:
    """Read the migrations that match a query, newest first.

    Raises:
        NotFoundError: `query.marker` is not a migration.
    """
    values: dict[str, Parameter] = {name: getattr(query, name) for name in query.__slots__}
    if query.marker is not None:
        marker = yield from _read_marker(queries, Migration, query.marker)
        values["marker_at_s"] = marker.created_at_s
    statement = queries.migrations(query)
    found = decode_records(Migration, (yield statement, statement.bind(**values)))
    return sorted(found, key=newest_first, reverse=True)


def _read_marker(queries: Queries, noun: type[R], marker: str) -> Read[R]:
    """Read the record with which the previous page ended.

    Raises:
        NotFoundError: it does not exist.
    """
    found = yield from read_one(queries, noun, marker)
    if found is None:
        raise NotFoundError(kind_of_noun(noun), marker)
    return found


def read_actions(queries: Queries, instance_uuid: str) -> Read[list[Action]]:
    """Read the stored actions of an instance, newest first; see `RecordReader.actions`."""
    statement = queries.actions()
    found = decode_records(Action, (yield statement, statement.bind(key=instance_uuid)))
    return sorted(found, key=started_last, reverse=True)


def read_audit_block(queries: Queries, number: int | None) -> Read[AuditBlock | None]:
    """Read the newest block from a number down; see `AuditReader.audit_block`."""
    statement = queries.audit_block()
    key = audit_key(_NUMBER_MAX if number is None else number)
    found = decode_records(AuditBlock, (yield statement, statement.bind(key=key)))
    return found[0] if found else None


def read_audit_blocks(queries: Queries, first: int, limit: int) -> Read[list[AuditBlock]]:
    """Read blocks from a number up; see `AuditReader.audit_blocks`."""
    statement = queries.audit_blocks()
    values: dict[str, Parameter] = {"key": audit_key(first), "limit": limit}
    found = decode_records(AuditBlock, (yield statement, statement.bind(**values)))
    return sorted(found, key=lambda block: block.first)


def read_decisions(queries: Queries, request_id: str) -> Read[list[Decision]]:
    """Read the decisions on a request and those derived from it; see `RecordReader.decisions`."""
    statement = queries.decisions()
    bounds = {"low": f"{request_id}.", "high": f"{request_id}{AFTER_SLASH}"}
    text = yield statement, statement.bind(key=request_id, **bounds)
    return sorted(decode_records(Decision, text), key=decided_last, reverse=True)


def read_remote_instances(queries: Queries, **by: str | None) -> Read[list[RemoteInstance]]:
    """Read the remote instances that have the given values, ordered by UUID.

    Args:
        queries: the statements of the ledger.
        by: the value that each of these columns must have; None matches any value.
    """
    asked = {name: key for name, key in by.items() if key is not None}
    statement = remote_instances_statement(queries.dialect, tuple(asked))
    return in_key_order(decode_records(RemoteInstance, (yield statement, statement.bind(**asked))))


def read_allocations(queries: Queries, **by: str | None) -> Read[list[Allocation]]:
    """Read the allocations that have the given values, ordered by consumer and provider.

    Args:
        queries: the statements of the ledger.
        by: the value that each of these columns must have; None matches any value.
    """
    asked = {name: uuid for name, uuid in by.items() if uuid is not None}
    statement = queries.allocations(tuple(asked))
    text = yield statement, statement.bind(**asked)
    rows = decode_json(list[tuple[tuple[str, str], dict[str, int]]], text)
    rows.sort(key=itemgetter(0))
    return [Allocation(consumer, provider, amounts) for (consumer, provider), amounts in rows]


def read_holdings(queries: Queries, by: HoldingsBy, key: str) -> Read[list[ConsumerAllocations]]:
    """Read the allocations of a consumer, on a provider, or of a project, grouped by consumer.

    Args:
        queries: the statements of the ledger.
        by: the column that selects the allocations.
        key: the value of that column: a UUID, or a project id.
    """
    statement = queries.holdings(by)
    text = yield statement, statement.bind(key=key)
    consumers: dict[str, Consumer] = {}
    rows: list[tuple[Consumer, str, dict[str, int]]] = []
    for (uuid, provider), amounts, record, owner in decode_json(list[_Held], text):
        consumer = consumers.get(uuid)
        if consumer is None:
            consumer = consumers[uuid] = record or derived_consumer(uuid, owner)
        rows.append((consumer, provider, amounts))
    return group_holdings(rows)


def read_footprint(queries: Queries, project_id: str) -> Read[Footprint]:
    """Read the footprint of a project, including its instances in child zones."""
    statement = footprint_statement(queries.dialect)
    text = yield statement, statement.bind(key=project_id)
    return sum_of(Footprint(1, *row) for row in decode_json(list[tuple[int, int]], text))


def read_snapshot(
    queries: Queries, now_s: float, on_head: Callable[[LedgerHead], None] = _ignore
) -> Read[Snapshot]:
    """Read all live state as of the version that the tables have reached.

    `on_head` is called with the ledger's versions.
    """
    head = yield from read_head(queries)
    on_head(head)
    records: dict[str, Any] = {}
    for kind, spec in RECORD_SPECS.items():
        if not spec.in_feed:
            continue
        if kind is Kind.INSTANCE:
            found: Sequence[Record] = yield from _read_live(queries)
        elif kind is Kind.MIGRATION:
            found = yield from _read_live_migrations(queries)
        else:
            found = yield from read_all(queries, spec.noun)
        records[spec.collection] = tuple(found)
    return Snapshot(version=head.checkpointed, now_s=now_s, **records)


def _read_live(queries: Queries) -> Read[list[Instance]]:
    """Read the live instances, ordered by UUID.

    They are read in chunks, because one JSON text with all of them could become too large.
    """
    statement = queries.live_instances()
    live: list[Instance] = []
    at_s, uuid, count = float("-inf"), "", _CHUNK
    while count == _CHUNK:
        text = yield statement, statement.bind(at_s=at_s, uuid=uuid, limit=_CHUNK)
        chunk = sorted(decode_records(Instance, text), key=newest_first)
        live += chunk
        count = len(chunk)
        if chunk:
            at_s, uuid = chunk[-1].created_at_s, chunk[-1].uuid
    return sorted(live, key=_uuid)


def read_status_counts(queries: Queries) -> Read[dict[str, int]]:
    """Read the number of instances by status, without deleted ones."""
    statement = queries.status_counts()
    return dict(decode_json(list[tuple[str, int]], (yield statement, statement.bind())))


def _read_live_migrations(queries: Queries) -> Read[list[Migration]]:
    statement = queries.live_migrations()
    return in_key_order(decode_records(Migration, (yield statement, statement.bind())))


def read_changes(queries: Queries, after: int, limit: int) -> Read[list[Change]]:
    """Read the changes after a version, oldest first, of at most `limit` versions.

    Raises:
        FeedGapError: the feed no longer holds the next version, or `after` is above the ledger's
            own version.
        LedgerError: the table `head` is empty, or a change or a record of the write-ahead log
            cannot be decoded.
    """
    head = yield from read_head(queries)
    check_in_feed(after, head.feed_floor, head.version)
    if head.version == after:
        return []
    until = after + limit
    statement = queries.changes()
    # During a checkpoint, some changes are both in the table and in the log. The table supplies the
    # versions up to `checkpointed`, and the log the versions after it.
    of_table = statement.bind(after=after, until=min(until, head.checkpointed))
    changes = decode_changes((yield statement, of_table))
    if min(until, head.version) > head.checkpointed:
        statement = queries.logged_batches()
        logged_batches = decode_json(
            list[tuple[str]], (yield statement, statement.bind(after=after))
        )
        for (digits,) in logged_batches:
            rows = unpack_batch(bytes.fromhex(digits)).inserts[CHANGES]
            changes += changes_of(row for row in rows if after < cast("int", row[0]) <= until)
    return changes


def _uuid(instance: Instance) -> str:
    return instance.uuid


def _decided(record: Record) -> tuple[float, str]:
    if not isinstance(record, Decision):
        raise TypeError(f"the ledger read a {type(record).__name__} as a Decision")
    return (record.decided_at_s, record.request_id)


class WriteQueue(Protocol):
    """Accepts write requests in order; a writer commits them and answers."""

    @property
    def fault(self) -> str | None:
        """The reason why the latest batch was not stored, if the store was the cause; else None."""
        ...

    def submit(self, request: WriteRequest, /) -> None:
        """Queue a request.

        Raises:
            UnavailableError: the ledger is closed.
        """
        ...


W = TypeVar("W", bound=WriteQueue)


class SqlLedger(ABC, Generic[W]):
    """The parts that all SQL ledgers share: writes through a queue, and reads.

    A read sees every write acknowledged before the call.

    Args:
        queries: the statements in the SQL of the database.
    """

    _writer: W

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    # --- Writer ---

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """See `Writer.commit`. Cancelling the call does not stop the commit."""
        answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._writer.submit(WriteRequest(units, None, answer))
        return await answer

    async def next_id(self, kind: Kind) -> int:
        """See `RecordReader.next_id`."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer.submit(WriteRequest((), kind, answer))
        return await answer

    # --- HeartbeatStore ---

    async def save_heartbeats(self, report: HeartbeatReport) -> None:
        """See `HeartbeatStore.save_heartbeats`."""
        answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._writer.submit(WriteRequest((), None, answer, heartbeats=report))
        await answer

    async def heartbeats(self, known: Mapping[str, int]) -> list[HeartbeatReport]:
        """See `HeartbeatStore.heartbeats`."""
        return await self._read(read_heartbeats(self._queries, known))

    async def write_fault(self) -> str | None:
        """See `Ledger.write_fault`."""
        await self.version()
        if self._writer.fault is not None:
            # While a process is not ready, it may get no requests that would show that the ledger
            # can be written again.
            answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
            self._writer.submit(WriteRequest((), None, answer, tests_space=True))
            with suppress(UnavailableError):
                await answer
        return self._writer.fault

    # --- Reads ---

    @abstractmethod
    async def version(self) -> int:
        """See `Feed.version`."""

    @abstractmethod
    async def _read(self, read: Read[T]) -> T:
        """Run a read on tables that contain everything committed before; return its result."""

    # --- Records ---

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """See `RecordReader.instances`."""
        return await self._read(read_instances(self._queries, query))

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """See `RecordReader.migrations`."""
        return await self._read(read_migrations(self._queries, query))

    async def actions(self, instance_uuid: str) -> list[Action]:
        """See `RecordReader.actions`."""
        return await self._read(read_actions(self._queries, instance_uuid))

    async def audit_block(self, number: int | None = None) -> AuditBlock | None:
        """See `AuditReader.audit_block`."""
        return await self._read(read_audit_block(self._queries, number))

    async def audit_blocks(self, first: int, limit: int) -> list[AuditBlock]:
        """See `AuditReader.audit_blocks`."""
        return await self._read(read_audit_blocks(self._queries, first, limit))

    async def decisions(self, request_id: str) -> list[Decision]:
        """See `RecordReader.decisions`."""
        return await self._read(read_decisions(self._queries, request_id))

    async def remote_instances(
        self, *, project_id: str | None = None, reservation_id: str | None = None
    ) -> list[RemoteInstance]:
        """See `RecordReader.remote_instances`."""
        return await self._read(
            read_remote_instances(
                self._queries, project_id=project_id, reservation_id=reservation_id
            )
        )

    async def allocations(
        self, *, consumer_uuid: str | None = None, provider_uuid: str | None = None
    ) -> list[Allocation]:
        """See `RecordReader.allocations`."""
        return await self._read(
            read_allocations(
                self._queries, consumer_uuid=consumer_uuid, provider_uuid=provider_uuid
            )
        )

    async def status_counts(self) -> Mapping[str, int]:
        """See `RecordReader.status_counts`."""
        return await self._read(read_status_counts(self._queries))

    # --- Holdings ---

    async def consumer_allocations(self, consumer_uuid: str) -> ConsumerAllocations | None:
        """See `ConsumerReader.consumer_allocations`."""
        found = await self._holdings("consumer_uuid", consumer_uuid)
        return found[0] if found else None

    async def provider_consumers(self, provider_uuid: str) -> list[ConsumerAllocations]:
        """See `ConsumerReader.provider_consumers`."""
        return await self._holdings("provider_uuid", provider_uuid)

    async def project_consumers(
        self, project_id: str, user_id: str | None = None
    ) -> list[ConsumerAllocations]:
        """See `ConsumerReader.project_consumers`."""
        found = await self._holdings("project_id", project_id)
        return [one for one in found if user_id in {None, one.consumer.user_id}]

    async def project_footprint(self, project_id: str) -> Footprint:
        """See `ConsumerReader.project_footprint`."""
        return await self._read(read_footprint(self._queries, project_id))

    async def _holdings(self, by: HoldingsBy, key: str) -> list[ConsumerAllocations]:
        return await self._read(read_holdings(self._queries, by, key))
