"""Hypothesis profiles, garbage collection, the order of tests, and fixtures for servers."""

import asyncio
import gc
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from _pytest.nodeid import coerce_node_id
from httpx._transports import default
from hypothesis import HealthCheck, settings
from starlette import routing

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.adapters.ledger.opening import migrate, schema_of
from berth.adapters.ledger.schema_migration import SCHEMA
from berth.scheduling.engine.kernel import kernel, using
from berth.testing.emptying import empty
from tests.forks import forks
from tests.rabbit import own_broker, remove

# pytest must rewrite the assertions of these modules before a test imports them.
pytest.register_assert_rewrite(
    "berth.testing.ledger_conformance",
    "berth.testing.bus_conformance",
    "berth.testing.driver_conformance",
    "tests.e2e.outages.tenants",
)

# httpx looks for this package on the whole path before each request to an application, although it
# is not installed; None tells Python so at once.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type] # as importlib documents

# httpx parses the certificates of all authorities for each client that is given no context, which
# takes 16 ms, fifty times as long as the request; tests create a client for each request.
default.create_ssl_context = cache(default.create_ssl_context)  # type: ignore[attr-defined]

# Starlette compiles the same hundred paths for each application, and most tests build one.
routing.compile_path = cache(routing.compile_path)

_SERVER = os.environ.get("BERTH_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
_CONNECT_TIMEOUT_S = 5

# There are no deadlines, because other load on the machine would break them.
# The default profile tries the same examples each time, so a test that passed keeps passing until
# code or test change; `make fuzz` tries new ones.
# Fixtures such as `engine` may hold for all examples of a test, so that check is off.
_QUIET = [HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,
    derandomize=True,
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("BERTH_FUZZ_EXAMPLES", "1000")),
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.load_profile("fuzz" if "BERTH_FUZZ_EXAMPLES" in os.environ else "default")


_MINUTES = {
    "test_a_minute",
    "test_candidates",
    "test_openb_replay",
    "test_real_guests",
    "test_suite",
}
_LONG = {
    "e2e",
    "simulation",
    "test_actions",
    "test_api_openapi",
    "test_bench_peer",
    "test_driver",
    "test_ledger",
    "test_libvirt_driver",
    "test_nova",
    "test_packing_quality",
    "test_placement_openapi",
    "test_qemu_agent_deaths",
    "test_sessions",
    "test_writes",
    "test_zone_leaks",
}
"""Folders and files whose tests take about twenty seconds; those in `_MINUTES` take longer."""


_GARBAGE = 10_000
"""The number of new objects after which Python looks for garbage among them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave out of all later garbage collections what was imported and collected.

    These are about a million objects that live as long as the process. To look at them again and
    again took a fifteenth of the processor time of the fast tests.
    """
    gc.disable()
    done = yield
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    gc.enable()
    return done


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test a unique id, and run those that take longest first.

    The tests that schemathesis makes from one function share its id, and pytest-xdist runs only the
    first of several tests with one id. A file that takes minutes would otherwise keep one worker
    busy at the end while the others have nothing left to do.
    """
    items.sort(key=_haste)
    for item in items:
        if not item.nodeid.endswith(item.name):
            item._id = coerce_node_id(f"{item.nodeid.rpartition('::')[0]}::{item.name}")


def _haste(item: pytest.Item) -> int:
    names = {*item.path.parts, item.path.stem}
    return 0 if names & _MINUTES else 1 if names & _LONG else 2


@pytest.fixture(scope="session", autouse=True)
def _end_of_forks() -> Iterator[None]:
    """End the process that starts `berth` processes, if a test has used it."""
    yield
    if forks.cache_info().currsize:
        forks().__exit__()


@pytest.fixture(params=["numpy", "kernel"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test with NumPy alone and with the kernel; skip the latter if none is compiled."""
    way = str(request.param)
    found = kernel()
    if way == "kernel" and found is None:
        pytest.skip("no kernel is installed: make kernel")
    with using(found if way == "kernel" else None):
        yield way


@pytest.fixture(scope="session")
def virtual_host() -> Iterator[RabbitBroker]:
    """Yield a virtual host of a RabbitMQ server, one for each worker, and remove it at the end."""
    with own_broker() as made:
        yield made


@pytest.fixture
def broker(virtual_host: RabbitBroker) -> Iterator[RabbitBroker]:
    """Yield the virtual host with a prefix for exchanges and queues that only this test uses."""
    broker = replace(virtual_host, prefix=f"{virtual_host.prefix}_{secrets.token_hex(4)}")
    yield broker
    asyncio.run(remove(broker))


@pytest.fixture(scope="session")
def _empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite file with an empty ledger, to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "empty.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture
def fresh_sqlite_url(_empty_sqlite: Path, tmp_path: Path) -> str:
    """Return the URL of a SQLite file that only this test uses, with an empty ledger.

    The file is a copy, because each creation of the tables takes 50 ms.
    """
    path = tmp_path / "ledger.db"
    shutil.copyfile(_empty_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Yield the URL of a PostgreSQL database, one for each worker, and drop it at the end.

    The tests of a worker share the database, so each has to empty it first.
    """
    with _database() as url:
        yield url


@pytest.fixture
def bare_postgres_url() -> Iterator[str]:
    """Yield the URL of a PostgreSQL database without tables, and drop it at the end."""
    with _database() as url:
        yield url


@pytest.fixture(scope="module")
def new_database() -> Iterator[Callable[[], str]]:
    """Yield a function that creates a PostgreSQL database and returns its URL; drop all at the end.

    For tests of a file that share a server of another project, which needs databases of its own.
    """
    with ExitStack() as stack:
        yield lambda: stack.enter_context(_database())


@pytest.fixture(scope="session")
def _idle_databases() -> Iterator[list[str]]:
    """Yield the URLs of empty ledgers that no test uses, and drop them at the end."""
    idle: list[str] = []
    with ExitStack() as stack:
        yield idle
        for url in idle:
            stack.callback(_drop, url)


@pytest.fixture
def fresh_postgres_url(_idle_databases: list[str]) -> Iterator[str]:
    """Yield the URL of a PostgreSQL database of this test, with an empty ledger or no tables.

    A later test gets the same database, because to create, migrate and drop one takes seconds.
    """
    if not _idle_databases:
        _idle_databases.append(_create())
    url = _idle_databases.pop()
    yield url
    if asyncio.run(_emptied(url)):
        _idle_databases.append(url)
    else:
        _drop(url)


@contextmanager
def _database() -> Generator[str]:
    """Yield the URL of a new database and drop the database at the end."""
    url = _create()
    yield url
    _drop(url)


def _create() -> str:
    """Create a database and return its URL.

    The server is that of `BERTH_TEST_POSTGRES_URL`, whose user must be allowed to create
    databases. Without a server the test is skipped.
    """
    name = f"berth_test_{os.getpid()}_{secrets.token_hex(4)}"
    try:
        asyncio.run(_execute(_SERVER, f"CREATE DATABASE {name}"))
    except (OSError, TimeoutError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        pytest.skip(f"no PostgreSQL server at {_without_password(_SERVER)}: {error}")
    # No test stops this server, so no commit has to wait for the disk.
    asyncio.run(_execute(_SERVER, f"ALTER DATABASE {name} SET synchronous_commit = off"))
    return urlsplit(_SERVER)._replace(path=f"/{name}").geturl()


def _drop(url: str) -> None:
    asyncio.run(_execute(_SERVER, f"DROP DATABASE {urlsplit(url).path[1:]} WITH (FORCE)"))


async def _emptied(url: str) -> bool:
    """Close all connections to a ledger and empty it; return False if it has another schema."""
    await _execute(
        url,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid != pg_backend_pid()",
    )
    schema = await schema_of(url)
    if schema is None or schema.revision != SCHEMA:
        return False
    await empty(url)
    return True


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, timeout=_CONNECT_TIMEOUT_S)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
