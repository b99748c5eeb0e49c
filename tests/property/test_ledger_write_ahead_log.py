"""The write-ahead log of SQLite ledgers: every process reads its batches, and none is lost."""

import asyncio
import itertools
import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.adapters.ledger import MemoryLedger, SqliteLedger, migrate, open_ledger
from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.sql.row_batch import RowBatch
from berth.adapters.ledger.sql.schema import metadata
from berth.adapters.ledger.sqlite import transactor as transactor_module
from berth.adapters.ledger.sqlite.sqlite_file import connect
from berth.adapters.ledger.sqlite.transactor import Transactor
from berth.adapters.ledger.wal.write_ahead_log import merge_batches
from berth.domain.compute.decision import Decision
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import KINDS, Kind, PendingRequest, Record
from berth.domain.ledger.write import Add, Free, Heartbeats, Put, Remove, Take, Unit, Write
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.testing.builders import (
    make_action,
    make_claim,
    make_decision,
    make_flavor,
    make_fleet,
    make_instance,
    make_pending_request,
    make_provider,
    make_uuid,
)
from tests.property.ledger_writes import (
    CONSUMERS,
    actions,
    frees,
    guards,
    hand_overs,
    moves,
    reallocates,
    revises,
    withins,
)

HOSTS = 2
NUMBERS = range(1, 4)

# --- a small world in which batches often touch the same records ---

_numbers = st.sampled_from(NUMBERS)
_instances = st.builds(
    lambda number, revision, host, status, name: replace(
        make_instance(number, host=host), revision=revision, status=status, name=name
    ),
    _numbers,
    st.integers(0, 4),
    st.sampled_from((None, "host-1", "host-2")),
    st.sampled_from(Status),
    st.sampled_from(("one", "other")),
)
_providers = st.sampled_from((1, 2)).map(lambda number: make_provider(number, vcpus=6))
_waiting: st.SearchStrategy[Write] = st.one_of(
    st.builds(
        lambda number, key, on, vcpus: Take(
            replace(make_claim(number, on=on, amounts={VCPU: vcpus}), key=key)
        ),
        _numbers,
        st.sampled_from(("a", "b", "c", "d")),
        st.sampled_from((1, 2)),
        st.integers(1, 3),
    ),
    st.builds(Put, _instances),
    st.builds(Put, _numbers.map(make_decision)),
    st.builds(Add, _numbers.map(make_pending_request)),
    st.builds(Free, _numbers.map(lambda number: make_uuid("instance", number))),
    st.builds(Remove, st.just(Kind.PENDING_REQUEST), _numbers.map("req-{}".format)),
    st.builds(Remove, st.just(Kind.DECISION), _numbers.map("req-{}".format)),
    st.builds(
        Remove, st.just(Kind.INSTANCE), _numbers.map(lambda number: make_uuid("instance", number))
    ),
    st.builds(Heartbeats, st.just(("host-1", "host-2")), st.floats(0, 1e9, allow_nan=False)),
    reallocates(),
    reallocates(),
    hand_overs(),
    st.builds(Put, moves()),
    st.builds(Put, actions()),
    st.builds(
        Remove, st.just(Kind.MIGRATION), _numbers.map(lambda number: make_uuid("migration", number))
    ),
    frees(),
    guards(),
    withins(),
    withins(),
)
_rare: st.SearchStrategy[Write] = st.one_of(
    st.builds(Put, _numbers.map(make_flavor)),
    st.builds(Put, _providers),
    revises(_providers),
)
_units: st.SearchStrategy[Unit] = st.lists(
    st.one_of(*[_waiting] * 9, _rare), min_size=1, max_size=3
).map(tuple)
_batches = st.lists(_units, min_size=1, max_size=4)

_KEYS: list[tuple[type[Record], str]] = [
    *((noun, f"req-{number}") for noun in (PendingRequest, Decision) for number in NUMBERS),
    *((Instance, make_uuid("instance", number)) for number in NUMBERS),
    *((Provider, make_uuid("host", number)) for number in (1, 2)),
    *((Service, f"host-{number}") for number in (1, 2)),
    *((Consumer, uuid) for uuid in CONSUMERS),
    *((Migration, make_uuid("migration", number)) for number in NUMBERS),
    *((Action, make_action(number, of=of).key) for number in NUMBERS for of in (1, 2)),
]


