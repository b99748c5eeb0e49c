"""The tables of the ledger, one source for SQLite and PostgreSQL.

A record is kept as its JSON `body` beside columns that queries and claims need: the columns are
what SQL asks about, the body is what Berth reads back (docs/adr/0002-the-ledger.md). Changing a
table here needs a migration in `berth.adapters.ledger.migrations`; a test compares the two.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import postgresql

from berth.domain.ledger.record import Kind

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


_TEXT: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""Text in the order of its bytes, in every store and whatever its locale."""

_DOUBLE: Final[Double[float]] = Double()

_BIG: Final = BigInteger().with_variant(Integer, "sqlite")
"""A number as the key of rows in SQLite, which has 64 bits there too."""


def _key(name: str) -> Column[str]:
    return Column(name, _TEXT, primary_key=True)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, _TEXT, nullable=nullable)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _seconds(name: str) -> Column[float]:
    return Column(name, _DOUBLE, nullable=False)


def _table(name: str, *columns: Column[str] | Column[int] | Column[float] | Column[bool]) -> Table:
    return Table(name, metadata, *columns)


head: Final = Table(
    "head",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="single_row"), primary_key=True),
    _number("version"),
    _number("feed_floor"),
)
"""The one row that every writer locks: the newest version, and the newest that was trimmed."""

counters: Final = _table("counters", _key("kind"), _number("last"))

hosts: Final = _table("hosts", _key("uuid"), _text("name"), _text("node"), _text("body"))

services: Final = _table("services", _key("host"), _text("last_seen_s"), _text("body"))
"""`last_seen_s` is a JSON number as text, so that no digit is lost; it counts over the body."""

providers: Final = _table(
    "providers",
    _key("uuid"),
    _text("name"),
    _text("parent_uuid", nullable=True),
    _number("generation"),
    _text("body"),
)

