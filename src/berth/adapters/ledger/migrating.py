"""Bringing the schema of a SQL ledger to the version that this Berth knows."""

import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from berth.adapters.ledger.sql.sqlite_file import BUSY_TIMEOUT_S, connect
from berth.domain.errors import LedgerError

SCHEMA: Final = "0004"
"""The newest revision in `migrations/versions`."""

FIND_REVISION: Final = "SELECT version_num FROM alembic_version"


def parse_url(url: str) -> URL:
    """Read a ledger's URL.

    Raises:
        LedgerError: it is none, or names no file or database.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise LedgerError(f"the ledger URL cannot be read; {_FORMS}") from None
    if parsed.drivername not in {"sqlite", "postgresql"}:
        raise LedgerError(f"{parsed.drivername!r} is no kind of ledger; {_FORMS}")
    if not parsed.database or parsed.database == ":memory:":
        raise LedgerError(f"the ledger URL names no file or database; {_FORMS}")
    return parsed


_FORMS: Final = "use memory: , sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def is_current_sqlite(path: Path) -> bool:
    """Tell whether a file has the newest schema already.

    Raises:
        LedgerError: it cannot be opened, or is no database.
    """
    connection = connect(path)
    try:
        found: list[tuple[str]] = connection.execute(FIND_REVISION).fetchall()
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return found == [(SCHEMA,)]


def migrate_sqlite(path: Path) -> None:
    """Bring a SQLite file, which is made if there is none, to the newest schema.

    Raises:
        LedgerError: it is newer than this Berth, or cannot be written.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_TIMEOUT_S}
    )

    @event.listens_for(engine, "connect")
    def _leave_transactions_to_us(connection: Any, _: object) -> None:  # noqa: ANN401 - untyped hook
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _lock_out_others(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    try:
        with engine.begin() as connection:
            upgrade(connection)
    except SQLAlchemyError as error:
        raise LedgerError(f"{path}: cannot be migrated: {error}") from error
    finally:
        engine.dispose()


def upgrade(connection: Connection) -> None:
    """Bring what is behind a connection to the newest schema, in its transaction.

    Raises:
        LedgerError: it is newer than this Berth.
    """
    # Imported here because it takes longer than all the rest, and is needed once in a lifetime.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "berth.adapters.ledger:migrations")
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise LedgerError(
            f"the ledger has schema {current!r} and this Berth knows none newer than {SCHEMA!r}: "
            "it was written by a newer Berth; upgrade this one"
        )
    command.upgrade(config, "head")
