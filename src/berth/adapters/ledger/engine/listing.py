"""The conditions and orders by which every ledger lists records and consumers."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar, cast

from berth.adapters.ledger.engine.reallocation import DERIVED_GENERATION
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration
from berth.domain.errors import FeedGapError
from berth.domain.inventory.allocation import INSTANCE_TYPE, Consumer, ConsumerAllocations
from berth.domain.ledger.record import KINDS, Kind, Record, key_of
from berth.ports.ledger import InstanceQuery, MigrationQuery

R = TypeVar("R", bound=Record)

EQUAL_FIELDS = (
    "project_id",
    "host",
    "status",
    "name",
    "reservation_id",
    "request_id",
    "group_uuid",
)
"""Fields of an `InstanceQuery` that must equal the instance's field of the same name."""


DECISIONS_MAX: Final = 1000
"""The maximum number of decisions on one request that a ledger returns."""
AFTER_SLASH: Final = "0"
"""The character that follows `/` in ASCII; `.` precedes it. Ids derived from a request id are
therefore those from `ID.` to `ID0`, excluding the latter."""


def decided_last(decision: Decision) -> tuple[float, str]:
    """Return the key by which decisions are sorted."""
    return decision.decided_at_s, decision.request_id


def kind_of_noun(noun: type[R]) -> Kind:
    """Return the kind of record that a class represents."""
    return KINDS[cast("type[Record]", noun)]


# The pairs of status and task of instances that wait for a host.
_WAITING = {
    (Status.BUILD, Task.SCHEDULING),
    (Status.SHELVED_OFFLOADED, Task.UNSHELVING),
}

_STATUSES = frozenset(Status)
_TASKS = frozenset({None, *Task})


def is_live(instance: Instance) -> bool:
    """Return whether an instance occupies a host, waits for one, or has disks to be deleted.

    An instance in a state that this version of Berth does not know also counts as live. Snapshots
    contain only live instances.
    """
    if instance.host is not None:
        return instance.status is not Status.DELETED
    if instance.task is Task.DELETING:
        return instance.disks is not None
    if (instance.status, instance.task) in _WAITING:
        return True
    # An instance in a state that only a newer version of Berth knows may occupy a host. If
    # snapshots omitted it, its resources could be given to other instances.
    return instance.status not in _STATUSES or instance.task not in _TASKS


def matches(query: InstanceQuery, instance: Instance) -> bool:
    """Return whether an instance matches a query, ignoring the query's `limit` and `marker`."""
    for name in EQUAL_FIELDS:
        wanted = getattr(query, name)
        if wanted is not None and getattr(instance, name) != wanted:
            return False
    is_gone = instance.status is Status.DELETED
    is_gone |= query.soft_too and instance.status is Status.SOFT_DELETED
    if query.deleted not in {None, is_gone}:
        return False
    since_s = query.changed_since_s
    return since_s is None or instance.updated_at_s >= since_s


MIGRATION_FIELDS = ("source_host", "instance_uuid", "kind", "status", "project_id", "user_id")
"""Fields of a `MigrationQuery` that must equal the migration's value of the same name."""


def matches_migration(query: MigrationQuery, migration: Migration) -> bool:
    """Return whether a migration matches a query, ignoring the query's `limit` and `marker`."""
    has = {
        "source_host": migration.source.host,
        "instance_uuid": migration.instance_uuid,
        "kind": migration.kind,
        "status": migration.status,
        "project_id": migration.project_id,
        "user_id": migration.user_id,
    }
    if any(getattr(query, name) not in {None, has[name]} for name in MIGRATION_FIELDS):
        return False
    if query.is_live not in {None, not migration.has_ended}:
        return False
    if query.host not in {None, migration.source.host, migration.destination.host}:
        return False
    since_s, before_s = query.changed_since_s, query.changed_before_s
    at_s = migration.updated_at_s
    return (since_s is None or at_s >= since_s) and (before_s is None or at_s <= before_s)


newest_first = attrgetter("created_at_s", "uuid")
"""The sort key of instances and migrations, for use in reverse; the UUID breaks ties."""

started_last = attrgetter("started_at_s", "request_id")
"""The sort key of actions, for use in reverse; the request id breaks ties."""


def in_key_order(records: Iterable[R]) -> list[R]:
    """Return records of one kind sorted by key; aggregates are sorted by their numeric id."""
    return sorted(records, key=_order)


def _order(record: Record) -> tuple[int, str]:
    return (record.aggregate_id, "") if isinstance(record, Aggregate) else (0, key_of(record))


def check_in_feed(after: int, floor: int, version: int) -> None:
    """Check that the feed holds, or may yet hold, the changes after a version.

    Raises:
        FeedGapError: the feed no longer holds the next version, or `after` is above the version of
            the ledger.
    """
    if after < floor:
        raise FeedGapError(
            f"the feed starts after version {floor}, but changes after {after} were requested; "
            "load a snapshot"
        )
    # A ledger below the version of its follower was restored from a backup or replaced. A follower
    # that waited for it to catch up would miss everything that is committed until then.
    if after > version:
        raise FeedGapError(
            f"the ledger is at version {version}, but changes after {after} were requested, so it "
            "was replaced or restored from a backup; load a snapshot"
        )


class InstanceOwner(NamedTuple):
    """The fields of an instance that describe it as a consumer; times are Unix seconds."""

    project_id: str
    user_id: str
    created_at_s: float
    updated_at_s: float


_owner_of: Final = attrgetter(*InstanceOwner._fields)


def owner_of(instance: Instance) -> InstanceOwner:
    """Return the fields of an instance that describe it as a consumer."""
    return InstanceOwner._make(_owner_of(instance))


def derived_consumer(uuid: str, owner: InstanceOwner | None) -> Consumer:
    """Return the consumer that stands for a UUID without a consumer record.

    Args:
        uuid: the UUID.
        owner: the owner of the instance with this UUID. Without such an instance it is None, and
            the consumer has an empty project and user.
    """
    if owner is None:
        return Consumer(uuid, "", "", generation=DERIVED_GENERATION)
    project_id, user_id, created_at_s, updated_at_s = owner
    return Consumer(
        uuid,
        project_id,
        user_id,
        INSTANCE_TYPE,
        DERIVED_GENERATION,
        created_at_s,
        updated_at_s,
    )


def group_holdings(
    rows: Iterable[tuple[Consumer, str, Mapping[str, int]]],
) -> list[ConsumerAllocations]:
    """Return allocations grouped by consumer, ordered by the UUIDs of consumers and providers.

    `rows` are tuples of consumer, provider UUID and amounts.
    """
    holdings: dict[str, tuple[Consumer, dict[str, Mapping[str, int]]]] = {}
    for consumer, provider, amounts in sorted(rows, key=_consumer_and_provider):
        holdings.setdefault(consumer.uuid, (consumer, {}))[1][provider] = amounts
    return [ConsumerAllocations(*holding) for holding in holdings.values()]


def _consumer_and_provider(row: tuple[Consumer, str, Mapping[str, int]]) -> tuple[str, str]:
    return row[0].uuid, row[1]
