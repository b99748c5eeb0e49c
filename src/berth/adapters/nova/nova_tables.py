"""Read-only access to the databases of Nova and Placement, on PostgreSQL, MariaDB or MySQL."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sqlalchemy import BindParameter, bindparam, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from berth.domain.errors import InvalidInputError, UnavailableError

Row = Mapping[str, Any]
"""A row by column name."""

_DRIVERS: Final[Mapping[str, str]] = {
    "postgresql": "postgresql+asyncpg",
    "mysql": "mysql+aiomysql",
    "mariadb": "mysql+aiomysql",
}
# The database refuses writes in the transaction, and all its reads see one snapshot.
_READ_ONLY: Final[Mapping[str, str]] = {
    "postgresql": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "mysql": "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
}
# The names that Nova's installation guide gives the databases.
_NAMES: Final = ("nova_api", "nova_cell0", "nova", "placement")


@dataclass(frozen=True, slots=True)
class DatabaseUrls:
    """The URLs of the databases of a Nova cloud.

    Attributes:
        api: Nova's API database.
        placement: Placement's database.
        cells: the databases of the cells, cell0 included.
    """

    api: str
    placement: str
    cells: tuple[str, ...] = field(default_factory=tuple[str, ...])


def database_urls(
    server: str, *, api: str = "", placement: str = "", cells: Sequence[str] = ()
) -> DatabaseUrls:
    """Return the URLs of all databases.

    Args:
        server: the URL of the server, for the databases whose URL is not given: these have the
            names of Nova's installation guide.
        api: the URL of Nova's API database; empty for `nova_api` on the server.
        placement: that of Placement's database; empty for `placement`.
        cells: those of all cells; empty for `nova_cell0` and `nova`.

    Raises:
        InvalidInputError: a URL is invalid or names a kind of database that is not supported.
    """
    base = checked_url(server)
    there = {name: base.set(database=name).render_as_string(hide_password=False) for name in _NAMES}
    found = DatabaseUrls(
        api=api or there["nova_api"],
        placement=placement or there["placement"],
        cells=tuple(cells) or (there["nova_cell0"], there["nova"]),
    )
    for url in (found.api, found.placement, *found.cells):
        checked_url(url)
    return found


def checked_url(text_of_url: str) -> URL:
    """Return a URL with the driver that Berth uses, whatever driver Nova's URL names.

    Raises:
        InvalidInputError: the URL is invalid, or names a kind of database that is not supported.
    """
    try:
        url = make_url(text_of_url)
    except ArgumentError as error:
        raise InvalidInputError("--from-db", "is no URL of a database") from error
    kind = url.get_backend_name()
    if kind not in _DRIVERS:
        known = ", ".join(sorted(_DRIVERS))
        raise InvalidInputError("--from-db", f"{kind[:40]!r} is unknown; use one of {known}")
    # Nova's own URLs have options of other drivers (charset, plugin).
    return url.set(drivername=_DRIVERS[kind], query={})


class TableReader(Protocol):
    """Reads the tables of a database."""

    async def rows(self, statement: str, **values: int | Sequence[str]) -> list[Row]:
        """Return the rows of a query; see `Tables.rows`."""
        ...


class Tables:
    """Reads tables in one transaction, in which the database refuses writes.

    Args:
        connection: the connection, in a read-only transaction.
        name: the database, for errors.
    """

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self._connection = connection
        self._name = name

    async def rows(self, statement: str, **values: int | Sequence[str]) -> list[Row]:
        """Return the rows of a query.

        Args:
            statement: the query, with names that MySQL reserves in backticks.
            values: the parameters of the query; a sequence is for `IN`.

        Raises:
            InvalidInputError: a table or a column does not exist, so the schema is another one.
        """
        query = text(self._quoted(statement))
        for name, value in values.items():
            if not isinstance(value, int):
                parameter: BindParameter[object] = bindparam(name, expanding=True)
                query = query.bindparams(parameter)
        try:
            found = await self._connection.execute(query, values)
        except SQLAlchemyError as error:
            raise InvalidInputError(
                self._name, f"cannot be read as Nova's or Placement's: {_reason(error)}"
            ) from error
        return [dict(row) for row in found.mappings()]

    def _quoted(self, statement: str) -> str:
        """Return a query with the quotes of this kind of database."""
        is_mysql = self._connection.dialect.name == "mysql"
        return statement if is_mysql else statement.replace("`", '"')


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Tables]:
    """Open a database for reading only.

    Raises:
        UnavailableError: the database cannot be reached.
        InvalidInputError: the URL is invalid, or the driver is not installed.
    """
    parsed = checked_url(url)
    name = f"database {parsed.database}"
    try:
        engine = create_async_engine(parsed)
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            name, "needs aiomysql; install it with `pip install berth-scheduler[mysql]`"
        ) from error
    try:
        async with engine.connect() as connection:
            await connection.execute(text(_READ_ONLY[parsed.get_backend_name()]))
            yield Tables(connection, name)
    except (SQLAlchemyError, OSError) as error:
        raise UnavailableError(
            f"{name} on {parsed.host or 'localhost'} cannot be read ({_reason(error)}); check the "
            "URL, and that the account may connect and SELECT"
        ) from error
    finally:
        await engine.dispose()


def _reason(error: BaseException) -> str:
    """Return the first line of an error, without the statement that SQLAlchemy appends."""
    return str(error).split("\n", 1)[0][:300]
