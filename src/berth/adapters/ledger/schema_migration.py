"""Migration of a SQL ledger's schema to the version of this Berth.

A ledger has two revisions: that of its tables, and the oldest one whose Berth can still use these
tables. With the second, processes of the previous version go on beside newer ones during an upgrade
(docs/adr/0023-versions-side-by-side.md).
"""

import sqlite3
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    inspect,
    make_url,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from berth.adapters.ledger.sqlite.sqlite_file import BUSY_TIMEOUT_S, connect
from berth.domain.errors import LedgerError

SCHEMA: Final = "0007"
"""The newest revision in `migrations/versions`."""

REVISION_TABLE: Final = "schema_revision"
"""The table in which Alembic keeps the revision of the tables."""

READERS_TABLE: Final = "alembic_version"
"""The table with the oldest revision whose Berth can use the tables.

Berths that know only one revision look for it in a table of this name. So they use a newer ledger
that they can work with, and refuse one that is too new.
"""

FIND_REVISION: Final = "SELECT version_num FROM schema_revision"
FIND_READABLE_BY: Final = "SELECT version_num FROM alembic_version"

_READERS: Final = Table(
    READERS_TABLE, MetaData(), Column("version_num", String(32), primary_key=True)
)


class Schema(NamedTuple):
    """The revision of a ledger's tables, and the oldest one whose Berth can use them.

    Revisions are numbers of four digits, so they compare as text.
    """

    revision: str
    readable_by: str

    @classmethod
    def of(cls, revision: str | None, readable_by: str | None) -> "Schema | None":
        """Return the schema recorded in the two tables; an older ledger has only one of them."""
        if revision is None and readable_by is None:
            return None
        return cls(revision or readable_by or "", readable_by or revision or "")

    @property
    def serves(self) -> bool:
        """Whether this Berth can use the tables without a migration: they are its own, or newer."""
        return self.revision >= SCHEMA

    def check(self) -> None:
        """Check that the ledger is not too new for this Berth.

        Raises:
            LedgerError: it is too new.
        """
        if self.readable_by > SCHEMA:
            raise LedgerError(
                f"the ledger has schema {self.revision!r}, which needs a Berth with schema "
                f"{self.readable_by!r} or newer; this one has {SCHEMA!r}: "
                "the ledger was written by a newer Berth; upgrade this one"
            )


def parse_url(url: str) -> URL:
    """Parse a ledger's URL.

    Raises:
        LedgerError: the URL is invalid, or names no file or database.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise LedgerError(f"the ledger URL is invalid; {_FORMS}") from None
    if parsed.drivername not in {"sqlite", "postgresql"}:
        raise LedgerError(f"{parsed.drivername!r} is not a kind of ledger; {_FORMS}")
    if not parsed.database or parsed.database == ":memory:":
        raise LedgerError(f"the ledger URL names no file or database; {_FORMS}")
    return parsed


_FORMS: Final = "use memory: , sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def schema_of_sqlite(path: Path) -> Schema | None:
    """Return the schema of a file, or None if it has no tables.

    Raises:
        LedgerError: the file cannot be opened, or is no database.
    """
    connection = connect(path)

    def ask(query: str) -> str | None:
        try:
            found: tuple[str] | None = connection.execute(query).fetchone()
        except sqlite3.OperationalError:
            return None
        return None if found is None else found[0]

    try:
        return Schema.of(ask(FIND_REVISION), ask(FIND_READABLE_BY))
    finally:
        connection.close()


def migrate_sqlite(path: Path) -> None:
    """Migrate a SQLite file to the newest schema, creating the file if necessary.

    Raises:
        LedgerError: the file is newer than this Berth, or cannot be written.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_TIMEOUT_S}
    )

    @event.listens_for(engine, "connect")
    def _leave_transactions_to_us(connection: Any, _: object) -> None:  # noqa: ANN401 - untyped hook
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _lock_out_others(connection: Connection) -> None:
        # The write lock from the start: of processes that start together one migrates, and the
        # others wait and find the schema current. Left to itself, sqlite3 would begin no
        # transaction for DDL, and a crash could leave half a migration.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            upgrade(connection)
    except SQLAlchemyError as error:
        raise LedgerError(f"{path}: cannot be migrated: {error}") from error
    finally:
        engine.dispose()


def upgrade(connection: Connection) -> None:
    """Migrate the tables of a connection to the newest schema, in its transaction.

    Raises:
        LedgerError: the ledger is newer than this Berth.
    """
    # Imported here because Alembic takes longer to load than everything else, and is needed only
    # when a ledger is created or upgraded.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    found = _schema_behind(connection)
    if found is not None:
        found.check()
        if found.serves:
            return
    config = Config()
    config.set_main_option("script_location", "berth.adapters.ledger:migrations")
    config.attributes["connection"] = connection
    if found is not None:
        command.stamp(config, found.revision)
    before = "base" if found is None else found.revision
    steps = [*ScriptDirectory.from_config(config).iterate_revisions("head", before)]
    command.upgrade(config, "head")
    readers = [str(getattr(step.module, "readable_by", step.revision)) for step in steps]
    # The highest of the steps that were run, and never lower than before: a Berth that could not
    # use an intermediate revision cannot use the result.
    _set_readable_by(connection, max([*readers, "" if found is None else found.readable_by]))


def _schema_behind(connection: Connection) -> Schema | None:
    names = set(inspect(connection).get_table_names())

    def ask(table: str, query: str) -> str | None:
        if table not in names:
            return None
        found: str | None = connection.exec_driver_sql(query).scalar()
        return found

    return Schema.of(ask(REVISION_TABLE, FIND_REVISION), ask(READERS_TABLE, FIND_READABLE_BY))


def _set_readable_by(connection: Connection, revision: str) -> None:
    _READERS.create(connection, checkfirst=True)
    connection.execute(_READERS.delete())
    connection.execute(_READERS.insert().values(version_num=revision))
