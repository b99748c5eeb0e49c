"""The statements of the SQL ledgers outside the claim path, written once for both databases.

Every query yields one column of JSON texts, `item`. Many items can thus be decoded together, and
SQLite can return them in one step (see `berth.adapters.ledger.sqlite.sqlite_batch`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, cast

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Executable,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.engine.default import DefaultDialect

from berth.adapters.ledger.engine.listing import DECISIONS_MAX, EQUAL_FIELDS, MIGRATION_FIELDS
from berth.adapters.ledger.sql import schema
from berth.domain.compute.instance import Status
from berth.domain.ledger.record import Kind
from berth.ports.ledger import InstanceQuery, MigrationQuery

DialectName = Literal["sqlite", "postgresql"]
HoldingsBy = Literal["consumer_uuid", "provider_uuid", "project_id"]
Parameter = str | int | float | bool | None

_DIALECTS: Final[dict[DialectName, DefaultDialect]] = {
    "sqlite": sqlite.dialect(paramstyle="qmark"),
    "postgresql": asyncpg.dialect(),
}
_JSON_ARRAY: Final[dict[DialectName, str]] = {
    "sqlite": "json_array",
    "postgresql": "json_build_array",
}
_JSON_OBJECT: Final[dict[DialectName, str]] = {
    "sqlite": "json_group_object",
    "postgresql": "json_object_agg",
}

# Expressions that yield the fields of an `InstanceOwner` as a JSON array. They copy times from the
# body as text, so that no digit is lost.
_OWNER: Final[dict[DialectName, str]] = {
    "sqlite": (
        "json_extract(instances.body,"
        " '$.project_id', '$.user_id', '$.created_at_s', '$.updated_at_s')"
    ),
    "postgresql": (
        "CAST(json_build_array("
        "CAST(instances.body AS json) -> 'project_id', CAST(instances.body AS json) -> 'user_id',"
        " CAST(instances.body AS json) -> 'created_at_s',"
        " CAST(instances.body AS json) -> 'updated_at_s') AS text)"
    ),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the SQL of one database.

    Attributes:
        text: the SQL.
        names: the names of the parameters, in the order in which they are bound.
        fixed: the values of the parameters that have the same value in every execution, by name.
    """

    text: str
    names: tuple[str, ...]
    fixed: Mapping[str, Parameter]

    def bind(self, **values: Parameter) -> tuple[Parameter, ...]:
        """Return the values of all parameters, in the order in which they are bound."""
        return tuple(values[name] if name in values else self.fixed[name] for name in self.names)


def compiled(statement: Executable, dialect: DialectName) -> Statement:
    """Return a statement compiled to the SQL of one database."""
    done = cast("Any", statement).compile(dialect=_DIALECTS[dialect])
    return Statement(str(done), tuple(done.positiontup or ()), dict(done.params))


def _item(*parts: ColumnElement[Any] | str) -> ColumnElement[str]:
    """Return an expression, labelled `item`, that joins JSON texts into one JSON array.

    A part is an expression, or a string with a piece of SQL.
    """
    item: ColumnElement[str] = literal_column("'['", Text)
    for number, part in enumerate(parts):
        if number:
            item = item + literal_column("','", Text)
        item = item + (literal_column(part, Text) if isinstance(part, str) else part)
    return (item + literal_column("']'", Text)).label("item")


def _digits(column: ColumnElement[int]) -> ColumnElement[str]:
    return sql_cast(column, Text)


def _quoted(column: ColumnElement[str]) -> ColumnElement[str]:
    """Return an expression that quotes a text as JSON; no character of it may need escaping."""
    quote = literal_column("""'"'""", Text)
    return quote + column + quote


