"""The tables of the SQL ledgers: one source for SQLite and PostgreSQL.

A record is stored as its JSON `body`, next to the columns that queries and claims need: SQL reads
the columns, Berth reads the body (docs/adr/0002-the-ledger.md). The table of a kind of record is
derived from its `RecordSpec`. A change here needs a migration in
`berth.adapters.ledger.migrations`; a test compares the two.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

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
from sqlalchemy.types import TypeEngine

from berth.domain.ledger.record import RECORD_SPECS, Kind, RecordSpec

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Keys and markers are compared in Python and in SQL, so both databases must sort text by its bytes,
# whatever the locale of the PostgreSQL cluster is.
_TEXT: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

_DOUBLE: Final[Double[float]] = Double()

# Only a column declared INTEGER becomes SQLite's rowid, which has 64 bits.
_BIG: Final = BigInteger().with_variant(Integer, "sqlite")

_TYPES: Final[Mapping[type[Any], TypeEngine[Any]]] = {
    str: _TEXT,
    int: BigInteger(),
    float: _DOUBLE,
    bool: Boolean(create_constraint=False),
}


def _key(name: str) -> Column[str]:
    return Column(name, _TEXT, primary_key=True)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, _TEXT, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _seconds(name: str) -> Column[float]:
    return Column(name, _DOUBLE, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean(create_constraint=False), nullable=False)


# --- tables that hold no records ---

head: Final = Table(
    "head",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="single_row"), primary_key=True),
    _number("version"),
    _number("feed_floor"),
)
"""One row with the newest version and the newest version that was trimmed from the feed.

A writer in PostgreSQL locks this row first and keeps the lock until the commit; in SQLite it locks
the file. Versions therefore have no gaps and become visible in order
(docs/adr/0003-change-feed-order.md).
"""

counters: Final = Table("counters", metadata, _key("kind"), _number("last"))
"""The last id drawn for each kind; see `RecordReader.next_id`.

In PostgreSQL, the table also has the first version of each timeline, under a `kind` that begins
with `TIMELINE`.
"""
TIMELINE: Final = "timeline:"

heartbeats: Final = Table("heartbeats", metadata, _key("gateway"), _number("number"), _text("body"))
"""The newest `HeartbeatReport` of each gateway; reports have no version and are not in the feed."""

claim_keys: Final = Table("claim_keys", metadata, _key("key"), _number("version"), _seconds("at_s"))
"""Versions of committed claims and guards, kept for `Retention.claim_keys_s` s after `at_s`."""
Index(None, claim_keys.c.at_s)

changes: Final = Table(
    "changes",
    metadata,
    Column("version", BigInteger, primary_key=True),
    Column("seq", Integer, primary_key=True),
    _text("kind"),
    _text("body"),
    sqlite_with_rowid=False,
)
"""The change feed; `seq` numbers the events of one version from 0."""

daybook: Final = Table(
    "daybook",
    metadata,
    Column("first", _BIG, primary_key=True, autoincrement=False),
    _number("last"),
    Column("body", LargeBinary, nullable=False),
)
"""The write-ahead log: committed batches that are not yet in the other tables.