async def _check_equal(ledger: Ledger, memory: Ledger) -> None:
    """Check that every read of a ledger returns what the one in memory returns."""
    for noun, key in _KEYS:
        assert await ledger.get(noun, key) == await memory.get(noun, key), (KINDS[noun], key)
    assert await ledger.version() == await memory.version()
    assert await ledger.changes(0) == await memory.changes(0)


async def _check_all_equal(ledger: Ledger, memory: Ledger) -> None:
    """Check that records, lists and sums of a ledger equal those of the one in memory."""
    await _check_equal(ledger, memory)
    assert await ledger.snapshot(0.0) == await memory.snapshot(0.0)
    assert await ledger.allocations() == await memory.allocations()
    assert await ledger.all(Decision) == await memory.all(Decision)
    assert await ledger.all(Consumer) == await memory.all(Consumer)
    for uuid in CONSUMERS:
        assert await ledger.consumer_allocations(uuid) == await memory.consumer_allocations(uuid)
    query = InstanceQuery(deleted=None)
    assert await ledger.instances(query) == await memory.instances(query)
    assert await ledger.migrations(MigrationQuery()) == await memory.migrations(MigrationQuery())
    of_project = await ledger.project_footprint("project-1")
    assert of_project == await memory.project_footprint("project-1")
    for number in (1, 2):
        uuid = make_uuid("instance", number)
        assert await ledger.actions(uuid) == await memory.actions(uuid)
    for name in ("one", "other"):
        query = InstanceQuery(name=name, deleted=None)
        assert await ledger.instances(query) == await memory.instances(query)


# --- the tests ---

_many = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
    deadline=None,
)
_files = itertools.count()


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """Run all examples of a test in one event loop."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite ledger with a fleet, to be copied for each example."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"

    async def fill() -> None:
        ledger = await open_ledger(f"sqlite:///{path}")
        await ledger.commit(make_fleet(HOSTS, vcpus=4))
        await ledger.close()

    asyncio.run(fill())
    return path


async def _memory() -> MemoryLedger:
    memory = MemoryLedger()
    await memory.commit(make_fleet(HOSTS, vcpus=4))
    return memory


def _copy(source: Path, folder: Path) -> Path:
    """Copy a database with SQLite's own log file, as a crash would leave it."""
    path = folder / f"{next(_files)}.db"
    for suffix in ("", "-wal"):
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{path}{suffix}")
    return path


@pytest.fixture(params=[10**6, 12], ids=["in one go", "step by step"])
def _rows_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make checkpoints run only on request, or a few rows at a time between batches."""
    monkeypatch.setattr(transactor_module, "_ROWS_MAX", request.param)


async def _check_sharing(path: Path, turns: Sequence[tuple[int, list[Unit]]], looks: bool) -> None:
    memory = await _memory()
    ledgers = [await open_ledger(f"sqlite:///{path}") for _ in range(2)]
    try:
        for writer, units in turns:
            assert await ledgers[writer].commit(units) == await memory.commit(units)
            for ledger in ledgers if looks else ():
                await _check_equal(ledger, memory)
        for ledger in ledgers:
            await _check_all_equal(ledger, memory)
    finally:
        for ledger in ledgers:
            await ledger.close()


@pytest.mark.usefixtures("_rows_max")
@_many
@given(turns=st.lists(st.tuples(st.integers(0, 1), _batches), max_size=8), looks=st.booleans())
def test_ledgers_on_one_file_are_one_ledger(
    turns: list[tuple[int, list[Unit]]],
    looks: bool,
    empty_file: Path,
    tmp_path: Path,
    loop: asyncio.Runner,
) -> None:
    """Two ledgers on one file return what one ledger in memory does, whichever of them writes."""
    loop.run(_check_sharing(_copy(empty_file, tmp_path), turns, looks))


def _keep(
    path: Path, batches: Sequence[tuple[list[Unit], int]], *, memory: MemoryLedger | None = None
) -> Iterator[Transactor]:
    """Commit batches, each followed by its number of checkpoint steps; yield the transactor."""
    with closing(connect(path)) as connection:
        transactor = Transactor(connection, retention=Retention(), now_s=lambda: 7.0)
        for units, steps in batches:
            transactor.begin()
            entry = transactor.apply_batch(units)
            transactor.commit()
            if memory is not None:
                assert entry.outcomes == asyncio.run(memory.commit(units))
            for _ in range(steps):
                if transactor.has_logged_batches:
                    transactor.begin(is_flushed=False)
                    transactor.checkpoint_step()
                    transactor.commit()
        yield transactor


_stepped = st.lists(st.tuples(_batches, st.integers(0, 5)), max_size=10)


@_many
@given(batches=_stepped)
def test_logged_batches_survive_a_crash(
    batches: list[tuple[list[Unit], int]], empty_file: Path, tmp_path: Path, loop: asyncio.Runner
) -> None:
    """A killed process leaves all committed batches, whatever checkpoint steps were done.

    The files are copied while the process is running, and opened as another ledger.
    """
    memory, path = loop.run(_memory()), _copy(empty_file, tmp_path)

    async def check(left_behind: Path) -> None:
        left = await open_ledger(f"sqlite:///{left_behind}")
        try:
            await _check_all_equal(left, memory)
        finally:
            await left.close()

    for _ in _keep(path, batches, memory=memory):
        loop.run(check(_copy(path, tmp_path)))


def _tables_of(path: Path) -> dict[str, list[list[object]]]:
    """Return the rows of all tables, with JSON decoded, since the order of its keys has no meaning.

    Every inventory of a provider gets the highest generation among them, which alone counts.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE inventories SET generation = (SELECT max(generation) FROM inventories AS others"
            " WHERE others.provider_uuid = inventories.provider_uuid)"
        )
        return {
            table.name: sorted(
                (
                    [_read(value) for value in row]
                    for row in connection.execute(f"SELECT * FROM {table.name}")  # noqa: S608 - own names
                ),
                key=repr,
            )
            for table in metadata.sorted_tables
        }


