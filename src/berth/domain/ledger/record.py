"""Records: the types that the ledger stores, with their kinds and keys.

A kind of record is registered in `RECORD_SPECS`, from which every store derives its tables.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.decision import Decision
from berth.domain.compute.flavor import Flavor, FlavorAccess
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Action
from berth.domain.compute.key_pair import KeyRing
from berth.domain.compute.maintenance import Maintenance
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.compute.server_image import ServerImage
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.domain.ledger.audit_trail import AuditBlock
from berth.domain.zones.zone import RemoteInstance, Zone


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that has been accepted but not yet decided; any scheduler may decide it.

    Its instances are already in the ledger, with the task of the operation. The unit that commits
    the claim or the refusal removes the record.

    A request whose instances go to several zones is processed by one scheduler at a time:
    `taken_by` names the scheduler, and others leave the request alone until `taken_until_s` (Unix
    seconds), when the lease expires. `is_given_up` means that the placed instances are being
    withdrawn and that no further ones are placed.
    """

    request: Request
    accepted_at_s: float
    taken_by: str = ""
    taken_until_s: float = 0.0
    is_given_up: bool = False


Record = (
    Host
    | Service
    | Provider
    | Aggregate
    | ServerGroup
    | Flavor
    | Instance
    | PendingRequest
    | Decision
    | Consumer
    | ResourceClass
    | Trait
    | Migration
    | Action
    | Quota
    | Zone
    | RemoteInstance
    | HostIdentity
    | KeyRing
    | FlavorAccess
    | ServerImage
    | AuditBlock
    | Maintenance
)
"""Any record of the ledger."""


class Kind(StrEnum):
    """The kind of a record; its value names the kind in the change feed and in ledger tables."""

    # `Enum.__hash__` is a Python function, and kinds are part of most dictionary keys.
    __hash__ = str.__hash__

    HOST = "host"
    SERVICE = "service"
    PROVIDER = "provider"
    AGGREGATE = "aggregate"
    SERVER_GROUP = "server_group"
    FLAVOR = "flavor"
    INSTANCE = "instance"
    PENDING_REQUEST = "pending_request"
    DECISION = "decision"
    CONSUMER = "consumer"
    RESOURCE_CLASS = "resource_class"
    TRAIT = "trait"
    MIGRATION = "migration"
    ACTION = "action"
    QUOTA = "quota"
    ZONE = "zone"
    # The value is the former name, which the files and messages of earlier versions contain.
    REMOTE_INSTANCE = "errand"
    HOST_IDENTITY = "host_identity"
    KEY_RING = "key_ring"
    FLAVOR_ACCESS = "flavor_access"
    SERVER_IMAGE = "server_image"
    AUDIT_BLOCK = "audit_block"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class RecordSpec:
    """The storage of one kind of record in the ledger.

    Attributes:
        kind: the kind, named as in the change feed.
        noun: the class of the records.
        collection: the plural, which names the SQL table and, if `in_feed`, the field of
            `Snapshot`.
        key: the attribute that is unique among records of the kind; it also names the key column.
        columns: the attributes that SQL stores keep as columns in addition to the JSON body, in
            order. Empty for the kinds whose columns are computed: `sql.schema` and `sql.row_batch`
            in the ledger's adapters define those.
        key_path: the dotted path of the key, if the key is not an attribute of the record itself.
        in_feed: whether followers keep records of this kind, so the change feed and snapshots
            contain them. Records of other kinds are only read on demand.
        is_deferrable: whether changes of this kind may reach the tables later: a batch that changes
            only deferrable kinds may be committed to the write-ahead log alone.
    """

    kind: Kind
    noun: type[Record]
    collection: str
    key: str
    columns: tuple[str, ...] = ()
    key_path: str = ""
    in_feed: bool = True
    is_deferrable: bool = False


