"""Migration of a SQL ledger's schema to the revision of this version of Berth.

A ledger records two revisions: that of its tables, and the oldest revision whose version of Berth
can still use these tables. The second lets processes of the previous version keep working next to
newer ones during an upgrade (docs/adr/0023-versions-side-by-side.md).
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
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from berth.adapters.ledger.sqlite.sqlite_file import BUSY_TIMEOUT_S, connect
from berth.domain.errors import LedgerError

SCHEMA: Final = "0013"
"""The newest revision in `migrations/versions`."""

REVISION_TABLE: Final = "schema_revision"
"""The table in which Alembic keeps the revision of the tables."""

READERS_TABLE: Final = "alembic_version"
"""The table with the oldest revision that can still use the tables.

Versions of Berth that know of only one revision read it from the table of this name. They
therefore accept a newer ledger that they can use, and reject one that is too new.
"""

FIND_REVISION: Final = "SELECT version_num FROM schema_revision"
"""The query for the revision of the tables."""
FIND_READABLE_BY: Final = "SELECT version_num FROM alembic_version"
"""The query for the oldest revision that can still use the tables."""

_READERS: Final = Table(
    READERS_TABLE, MetaData(), Column("version_num", String(32), primary_key=True)
)


class Schema(NamedTuple):
    """The revision of a ledger's tables, and the oldest revision that can still use them.

    A revision is a string of four digits, so revisions can be compared as strings.
    """

    revision: str
    readable_by: str

    @classmethod
    def of(cls, revision: str | None, readable_by: str | None) -> "Schema | None":
        """Return the schema with these two revisions, or None if both are None.

        An older ledger records only one revision, which then stands for both.
        """
        if revision is None and readable_by is None:
            return None
        return cls(revision or readable_by or "", readable_by or revision or "")

    @property
    def serves(self) -> bool:
        """Whether no migration is needed, because the tables have this revision or a newer one."""
        return self.revision >= SCHEMA

    def check(self) -> None:
        """Check that the ledger is not too new for this version of Berth.

        Raises:
            LedgerError: only a newer version of Berth can use the tables.
        """
        if self.readable_by > SCHEMA:
            raise LedgerError(
                f"a newer Berth has migrated the ledger to schema {self.revision!r}, which needs a "
                f"Berth with schema {self.readable_by!r} or newer, but this Berth has schema "
                f"{SCHEMA!r}; upgrade this Berth"
            )


def schema_of_sqlite(path: Path) -> Schema | None:
    """Return the schema of a SQLite file, or None if it has no tables; create a missing file.

    Raises:
        LedgerError: the file cannot be opened, or is not a database.
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
        LedgerError: the schema is too new for this version of Berth, or the file cannot be written.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_TIMEOUT_S}
    )

    @event.listens_for(engine, "connect")
    def _leave_transactions_to_us(connection: Any, _: object) -> None:  # noqa: ANN401 - untyped hook
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _lock_out_others(connection: Connection) -> None:
        # IMMEDIATE takes the write lock before the schema is read. If several processes start
        # together, one of them migrates; the others wait and then find the schema current. By
        # default, sqlite3 begins no transaction for DDL, so a crash could leave half a migration.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            upgrade(connection)
    except SQLAlchemyError as error:
        raise LedgerError(
            f"the SQLite ledger {path} cannot be migrated ({error}); check that the file is "
            "writable and that no other program locks it"
        ) from error
    finally:
        engine.dispose()


def upgrade(connection: Connection) -> None:
    """Migrate the tables that a connection reaches to the newest schema, in its open transaction.

    Tables that already have the newest schema known here, or a newer one, are left unchanged.

    Raises:
        LedgerError: the schema is too new for this version of Berth.
    """
    # Imported here because Alembic takes long to load, and is needed only when a ledger is created
    # or upgraded.
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
    # The result is the maximum over the steps that were run and the previous value, because a Berth
    # that cannot use an intermediate revision cannot use the final one either.
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