def _read(value: object) -> object:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    return json.loads(value, object_pairs_hook=sorted)


@_many
@given(batches=_stepped)
def test_merged_batches_equal_single_ones(
    batches: list[tuple[list[Unit], int]], empty_file: Path, tmp_path: Path
) -> None:
    """The tables are equal if batches are checkpointed together, in steps, or one by one."""
    found = []
    for steps_max in (0, 5, 100):
        path = _copy(empty_file, tmp_path)
        for transactor in _keep(
            path, [(units, min(steps * 30, steps_max)) for units, steps in batches]
        ):
            transactor.begin()
            transactor.checkpoint()
            transactor.commit()
        found.append(_tables_of(path))
    together, stepwise, apart = found
    assert together == stepwise == apart
    assert together["daybook"] == []


def test_the_newest_generation_is_written_if_usage_cancels_out() -> None:
    """A merge keeps each provider's newest generation, even on a class whose usage cancels out."""
    pages = [
        RowBatch(1, 1, spent=[("p", "A", 1, 1)], generations=[1]),
        RowBatch(2, 2, spent=[("p", "B", 1, 1), ("q", "A", 2, 2)], generations=[2, 5]),
        RowBatch(3, 3, spent=[("p", "A", -1, 0)], generations=[3]),
        RowBatch(4, 4, spent=[("q", "A", -1, 1)]),
    ]
    found = merge_batches(pages)
    rows = set(zip(found.spent, found.generations, strict=True))
    assert rows == {(("p", "B", 1, 1), 2), (("p", "A", 0, 0), 3), (("q", "A", 1, 1), 5)}
    found = merge_batches(pages[:1])
    assert (found.spent, found.generations) == (pages[0].spent, [1])


def test_only_checkpoint_steps_are_not_flushed(empty_file: Path, tmp_path: Path) -> None:
    """`begin` flushes to disk unless told otherwise, also after a step that was not flushed."""
    units: list[Unit] = [(Put(make_instance(1)),)]
    for transactor in _keep(_copy(empty_file, tmp_path), [(units, 1), (units, 1), (units, 1)]):
        for is_flushed in (True, False, True):
            transactor.begin(is_flushed=is_flushed)
            (level,) = transactor._connection.execute("PRAGMA synchronous").fetchone()
            assert level == (2 if is_flushed else 1)
            transactor.commit()


async def test_a_closed_ledger_leaves_an_empty_log(tmp_path: Path) -> None:
    """Closing a ledger moves its logged batches to the tables."""
    path = tmp_path / "ledger.db"
    await migrate(f"sqlite:///{path}")
    ledger = await open_ledger(f"sqlite:///{path}")
    assert isinstance(ledger, SqliteLedger)
    await ledger.commit(make_fleet(1))
    await ledger.commit([(Put(make_instance(1)),)])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM daybook").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM instances").fetchone() == (0,)
    await ledger.close()
    tables = _tables_of(path)
    assert (len(tables["daybook"]), len(tables["instances"])) == (0, 1)
