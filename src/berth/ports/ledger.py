"""The ledger: the durable, authoritative store of records, allocations and their history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Footprint
from berth.domain.inventory.allocation import Allocation, ConsumerAllocations
from berth.domain.ledger.audit_trail import AuditBlock
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import Kind, Record
from berth.domain.ledger.write import Outcome, Unit
from berth.domain.zones.zone import RemoteInstance
from berth.former_names import former_name

if not TYPE_CHECKING:
    # Type checkers must not see this: they assume that a module with `__getattr__` has every name.
    def __getattr__(name: str) -> object:
        """Return the object that a former name of this module refers to."""
        return former_name(__name__, name)


R = TypeVar("R", bound=Record)
"""The type of a record."""


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """A filter for listing instances, newest first; None matches any value.

    `name` must match the whole name. `deleted` selects instances that are or are not deleted; None
    selects both. With `soft_too`, soft-deleted instances count as deleted. At most `limit`
    instances are returned, after the instance with the UUID `marker`, which must belong to
    `project_id` if that is set. `changed_since_s` selects instances that have changed at or after
    that Unix time in seconds.
    """

    project_id: str | None = None
    host: str | None = None
    status: Status | None = None
    name: str | None = None
    reservation_id: str | None = None
    request_id: str | None = None
    group_uuid: str | None = None
    deleted: bool | None = False
    soft_too: bool = False
    changed_since_s: float | None = None
    # A list is bounded by default, so that no caller loads a whole cloud by accident.
    limit: int = 1000
    marker: str | None = None


@dataclass(frozen=True, slots=True)
class MigrationQuery:
    """A filter for listing migrations, newest first; None matches any value.

    `host` matches the source or the destination. `is_live` selects migrations that have not ended
    (True) or have ended (False). At most `limit` migrations are returned, after the migration with
    the UUID `marker`. `changed_since_s` and `changed_before_s` select migrations that last changed
    in that span of Unix seconds, both ends included.
    """

    host: str | None = None
    is_live: bool | None = None
    source_host: str | None = None
    instance_uuid: str | None = None
    kind: str | None = None
    status: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    changed_since_s: float | None = None
    changed_before_s: float | None = None
    limit: int = 1000
    marker: str | None = None


class Writer(Protocol):
    """Commits units of writes durably. Concurrent calls share one flush to disk."""

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit each unit independently, in order; return the outcomes once they are durable.

        The capacity check of each unit includes the earlier units of the batch.

        Raises:
            UnavailableError: the store cannot be reached. The units may or may not have been
                committed; retrying with the same claim keys is safe.
            LedgerError: the store is damaged, or a unit contains something that cannot be stored.
        """
        ...


