"""The ledger: the one place that says what is true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Footprint
from berth.domain.inventory.allocation import Allocation, ConsumerAllocations
from berth.domain.ledger.change import Change, Snapshot
from berth.domain.ledger.record import Kind, Record
from berth.domain.ledger.write import Outcome, Unit
from berth.domain.zones.zone import RemoteInstance

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class InstanceQuery:
    """Which instances to list, newest first; None means any.

    `name` matches the whole name. `deleted` None lists both. Paging: at most `limit` that come
    after the instance `marker` (a uuid), which is of that project where one is asked for.
    """

    project_id: str | None = None
    host: str | None = None
    status: Status | None = None
    name: str | None = None
    reservation_id: str | None = None
    request_id: str | None = None
    group_uuid: str | None = None
    deleted: bool | None = False
    changed_since_s: float | None = None
    limit: int = 1000
    marker: str | None = None


@dataclass(frozen=True, slots=True)
class MigrationQuery:
    """Which migrations to list, newest first; None means any.

    `host` is either side. `is_live` asks for those that have not ended, or for those that have.
    Paging: at most `limit` that come after the migration `marker` (a uuid).
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
    """Commits units of writes durably; concurrent calls share a disk flush."""

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit each unit for itself, in order, and answer for each when it is durable.

        Sums are checked over the whole batch: units judged earlier count for later ones.

        Raises:
            UnavailableError: the store cannot be reached; the units may or may not have been
                committed, and a retry with the same claim keys is safe.
        """
        ...


class RecordReader(Protocol):
    """Reads records as of now; sees every write acknowledged before the call."""

    async def get(self, noun: type[R], key: str) -> R | None:
        """Return the record with that key, or None."""
        ...

    async def all(self, noun: type[R], *, limit: int | None = None) -> list[R]:
        """Return all records of a kind (not Instance), in order of their keys.

        Decisions come newest first.
        """
        ...

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Return the instances that match, newest first.

        Raises:
            NotFoundError: `marker` names no instance, or one of another project.
        """
        ...

    async def status_counts(self) -> Mapping[str, int]:
        """Return how many instances have each status, those that are deleted left out."""
        ...

    async def migrations(self, query: MigrationQuery) -> list[Migration]:
        """Return the migrations that match, newest first.

        Raises:
            NotFoundError: `marker` names no migration.
        """
        ...

    async def actions(self, instance_uuid: str) -> list[Action]:
        """Return what was asked of an instance, newest first, beside its creation."""
        ...

    async def remote_instances(
        self, *, project_id: str | None = None, reservation_id: str | None = None
    ) -> list[RemoteInstance]:
        """Return what was sent to child zones (of a project, by a reservation; None means any).

        In order of the instances' uuids.
        """
        ...

    async def allocations(
        self, *, consumer_uuid: str | None = None, provider_uuid: str | None = None
    ) -> list[Allocation]:
        """Return what is allocated (of one consumer, on one provider; None means any).

        In order of consumer and provider. An unknown uuid has no allocations.
        """
        ...

    async def next_id(self, kind: Kind) -> int:
        """Return a number that was never returned before for this kind (from 1)."""
        ...


class ConsumerReader(Protocol):
    """Reads who holds what, as of now; sees every write acknowledged before the call."""

    async def consumer_allocations(self, consumer_uuid: str) -> ConsumerAllocations | None:
        """Return a consumer with all that it holds; None when it holds nothing."""
        ...

    async def provider_consumers(self, provider_uuid: str) -> list[ConsumerAllocations]:
        """Return who holds something of a provider, and only that, in order of consumers."""
        ...

    async def project_consumers(
        self, project_id: str, user_id: str | None = None
    ) -> list[ConsumerAllocations]:
        """Return all that consumers of a project hold, or those of one user in it."""
        ...

    async def project_footprint(self, project_id: str) -> Footprint:
        """Return what all instances of a project come to that are not deleted.

        It is what `Within` compares with its limits.
        """
        ...


class Feed(Protocol):
    """The ledger's change feed; versions are gapless in order of commit."""

    async def version(self) -> int:
        """Return the newest committed version; 0 for an empty ledger."""
        ...

    async def snapshot(self, now_s: float) -> Snapshot:
        """Return the whole live state as of one version."""
        ...

    async def changes(self, after: int, limit: int = 1000) -> list[Change]:
        """Return what happened after that version, oldest first, in whole versions.

        `limit` bounds the versions. An empty list means that nothing happened.

        Raises:
            FeedGapError: that version is older than what the feed still holds.
        """
        ...

    def news(self, after: int) -> list[Change]:
        """Return what is known here of what happened after that version, without asking anybody.

        It begins with the next version, and comes in whole versions. An empty list says nothing.
        """
        ...

    async def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until there is a version above `after`; False when the time ran out."""
        ...


class Ledger(Writer, RecordReader, ConsumerReader, Feed, Protocol):
    """The whole ledger, as adapters build it."""

    async def close(self) -> None:
        """Finish what was accepted, then release files and connections."""
        ...