inventories: Final = Table(
    "inventories",
    metadata,
    Column("provider_uuid", _TEXT, ForeignKey(providers.c.uuid), primary_key=True),
    Column("resource_class", _TEXT, primary_key=True),
    _number("total"),
    _number("reserved"),
    _number("min_unit"),
    _number("max_unit"),
    _number("step_size"),
    Column("allocation_ratio", _DOUBLE, nullable=False),
    _number("capacity"),
    _number("used"),
    Column("generation", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("used >= 0", name="used_not_negative"),
    sqlite_with_rowid=False,
)
"""Used never rises above capacity; it may stand above it after capacity was taken away.

`generation` is the provider's as of the last claim that changed the row. That of the provider is
the highest of all in its rows here and in `providers`, so that a claim writes nothing more.
"""

allocations: Final = Table(
    "allocations",
    metadata,
    Column("consumer_uuid", _TEXT, primary_key=True),
    Column("provider_uuid", _TEXT, ForeignKey(providers.c.uuid), primary_key=True),
    _text("amounts"),
    Index("ix_allocations_provider_uuid", "provider_uuid"),
    sqlite_with_rowid=False,
)
"""`amounts` is a JSON object by class: one row an allocation, since a claim writes them all."""

claim_keys: Final = Table("claim_keys", metadata, _key("key"), _number("version"), _seconds("at_s"))
Index(None, claim_keys.c.at_s)

aggregates: Final = _table("aggregates", _key("aggregate_id"), _text("name"), _text("body"))

server_groups: Final = _table("server_groups", _key("uuid"), _text("name"), _text("body"))

flavors: Final = _table("flavors", _key("flavor_id"), _text("name"), _text("body"))

instances: Final = _table(
    "instances",
    _key("uuid"),
    _text("project_id"),
    _text("name"),
    _text("reservation_id"),
    _text("request_id"),
    _text("group_uuid", nullable=True),
    _seconds("created_at_s"),
    _text("host", nullable=True),
    _text("status"),
    _seconds("updated_at_s"),
    Column("is_live", Boolean(create_constraint=False), nullable=False),
    _number("revision"),
    Column("vcpus", BigInteger, nullable=True),
    Column("memory_mb", BigInteger, nullable=True),
    Column("counted_revision", BigInteger, nullable=True),
    _text("body"),
)
"""`is_live`: occupies a host or waits for one, so that a snapshot holds it.

`vcpus` and `memory_mb` are what it counts for in its project, as of `counted_revision`; when that
is not `revision`, a Berth that does not know them has written the row since, and its body tells.
"""

_not_deleted = text("status <> 'DELETED'")
_has_host = text("host IS NOT NULL")
_has_group = text("group_uuid IS NOT NULL")

Index("ix_instances_project", instances.c.project_id, instances.c.created_at_s, instances.c.uuid)
Index(None, instances.c.name)
Index(None, instances.c.reservation_id)
Index(None, instances.c.request_id)
Index(None, instances.c.group_uuid, sqlite_where=_has_group, postgresql_where=_has_group)
Index(None, instances.c.host, sqlite_where=_has_host, postgresql_where=_has_host)
Index("ix_instances_status", instances.c.status, instances.c.created_at_s, instances.c.uuid)
Index(None, instances.c.updated_at_s)
Index(
    "ix_instances_newest",
    instances.c.created_at_s,
    instances.c.uuid,
    sqlite_where=_not_deleted,
    postgresql_where=_not_deleted,
)

# SQLite counts a project's instances once and remembers them: see `engine.quota_counts`.
Index("ix_instances_counted", instances.c.project_id, postgresql_where=_not_deleted).ddl_if(
    dialect="postgresql"
)

pending_requests: Final = _table(
    "pending_requests", _key("request_id"), _seconds("accepted_at_s"), _text("body")
)

decisions: Final = _table("decisions", _key("request_id"), _seconds("decided_at_s"), _text("body"))
Index("ix_decisions_newest", decisions.c.decided_at_s, decisions.c.request_id)

consumers: Final = Table(
    "consumers",
    metadata,
    _key("uuid"),
    _text("project_id"),
    _text("user_id"),
    _number("generation"),
    _text("body"),
)
"""Consumers that clients of the Placement API told of, as long as they hold something."""
Index("ix_consumers_project", consumers.c.project_id, consumers.c.user_id)

resource_classes: Final = _table("resource_classes", _key("name"), _number("number"), _text("body"))

traits: Final = _table("traits", _key("name"), _number("number"), _text("body"))

migrations: Final = _table(
    "migrations",
    _key("uuid"),
    _number("number"),
    _text("instance_uuid"),
    _text("kind"),
    _text("status"),
    _text("source_host"),
    _text("destination_host"),
    _text("project_id"),
    _text("user_id"),
    _seconds("created_at_s"),
    _seconds("updated_at_s"),
    Column("is_live", Boolean(create_constraint=False), nullable=False),
    _text("body"),
)
"""`is_live`: something is still to be done for it, so that a snapshot holds it."""
Index(None, migrations.c.instance_uuid)
Index("ix_migrations_source", migrations.c.source_host, migrations.c.created_at_s)
Index("ix_migrations_destination", migrations.c.destination_host, migrations.c.created_at_s)
Index("ix_migrations_newest", migrations.c.created_at_s, migrations.c.uuid)
Index(
    "ix_migrations_live",
    migrations.c.uuid,
    sqlite_where=text("is_live"),
    postgresql_where=text("is_live"),
)

MIGRATION_IS_LIVE: Final = text("migrations.is_live")
"""As the index says it: SQLite does not use it for `is_live = 1`, as a column would be written."""

MIGRATION_IS_OVER: Final = text("NOT migrations.is_live")

actions: Final = _table(
    "actions", _key("key"), _text("instance_uuid"), _seconds("started_at_s"), _text("body")
)
"""What was asked of instances; `key` is made of the instance and the request."""
Index(None, actions.c.instance_uuid)

quotas: Final = _table("quotas", _key("project_id"), _text("body"))

zones: Final = _table("zones", _key("zone_id"), _text("name"), _text("body"))

errands: Final = _table(
    "errands",
    _key("instance_uuid"),
    _text("project_id"),
    _text("reservation_id"),
    _text("request_id"),
    _text("body"),
)
"""Instances that were sent to child zones."""
Index(None, errands.c.project_id)
Index(None, errands.c.reservation_id)
Index(None, errands.c.request_id)

changes: Final = Table(
    "changes",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("seq", Integer, primary_key=True),
    _text("kind"),
    _text("body"),
    sqlite_with_rowid=False,
)

daybook: Final = Table(
    "daybook",
    metadata,
    Column("first", _BIG, primary_key=True, autoincrement=False),
    _number("last"),
    Column("body", LargeBinary, nullable=False),
)
"""Pages: what batches did that is committed, but not yet written down in the other tables.

Each holds the versions from `first` to `last`. Only SQLite ledgers use it; see
docs/adr/0011-the-daybook.md.
"""

RECORD_TABLES: Final[dict[Kind, Table]] = {
    Kind.HOST: hosts,
    Kind.SERVICE: services,
    Kind.PROVIDER: providers,
    Kind.AGGREGATE: aggregates,
    Kind.SERVER_GROUP: server_groups,
    Kind.FLAVOR: flavors,
    Kind.INSTANCE: instances,
    Kind.PENDING_REQUEST: pending_requests,
    Kind.DECISION: decisions,
    Kind.CONSUMER: consumers,
    Kind.RESOURCE_CLASS: resource_classes,
    Kind.TRAIT: traits,
    Kind.MIGRATION: migrations,
    Kind.ACTION: actions,
    Kind.QUOTA: quotas,
    Kind.ZONE: zones,
    Kind.REMOTE_INSTANCE: errands,
}

KIND_OF_TABLE: Final = {table.name: kind for kind, table in RECORD_TABLES.items()}

RARELY_CHANGED: Final[dict[Table, tuple[str, ...]]] = {
    instances: (
        "project_id",
        "name",
        "reservation_id",
        "request_id",
        "group_uuid",
        "created_at_s",
    )
}
"""Columns that hardly ever change once a record is made, though they may."""


def key_column(table: Table) -> Column[str]:
    """Return the one column that is the primary key of a record's table."""
    return table.primary_key.columns[0]