# To add a kind of record, add it here, in `Kind` and in `Record`, and migrate the SQL schema for
# its table. The ledger's adapters derive tables, rows, JSON codecs, feed and snapshot from this
# mapping; a kind with `in_feed` also has a field in `Snapshot`. `columns` names the attributes by
# which queries filter or sort; all others are read from the body.
RECORD_SPECS: Final[Mapping[Kind, RecordSpec]] = {
    spec.kind: spec
    for spec in (
        RecordSpec(Kind.HOST, Host, "hosts", "uuid", ("name", "node")),
        RecordSpec(Kind.SERVICE, Service, "services", "host"),
        RecordSpec(
            Kind.PROVIDER, Provider, "providers", "uuid", ("name", "parent_uuid", "generation")
        ),
        RecordSpec(Kind.AGGREGATE, Aggregate, "aggregates", "aggregate_id", ("name",)),
        RecordSpec(Kind.SERVER_GROUP, ServerGroup, "server_groups", "uuid", ("name",)),
        RecordSpec(Kind.FLAVOR, Flavor, "flavors", "flavor_id", ("name",)),
        RecordSpec(Kind.INSTANCE, Instance, "instances", "uuid", is_deferrable=True),
        RecordSpec(
            Kind.PENDING_REQUEST,
            PendingRequest,
            "pending_requests",
            "request_id",
            ("accepted_at_s",),
            key_path="request.request_id",
            is_deferrable=True,
        ),
        RecordSpec(
            Kind.DECISION,
            Decision,
            "decisions",
            "request_id",
            ("decided_at_s",),
            in_feed=False,
            is_deferrable=True,
        ),
        RecordSpec(
            Kind.CONSUMER,
            Consumer,
            "consumers",
            "uuid",
            ("project_id", "user_id", "generation"),
            in_feed=False,
            is_deferrable=True,
        ),
        RecordSpec(Kind.RESOURCE_CLASS, ResourceClass, "resource_classes", "name", ("number",)),
        RecordSpec(Kind.TRAIT, Trait, "traits", "name", ("number",)),
        RecordSpec(Kind.MIGRATION, Migration, "migrations", "uuid", is_deferrable=True),
        RecordSpec(
            Kind.ACTION,
            Action,
            "actions",
            "key",
            ("instance_uuid", "started_at_s"),
            in_feed=False,
            is_deferrable=True,
        ),
        RecordSpec(Kind.QUOTA, Quota, "quotas", "project_id"),
        RecordSpec(Kind.ZONE, Zone, "zones", "zone_id", ("name",)),
        RecordSpec(
            Kind.REMOTE_INSTANCE,
            RemoteInstance,
            "errands",
            "instance_uuid",
            ("project_id", "reservation_id", "request_id"),
            in_feed=False,
        ),
        RecordSpec(Kind.HOST_IDENTITY, HostIdentity, "host_identities", "host"),
        RecordSpec(Kind.KEY_RING, KeyRing, "key_rings", "user_id", in_feed=False),
        RecordSpec(Kind.FLAVOR_ACCESS, FlavorAccess, "flavor_accesses", "flavor_id", in_feed=False),
        RecordSpec(Kind.SERVER_IMAGE, ServerImage, "server_images", "image_id"),
        RecordSpec(
            Kind.AUDIT_BLOCK,
            AuditBlock,
            "audit_blocks",
            "key",
            in_feed=False,
            is_deferrable=True,
        ),
        RecordSpec(Kind.MAINTENANCE, Maintenance, "maintenances", "host", in_feed=False),
    )
}

RECORD_TYPES: Final[Mapping[Kind, type[Record]]] = {
    kind: spec.noun for kind, spec in RECORD_SPECS.items()
}
"""The type of each kind of record."""

# Decisions and actions are history, and consumers and remote instances are read only on demand.
# Omitting them keeps the feed and every replica small.
KINDS_NOT_IN_FEED: Final = frozenset(
    kind for kind, spec in RECORD_SPECS.items() if not spec.in_feed
)
"""The kinds that the change feed and snapshots omit."""

KINDS: Final[Mapping[type[Record], Kind]] = {noun: kind for kind, noun in RECORD_TYPES.items()}
"""The kind of each type of record."""


def kind_of(record: Record) -> Kind:
    """Return the kind of a record, by its type."""
    return KINDS[type(record)]


def key_of(record: Record) -> str:
    """Return the key of a record, which is unique within its kind."""
    return _KEYS[type(record)](record)


def _key_reader(spec: RecordSpec) -> Callable[[Any], str]:
    read: Callable[[Any], Any] = attrgetter(spec.key_path or spec.key)
    is_number = any(field.name == spec.key and field.type is int for field in fields(spec.noun))
    # Keys are strings in every store. Only a few kinds have integer keys, which must be converted.
    return (lambda record: str(read(record))) if is_number else read


_KEYS: Final[Mapping[type[Record], Callable[[Any], str]]] = {
    spec.noun: _key_reader(spec) for spec in RECORD_SPECS.values()
}