Each row is one batch with the versions from `first` to `last`. Only SQLite ledgers use it
(docs/adr/0011-the-daybook.md).
"""

# --- records ---

_COMPUTED_COLUMNS: Final[Mapping[Kind, tuple[Column[Any], ...]]] = {
    # `last_seen_s` is a JSON number stored as text, because SQLite's JSON functions keep only 15
    # digits. It overrides the value in the body, so that a heartbeat does not rewrite the record.
    Kind.SERVICE: (_text("last_seen_s"),),
    # `is_live` is the result of `engine.listing.is_live`: snapshots contain such instances. `vcpus`
    # and `memory_mb` are the instance's footprint as of `counted_revision`. If that differs from
    # `revision`, the row was last written by an older Berth that does not know these columns, and
    # the footprint is read from the body.
    Kind.INSTANCE: (
        _text("project_id"),
        _text("name"),
        _text("reservation_id"),
        _text("request_id"),
        _text("group_uuid", nullable=True),
        _seconds("created_at_s"),
        _text("host", nullable=True),
        _text("status"),
        _seconds("updated_at_s"),
        _flag("is_live"),
        _number("revision"),
        _number("vcpus", nullable=True),
        _number("memory_mb", nullable=True),
        _number("counted_revision", nullable=True),
    ),
    # `is_live`: the migration has not ended, so snapshots contain it.
    Kind.MIGRATION: (
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
        _flag("is_live"),
    ),
}


def _column_of(noun: type[Any], name: str) -> Column[Any]:
    """Return a column for an attribute, with the SQL type that matches its annotation."""
    hint = get_type_hints(noun)[name]
    is_nullable = NoneType in get_args(hint)
    if is_nullable:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    return Column(name, _TYPES[hint], nullable=is_nullable)


def _record_table(spec: RecordSpec) -> Table:
    """Return the table of a kind: its key, its columns and its body."""
    columns = _COMPUTED_COLUMNS.get(spec.kind)
    if columns is None:
        columns = tuple(_column_of(spec.noun, name) for name in spec.columns)
    return Table(spec.collection, metadata, _key(spec.key), *columns, _text("body"))


RECORD_TABLES: Final[Mapping[Kind, Table]] = {
    kind: _record_table(spec) for kind, spec in RECORD_SPECS.items()
}

KIND_OF_TABLE: Final = {table.name: kind for kind, table in RECORD_TABLES.items()}

providers: Final = RECORD_TABLES[Kind.PROVIDER]
instances: Final = RECORD_TABLES[Kind.INSTANCE]
decisions: Final = RECORD_TABLES[Kind.DECISION]
consumers: Final = RECORD_TABLES[Kind.CONSUMER]
migrations: Final = RECORD_TABLES[Kind.MIGRATION]
actions: Final = RECORD_TABLES[Kind.ACTION]
audit_blocks: Final = RECORD_TABLES[Kind.AUDIT_BLOCK]
errands: Final = RECORD_TABLES[Kind.REMOTE_INSTANCE]


def key_column(table: Table) -> Column[str]:
    """Return the single primary-key column of a table of records."""
    return table.primary_key.columns[0]


RARELY_CHANGED: Final[Mapping[Table, tuple[str, ...]]] = {
    instances: (
        "project_id",
        "name",
        "reservation_id",
        "request_id",
        "group_uuid",
        "created_at_s",
    )
}
"""By table, the columns that may change after a record is created, but rarely do."""

# --- what providers have and consumers hold ---

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
    _seconds("allocation_ratio"),
    _number("capacity"),
    _number("used"),
    Column("generation", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("used >= 0", name="used_not_negative"),
    sqlite_with_rowid=False,
)
"""One row for each resource class of a provider.

A claim never raises `used` above `capacity`, but `used` may exceed a capacity that was reduced, so
no constraint relates the two.

`generation` is that of the provider after the last claim that changed the row. The current
generation of a provider is the highest one in its rows here and in `providers`, so that a claim
need not write to `providers` as well.
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
"""The allocation of each consumer on each provider; `amounts` is a JSON object by class.

One row per class would make a claim cost a fifth more (docs/adr/0002-the-ledger.md).
"""

# --- indexes of records ---

_not_deleted = text("status <> 'DELETED'")
_has_host = text("host IS NOT NULL")
_has_group = text("group_uuid IS NOT NULL")

Index("ix_instances_project", instances.c.project_id, instances.c.created_at_s, instances.c.uuid)
Index(None, instances.c.name)
Index(None, instances.c.reservation_id)
Index(None, instances.c.request_id)
# These indexes are partial, because most instances have no group, and deleted or waiting ones have
# no host. An insert writes fewer pages if it does not touch an index.
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
# Only PostgreSQL has this index. A SQLite writer counts a project's instances once and then keeps
# the sum in memory (`engine.quota_counts`), while a PostgreSQL writer counts them in every batch
# that checks a quota.
Index("ix_instances_counted", instances.c.project_id, postgresql_where=_not_deleted).ddl_if(
    dialect="postgresql"
)

Index("ix_decisions_newest", decisions.c.decided_at_s, decisions.c.request_id)

Index("ix_consumers_project", consumers.c.project_id, consumers.c.user_id)

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
"""The condition that a migration has not ended, worded as in the partial index.

SQLite uses a partial index only if the query repeats its condition, and SQLAlchemy would render the
column as `is_live = 1`.
"""

MIGRATION_IS_OVER: Final = text("NOT migrations.is_live")
"""The condition that a migration has ended."""

Index(None, actions.c.instance_uuid)

Index(None, errands.c.project_id)
Index(None, errands.c.reservation_id)
Index(None, errands.c.request_id)