class RecordReader(Protocol):
    """Reads current records; sees every write acknowledged before the call.

    All methods raise `UnavailableError` if the store cannot be reached, and `LedgerError` if it is
    damaged or rejects the read.
    """

    async def get(self, noun: type[R], key: str) -> R | None:
        """Return the record with the given key, or None if it does not exist."""
        ...

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """Return the records of a type other than Instance: decisions newest first, others by key.

        Args:
            noun: the type of the records.
            limit: the maximum number of records; None for all.
        """
        ...

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Return the matching instances, newest first.

        Raises:
            NotFoundError: `marker` is not an instance, or belongs to another project.
        """
        ...

    async def status_counts(self) -> Mapping[str, int]:
        """Return the number of instances by status; deleted instances are not counted."""
        ...

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """Return the matching migrations, newest first.

        Raises:
            NotFoundError: `marker` is not a migration.
        """
        ...

    async def actions(self, instance_uuid: str) -> list[Action]:
        """Return the stored actions of an instance, newest first.

        The creation is among them only after a second launch of the instance; see `creation_of`.
        """
        ...

    async def decisions(self, request_id: str) -> list[Decision]:
        """Return the decisions on a request and on the requests derived from it, newest first.

        The id of a derived request is that of the request, followed by `.` or `/` and more text; at
        most 1,000 decisions are returned. `all` returns the decisions on all requests.
        """
        ...

    async def remote_instances(
        self, *, project_id: str | None = None, reservation_id: str | None = None
    ) -> list[RemoteInstance]:
        """Return the instances sent to child zones, ordered by UUID.

        Args:
            project_id: only those of this project; None for any.
            reservation_id: only those of this reservation; None for any.
        """
        ...

    async def allocations(
        self, *, consumer_uuid: str | None = None, provider_uuid: str | None = None
    ) -> list[Allocation]:
        """Return allocations, ordered by consumer and provider; none for an unknown UUID.

        Args:
            consumer_uuid: only those of this consumer; None for any.
            provider_uuid: only those on this provider; None for any.
        """
        ...

    async def next_id(self, kind: Kind) -> int:
        """Return an integer id, 1 or higher, that was never returned before for this kind."""
        ...


class AuditReader(Protocol):
    """Reads the audit log; sees every write acknowledged before the call.

    All methods raise `UnavailableError` if the store cannot be reached, and `LedgerError` if it is
    damaged or rejects the read.
    """

    async def audit_block(self, number: int | None = None) -> AuditBlock | None:
        """Return the newest block whose first entry has this number or a lower one.

        Args:
            number: the number of an entry; None for the newest block.
        """
        ...

    async def audit_blocks(self, first: int, limit: int) -> list[AuditBlock]:
        """Return the blocks whose first entry has this number or a higher one, oldest first.

        Args:
            first: the number of an entry.
            limit: the maximum number of blocks.
        """
        ...


HEARTBEATS_KEPT_MS: Final = 86_400_000
"""A heartbeat report is dropped when the newest one is this much newer, in milliseconds."""


@dataclass(frozen=True, slots=True)
class HeartbeatReport:
    """The heartbeats that one gateway has received.

    Attributes:
        gateway: the id of the gateway, a text that is new at each start of its process.
        number: the Unix time of the report in milliseconds; higher in each report of the gateway.
        seen_s: the Unix time of the last heartbeat of each host that sent one recently.
        counts: what a scheduler reports about itself; see `services/replica/scheduler_reports.py`.
    """

    gateway: str
    number: int
    seen_s: Mapping[str, float]
    counts: Mapping[str, int] = field(default_factory=dict[str, int])


class HeartbeatStore(Protocol):
    """Shares heartbeats between processes, outside the versions of the ledger.

    If heartbeats were versions, every process would have to process every heartbeat. A report
    replaces the previous one of its gateway, so the store has one for each gateway. All methods
    also raise `LedgerError` if the store is damaged.
    """

    async def save_heartbeats(self, report: HeartbeatReport) -> None:
        """Store a report in place of its gateway's previous one; drop reports a day older than it.

        Raises:
            UnavailableError: the store cannot be reached.
        """
        ...

    async def heartbeats(self, known: Mapping[str, int]) -> list[HeartbeatReport]:
        """Return the reports that are newer than the known ones.

        Args:
            known: the number of the newest report that the caller has read, by gateway.

        Raises:
            UnavailableError: the store cannot be reached.
        """
        ...


class ConsumerReader(Protocol):
    """Reads current consumers and allocations; sees every write acknowledged before the call.

    All methods raise `UnavailableError` if the store cannot be reached, and `LedgerError` if it is
    damaged or rejects the read.
    """

    async def consumer_allocations(self, consumer_uuid: str) -> ConsumerAllocations | None:
        """Return a consumer with all its allocations, or None if it holds none."""
        ...

    async def provider_consumers(self, provider_uuid: str) -> list[ConsumerAllocations]:
        """Return the consumers of a provider with their allocations on it, ordered by UUID."""
        ...

    async def project_consumers(
        self, project_id: str, user_id: str | None = None
    ) -> list[ConsumerAllocations]:
        """Return the consumers of a project, or of one of its users, with all their allocations.

        They are ordered by UUID.
        """
        ...

    async def project_footprint(self, project_id: str) -> Footprint:
        """Return the footprint of all instances of a project that are not deleted.

        `QuotaCheck` compares the same footprint with the limits.
        """
        ...


class Feed(Protocol):
    """The change feed of the ledger; versions are consecutive, in the order of commit.

    Methods that read the store raise `UnavailableError` if it cannot be reached, and `LedgerError`
    if it is damaged or rejects the read.
    """

    @property
    def losses(self) -> int:
        """The number of times that versions already read by this process were lost.

        Versions are lost if a replica of the database that lacked them becomes the primary, or if a
        backup is restored. The same version numbers may then denote other versions. A follower must
        load a snapshot when this count has increased after a read.
        """
        ...

    async def version(self) -> int:
        """Return the latest committed version; 0 for an empty ledger."""
        ...

    async def snapshot(self, now_s: float) -> Snapshot:
        """Return all live state as of one version.

        Args:
            now_s: the Unix time in seconds that becomes `Snapshot.now_s`.
        """
        ...

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """Return the changes after a version, oldest first; empty when there are none.

        At most `limit` versions are returned, each with all its changes.

        Raises:
            FeedGapError: the feed no longer holds the next version, or `after` is above the
                ledger's version, as after a restore from a backup.
        """
        ...

    # This method lets a process apply its own commits to its replica immediately instead of after
    # the next poll.
    def news(self, after: int) -> list[Change]:
        """Return the changes after a version, as far as this process knows them without any I/O.

        The changes start with the next version and consist of whole versions. An empty list means
        that this process knows no change, not that nothing has changed.
        """
        ...

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds for a version above `after`, and return True if it came.

        The result is False after a timeout, or if the ledger is closed meanwhile.
        """
        ...


class Ledger(Writer, RecordReader, AuditReader, ConsumerReader, HeartbeatStore, Feed, Protocol):
    """The complete ledger, as adapters implement it."""

    async def write_fault(self) -> str | None:
        """Return why the ledger cannot store writes now, or None if it can.

        Raises:
            UnavailableError: the ledger does not answer.
            LedgerError: the ledger is damaged.
        """
        ...

    # Callers may still be waiting for commits that share a flush, so these commits finish first.
    async def close(self) -> None:
        """Finish the accepted commits, then release files and connections."""
        ...