class Queries:
    """The statements in the SQL of one database, each compiled when it is first used."""

    def __init__(self, dialect: DialectName) -> None:
        self.dialect: DialectName = dialect
        self.head = cache(self._head)
        self.changes = cache(self._changes)
        self.logged_batches = cache(self._logged_batches)
        self.next_id = cache(self._next_id)
        self.heartbeat_numbers = cache(self._heartbeat_numbers)
        self.heartbeats_of = cache(self._heartbeats_of)
        self.save_heartbeats = cache(self._save_heartbeats)
        self.one = cache(self._one)
        self.every = cache(self._every)
        self.live_instances = cache(self._live_instances)
        self.live_migrations = cache(self._live_migrations)
        self.status_counts = cache(self._status_counts)
        self.actions = cache(self._actions)
        self.audit_block = cache(self._audit_block)
        self.audit_blocks = cache(self._audit_blocks)
        self.decisions = cache(self._decisions)
        self.allocations = cache(self._allocations)
        self.holdings = cache(self._holdings)
        self.trims = cache(self._trims)
        self._instances_with = cache(self._instances_of)
        self._migrations_with = cache(self._migrations_of)

    def _compiled(self, statement: Executable) -> Statement:
        return compiled(statement, self.dialect)

    def _head(self) -> Statement:
        """Return the statement that selects the fields of `LedgerHead`."""
        head = schema.head.c
        # Batches are logged in order and leave the log in order, so the tables are at the version
        # just before the oldest logged batch.
        first = select(func.min(schema.daybook.c.first)).scalar_subquery()
        checkpointed = func.coalesce(first - 1, head.version)
        columns = (head.version, head.feed_floor, checkpointed)
        digits = [_digits(column) for column in columns]
        return self._compiled(select(_item(*digits, self._timelines())))

    def _timelines(self) -> ColumnElement[str]:
        """Return the expression for `LedgerHead.timelines`; only PostgreSQL stores any."""
        none = literal_column("'{}'", Text)
        if self.dialect == "sqlite":
            return none
        counters = schema.counters.c
        found = select(sql_cast(func.json_object_agg(counters.kind, counters.last), Text)).where(
            counters.kind.like(literal_column(f"'{schema.TIMELINE}%'"))
        )
        return func.coalesce(found.scalar_subquery(), none)

    def _logged_batches(self) -> Statement:
        """Return the statement that selects the logged batches with versions above :after.

        An item is an array of one text: the batch in hexadecimal digits.
        """
        batch = schema.daybook.c
        return self._compiled(
            select(_item(_quoted(func.hex(batch.body))))
            .where(batch.last > bindparam("after"))
            .order_by(batch.first)
        )

    def _changes(self) -> Statement:
        """Return the statement that selects the changes of versions above :after, up to :until.

        An item is `[version, seq, kind, body]`.
        """
        changes = schema.changes.c
        item = _item(
            _digits(changes.version), _digits(changes.seq), _quoted(changes.kind), changes.body
        )
        return self._compiled(
            select(item)
            .where(changes.version > bindparam("after"), changes.version <= bindparam("until"))
            .order_by(changes.version, changes.seq)
        )

    def _next_id(self) -> Statement:
        """Return the statement that draws the next id of :kind."""
        counters = schema.counters
        insert = postgresql.insert if self.dialect == "postgresql" else sqlite.insert
        return self._compiled(
            insert(counters)
            .values(kind=bindparam("kind"), last=1)
            .on_conflict_do_update(
                index_elements=[counters.c.kind], set_={"last": counters.c.last + 1}
            )
            .returning(counters.c.last)
        )

    def _heartbeat_numbers(self) -> Statement:
        """Return the statement that selects `[gateway, number]` of all reports."""
        heartbeats = schema.heartbeats.c
        return self._compiled(
            select(_item(_quoted(heartbeats.gateway), _digits(heartbeats.number)))
        )

    def _heartbeats_of(self) -> Statement:
        """Return the statement that selects `[number, body]` of the report of :gateway."""
        heartbeats = schema.heartbeats.c
        return self._compiled(
            select(_item(_digits(heartbeats.number), heartbeats.body)).where(
                heartbeats.gateway == bindparam("gateway")
            )
        )

    def _save_heartbeats(self) -> tuple[Statement, Statement]:
        """Return the statements that drop reports older than :oldest, and store one."""
        heartbeats = schema.heartbeats
        insert = postgresql.insert if self.dialect == "postgresql" else sqlite.insert
        names = ("gateway", "number", "body")
        values: dict[str, Any] = {name: bindparam(name) for name in names}
        added = insert(heartbeats).values(**values)
        changed = {"number": added.excluded.number, "body": added.excluded.body}
        stored = added.on_conflict_do_update(index_elements=[heartbeats.c.gateway], set_=changed)
        dropped = delete(heartbeats).where(heartbeats.c.number < bindparam("oldest"))
        return self._compiled(dropped), self._compiled(stored)

    def _record(self, kind: Kind) -> Select[Any]:
        """Return the query for the records of a kind, whose items are the bodies of the records.

        The items of services are `[body, last_seen_s]` instead. Those of providers are `[body,
        used, generation]`, where `generation` is the highest one of the provider's inventories.
        """
        table = schema.RECORD_TABLES[kind]
        if kind is Kind.SERVICE:
            return select(_item(table.c.body, table.c.last_seen_s))
        if kind is not Kind.PROVIDER:
            return select(table.c.body.label("item"))
        inventories = schema.inventories.c
        gather = getattr(func, _JSON_OBJECT[self.dialect])
        used = sql_cast(gather(inventories.resource_class, inventories.used), Text)
        comma = literal_column("','", Text)
        stock = (
            select(used + comma + sql_cast(func.max(inventories.generation), Text))
            .where(inventories.provider_uuid == table.c.uuid)
            .scalar_subquery()
        )
        return select(_item(table.c.body, func.coalesce(stock, literal_column("'{},0'", Text))))

    def _one(self, kind: Kind) -> Statement:
        """Return the statement that selects the record with :key."""
        key = schema.key_column(schema.RECORD_TABLES[kind])
        return self._compiled(self._record(kind).where(key == bindparam("key")))

    def _every(self, kind: Kind) -> Statement:
        """Return the statement that selects the first :limit records of a kind.

        Decisions are ordered newest first, other records by key.
        """
        table = schema.RECORD_TABLES[kind]
        key = schema.key_column(table)
        orders: dict[Kind, list[ColumnElement[Any]]] = {
            Kind.DECISION: [schema.decisions.c.decided_at_s.desc(), key.desc()],
            # The keys are numbers stored as text. Sorting by length first sorts them as numbers.
            Kind.AGGREGATE: [func.length(key), key],
        }
        ordered = self._record(kind).order_by(*orders.get(kind, [key]))
        return self._compiled(ordered.limit(bindparam("limit")))

    def _live_instances(self) -> Statement:
        """Return the statement that selects the next :limit live instances, sorted by creation.

        The previous page ended with the instance :uuid, created at :at_s.
        """
        table = schema.instances.c
        place = tuple_(table.created_at_s, table.uuid)
        return self._compiled(
            select(table.body.label("item"))
            # `ix_instances_newest` is partial, and SQLite uses it only if the query repeats its
            # condition.
            .where(table.is_live, table.status != literal_column("'DELETED'"))
            .where(place > tuple_(bindparam("at_s"), bindparam("uuid")))
            .order_by(table.created_at_s, table.uuid)
            .limit(bindparam("limit"))
        )

    def instances(self, query: InstanceQuery) -> Statement:
        """Return the statement for the instances that match a query, newest first.

        Its parameters have the names of the query's fields; :marker_at_s is the time when the
        instance `marker` was created.
        """
        asked = [name for name in EQUAL_FIELDS if getattr(query, name) is not None]
        asked += [n for n in ("changed_since_s", "marker") if getattr(query, n) is not None]
        return self._instances_with(tuple(asked), query.deleted, query.soft_too)

    def _instances_of(
        self,
        asked: tuple[str, ...],
        deleted: bool | None,  # noqa: FBT001 - part of a cache key
        soft_too: bool,  # noqa: FBT001 - part of a cache key
    ) -> Statement:
        table = schema.instances.c
        found = select(table.body.label("item"))
        for name in asked:
            if name in EQUAL_FIELDS:
                found = found.where(table[name] == bindparam(name))
        if deleted is not None:
            statuses = (Status.DELETED, *([Status.SOFT_DELETED] if soft_too else []))
            gone = [table.status == literal_column(f"'{status}'") for status in statuses]
            # Each status has a condition of its own, because SQLite uses the partial index only if
            # the query contains the index's own condition.
            found = found.where(or_(*gone)) if deleted else found.where(*(~one for one in gone))
        if "changed_since_s" in asked:
            found = found.where(table.updated_at_s >= bindparam("changed_since_s"))
        if "marker" in asked:
            place = tuple_(table.created_at_s, table.uuid)
            found = found.where(place < tuple_(bindparam("marker_at_s"), bindparam("marker")))
        newest = found.order_by(table.created_at_s.desc(), table.uuid.desc())
        return self._compiled(newest.limit(bindparam("limit")))

    def _status_counts(self) -> Statement:
        """Return the statement that counts instances by status, without deleted ones.

        An item is `[status, count]`. An index contains all columns that the statement needs.
        """
        status = schema.instances.c.status
        item = _item(_quoted(status), _digits(func.count()))
        kept = select(item).where(status != literal_column(f"'{Status.DELETED}'"))
        return self._compiled(kept.group_by(status))

    def _live_migrations(self) -> Statement:
        """Return the statement that selects all migrations that have not ended."""
        table = schema.migrations.c
        live = select(table.body.label("item")).where(schema.MIGRATION_IS_LIVE)
        return self._compiled(live.order_by(table.uuid))

    def migrations(self, query: MigrationQuery) -> Statement:
        """Return the statement for the migrations that match a query, newest first.

        Its parameters have the names of the query's fields; :marker_at_s is the time when the
        migration `marker` was created.
        """
        asked = [name for name in query.__slots__ if getattr(query, name) is not None]
        return self._migrations_with(tuple(asked), query.is_live)

    def _migrations_of(
        self,
        asked: tuple[str, ...],
        is_live: bool | None,  # noqa: FBT001 - part of a cache key
    ) -> Statement:
        table = schema.migrations.c
        found = select(table.body.label("item"))
        if is_live is not None:
            found = found.where(schema.MIGRATION_IS_LIVE if is_live else schema.MIGRATION_IS_OVER)
        for name in MIGRATION_FIELDS:
            if name in asked:
                found = found.where(table[name] == bindparam(name))
        if "host" in asked:
            sides = (table.source_host, table.destination_host)
            found = found.where(or_(*(side == bindparam("host") for side in sides)))
        if "changed_since_s" in asked:
            found = found.where(table.updated_at_s >= bindparam("changed_since_s"))
        if "changed_before_s" in asked:
            found = found.where(table.updated_at_s <= bindparam("changed_before_s"))
        if "marker" in asked:
            place = tuple_(table.created_at_s, table.uuid)
            found = found.where(place < tuple_(bindparam("marker_at_s"), bindparam("marker")))
        newest = found.order_by(table.created_at_s.desc(), table.uuid.desc())
        return self._compiled(newest.limit(bindparam("limit")))

    def _decisions(self) -> Statement:
        """Return the statement that selects the decision :key and those from :low to :high.

        The upper bound is excluded. The newest `DECISIONS_MAX` decisions are selected.
        """
        table = schema.decisions.c
        derived = and_(table.request_id >= bindparam("low"), table.request_id < bindparam("high"))
        found = (
            select(table.body.label("item"))
            .where(or_(table.request_id == bindparam("key"), derived))
            .order_by(table.decided_at_s.desc(), table.request_id.desc())
            .limit(DECISIONS_MAX)
        )
        return self._compiled(found)

    def _actions(self) -> Statement:
        """Return the statement that selects the actions on the instance :key."""
        table = schema.actions.c
        return self._compiled(
            select(table.body.label("item")).where(table.instance_uuid == bindparam("key"))
        )

    def _audit_block(self) -> Statement:
        """Return the statement that selects the newest block with a key of at most :key."""
        table = schema.audit_blocks.c
        found = select(table.body.label("item")).where(table.key <= bindparam("key"))
        return self._compiled(found.order_by(table.key.desc()).limit(1))

    def _audit_blocks(self) -> Statement:
        """Return the statement that selects :limit blocks with a key of at least :key, in order."""
        table = schema.audit_blocks.c
        found = select(table.body.label("item")).where(table.key >= bindparam("key"))
        return self._compiled(found.order_by(table.key).limit(bindparam("limit")))

    def _allocations(self, by: tuple[str, ...]) -> Statement:
        """Return the statement that selects allocations, each as `[[consumer, provider], amounts]`.

        Each column in `by` must equal the parameter with the name of the column.
        """
        table = schema.allocations.c
        pair = getattr(func, _JSON_ARRAY[self.dialect])(table.consumer_uuid, table.provider_uuid)
        found = select(_item(sql_cast(pair, Text), table.amounts))
        for name in by:
            found = found.where(table[name] == bindparam(name))
        return self._compiled(found)

    def _holdings(self, by: HoldingsBy) -> Statement:
        """Return the statement that selects the allocations whose column `by` equals :key.

        An item is `[[consumer, provider], amounts, record, owner]`. `record` is the body of the
        consumer's record, or null if it has none. `owner` gives the fields of an `InstanceOwner` if
        the consumer is an instance without a record, and is null otherwise.
        """
        held, records = schema.allocations, schema.consumers
        instances = schema.instances
        key: BindParameter[str] = bindparam("key")
        pair = getattr(func, _JSON_ARRAY[self.dialect])(held.c.consumer_uuid, held.c.provider_uuid)
        null = literal_column("'null'", Text)
        is_derived = and_(records.c.uuid.is_(None), instances.c.uuid.is_not(None))
        instance = case((is_derived, literal_column(_OWNER[self.dialect], Text)), else_=null)
        item = _item(
            sql_cast(pair, Text), held.c.amounts, func.coalesce(records.c.body, null), instance
        )
        joined = held.outerjoin(records, records.c.uuid == held.c.consumer_uuid).outerjoin(
            instances, instances.c.uuid == held.c.consumer_uuid
        )
        found = select(item).select_from(joined)
        if by != "project_id":
            return self._compiled(found.where(held.c[by] == key))
        # The statement is a union, because no index serves an OR over columns of two tables.
        return self._compiled(
            union_all(
                found.where(records.c.project_id == key),
                found.where(records.c.uuid.is_(None), instances.c.project_id == key),
            )
        )

    def _trims(self) -> tuple[Statement, ...]:
        """Return the statements that delete the history that retention no longer covers, in order.

        They delete the changes up to version :floor, the claim keys from before :before_s, and all
        decisions older than the newest :kept + 1. They also delete instances that were
        deleted before :deleted_before_s, with their actions and migrations, unless one of these
        migrations has not ended.
        """
        newest = schema.decisions.alias()
        edge = (
            select(newest.c.decided_at_s)
            .order_by(newest.c.decided_at_s.desc())
            .limit(1)
            .offset(bindparam("kept"))
            .scalar_subquery()
        )
        head, changes = schema.head, schema.changes
        instances, actions, migrations = schema.instances, schema.actions, schema.migrations
        # A host that was down during an evacuation learns from the migration which leftovers it
        # must delete.
        is_moved = exists().where(
            migrations.c.instance_uuid == instances.c.uuid, schema.MIGRATION_IS_LIVE
        )
        is_forgotten = (
            instances.c.status == Status.DELETED,
            instances.c.updated_at_s < bindparam("deleted_before_s"),
            ~is_moved,
        )
        forgotten = select(instances.c.uuid).where(*is_forgotten)
        return tuple(
            self._compiled(statement)
            for statement in (
                head.update().values(feed_floor=bindparam("floor")),
                delete(changes).where(changes.c.version <= bindparam("floor")),
                delete(schema.claim_keys).where(schema.claim_keys.c.at_s < bindparam("before_s")),
                delete(schema.decisions).where(schema.decisions.c.decided_at_s < edge),
                # Actions and migrations are selected by their instances, so they are deleted first.
                delete(actions).where(actions.c.instance_uuid.in_(forgotten)),
                delete(migrations).where(migrations.c.instance_uuid.in_(forgotten)),
                delete(instances).where(*is_forgotten),
            )
        )


@cache
def remote_instances_statement(dialect: DialectName, by: tuple[str, ...]) -> Statement:
    """Return the statement that selects remote instances.

    Each column in `by` must equal the parameter with the name of the column.
    """
    table = schema.errands.c
    found = select(table.body.label("item"))
    for name in by:
        found = found.where(table[name] == bindparam(name))
    return compiled(found, dialect)
