"""Laws of the ledger, for any sequence of writes, on every adapter."""

import asyncio
import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.adapters.ledger import MemoryLedger, migrate, open_ledger
from berth.adapters.ledger.engine.codec import decode_event, encode, event_kind
from berth.domain.compute.instance import Instance, Status
from berth.domain.inventory.allocation import Claim, Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import MEMORY_MB, VCPU, Inventory, ResourceClass, Trait
from berth.domain.ledger.change import Snapshot
from berth.domain.ledger.record import KINDS_NOT_IN_FEED, Record, key_of, kind_of
from berth.domain.ledger.write import (
    Add,
    Committed,
    Free,
    Heartbeats,
    Outcome,
    Put,
    Rejected,
    Remove,
    Take,
    Unit,
    Write,
)
from berth.ports.ledger import Ledger, MigrationQuery
from berth.testing.builders import (
    make_aggregate,
    make_allocation,
    make_decision,
    make_flavor,
    make_fleet,
    make_host,
    make_instance,
    make_pending_request,
    make_provider,
    make_server_group,
    make_service,
    make_uuid,
)
from berth.testing.emptying import empty
from berth.testing.strategies import records
from tests.property.feed_follower import Follower
from tests.property.ledger_writes import (
    CONSUMERS,
    actions,
    frees,
    guards,
    hand_overs,
    moves,
    reallocates,
    revises,
)

NOW_S = 1_000.0

# --- a small world, in which writes often collide ---

_numbers = st.integers(1, 3)
_amounts = st.dictionaries(
    st.sampled_from((VCPU, MEMORY_MB, "CUSTOM_FPGA")), st.integers(1, 4), min_size=1
)
_inventories = st.dictionaries(
    st.sampled_from((VCPU, MEMORY_MB)),
    st.builds(
        Inventory,
        total=st.integers(2, 6),
        reserved=st.integers(0, 2),
        max_unit=st.sampled_from((0, 0, 3)),
        step_size=st.sampled_from((1, 1, 2)),
        allocation_ratio=st.sampled_from((1.0, 1.5)),
    ),
)
_providers = st.builds(
    lambda number, inventories: replace(make_provider(number), inventories=inventories),
    _numbers,
    _inventories,
)
_instances = st.builds(
    lambda number, revision, host, status: replace(
        make_instance(number, host=host), revision=revision, status=status
    ),
    _numbers,
    st.integers(0, 3),
    st.sampled_from((None, "host-1")),
    st.sampled_from(Status),
)
_plain: st.SearchStrategy[Record] = st.one_of(
    _numbers.map(make_host),
    _numbers.map(make_service),
    _numbers.map(make_aggregate),
    _numbers.map(make_server_group),
    _numbers.map(make_flavor),
    _numbers.map(make_pending_request),
    _numbers.map(make_decision),
    _numbers.map(lambda number: ResourceClass(f"CUSTOM_{number}", number)),
    _numbers.map(lambda number: Trait(f"CUSTOM_{number}", number)),
    moves(),
    actions(),
)
_records: st.SearchStrategy[Record] = _providers | _instances | _plain
_takes = st.builds(
    lambda key, allocations: Take(Claim(f"claim-{key}", tuple(allocations))),
    st.integers(1, 6),
    st.lists(st.builds(make_allocation, _numbers, on=_numbers, amounts=_amounts), max_size=3),
)
_removals = st.builds(
    lambda record: Remove(kind_of(record), key_of(record)),
    _records,
)
_writes: st.SearchStrategy[Write] = st.one_of(
    _takes,
    _takes,
    st.builds(Put, _providers),
    st.builds(Put, _records),
    st.builds(Add, _records),
    _removals,
    st.builds(Free, _numbers.map(lambda number: make_uuid("instance", number))),
    reallocates(),
    reallocates(),
    hand_overs(),
    revises(_providers),
    frees(),
    guards(),
    st.builds(
        Heartbeats,
        st.lists(_numbers.map("host-{}".format), max_size=3).map(tuple),
        st.floats(0, 1e9, allow_nan=False),
    ),
)
_units: st.SearchStrategy[Unit] = st.lists(_writes, max_size=4).map(tuple)
_batches = st.lists(_units, max_size=6)
_histories = st.lists(_batches, max_size=8) | st.lists(_batches, min_size=1, max_size=6).map(
    lambda batches: [make_fleet(2, vcpus=6), *batches]
)

# --- the laws ---


async def check_laws(ledger: Ledger, history: Sequence[Sequence[Unit]]) -> list[list[Outcome]]:
    """Commit a history and check every law; return the outcomes."""
    versions: dict[str, int] = {}
    answers: list[list[Outcome]] = []
    version = 0
    for batch in history:
        outcomes = await ledger.commit(batch)
        assert len(outcomes) == len(batch)
        for unit, outcome in zip(batch, outcomes, strict=True):
            keys = [write.claim.key for write in unit if isinstance(write, Take)]
            if isinstance(outcome, Rejected):
                assert bool(outcome.shortages) != (outcome.conflict is not None)
            elif outcome.repeated:
                assert [versions[key] for key in keys] == [outcome.version] * len(keys) != []
            else:
                version += 1
                assert outcome == Committed(version)
                assert not versions.keys() & set(keys)
                versions.update(dict.fromkeys(keys, version))
        answers.append(outcomes)
    assert await ledger.version() == version
    snapshot = await ledger.snapshot(NOW_S)
    await _check_feed(ledger, snapshot)
    await _check_used(ledger, snapshot)
    await _check_holdings(ledger)
    return answers


async def _check_feed(ledger: Ledger, snapshot: Snapshot) -> None:
    follower = Follower()
    while changes := await ledger.changes(follower.version, limit=3):
        follower.follow(changes)
    follower.check(snapshot)


async def _check_used(ledger: Ledger, snapshot: Snapshot) -> None:
    taken: Counter[tuple[str, str]] = Counter()
    for allocation in await ledger.allocations():
        for name, amount in allocation.amounts.items():
            taken[allocation.provider_uuid, name] += amount
    used = {(p.uuid, name): n for p in snapshot.providers for name, n in p.used.items()}
    assert {place: amount for place, amount in used.items() if amount} == dict(taken)


async def _check_holdings(ledger: Ledger) -> None:
    """Check that each holder of allocations has a consumer, and that no other consumer exists."""
    held: dict[str, dict[str, Mapping[str, int]]] = {}
    for one in await ledger.allocations():
        held.setdefault(one.consumer_uuid, {})[one.provider_uuid] = one.amounts
    for uuid, allocations in held.items():
        holding = await ledger.consumer_allocations(uuid)
        assert holding is not None
        assert (holding.consumer.uuid, holding.allocations) == (uuid, allocations)
        assert holding.consumer.generation > 0
    assert {consumer.uuid for consumer in await ledger.all(Consumer)} <= held.keys()


async def _all_history(ledger: Ledger) -> list[object]:
    return [
        await ledger.migrations(MigrationQuery()),
        await ledger.migrations(MigrationQuery(host="host-2", changed_since_s=2.0)),
        [await ledger.actions(make_uuid("instance", number)) for number in (1, 2)],
    ]


async def _all_holdings(ledger: Ledger) -> list[object]:
    providers = await ledger.all(Provider)
    return [
        await ledger.all(Consumer),
        [await ledger.consumer_allocations(uuid) for uuid in CONSUMERS],
        [await ledger.provider_consumers(provider.uuid) for provider in providers],
        [await ledger.project_consumers("project-1", user) for user in (None, "user-2")],
        providers,
        [await ledger.get(Provider, provider.uuid) for provider in providers],
    ]


# --- the tests ---

_with_a_store = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=20,
)


@given(history=_histories)
async def test_laws_hold_in_memory(history: list[list[Unit]]) -> None:
    """MemoryLedger keeps every law: usage adds up, keys claim once, the feed is complete."""
    await check_laws(MemoryLedger(), history)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """Run all examples of a test in one event loop."""
    with asyncio.Runner() as runner:
        yield runner


_files = itertools.count()


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory, loop: asyncio.Runner) -> Path:
    """Return an empty SQLite ledger to copy, since migrating one per example takes too long."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"

    async def make() -> None:
        await (await open_ledger(f"sqlite:///{path}")).close()

    loop.run(make())
    return path


def _new_file(empty_file: Path) -> str:
    """Copy the empty ledger to a file that no example has used before."""
    path = empty_file.with_name(f"{next(_files)}.db")
    shutil.copyfile(empty_file, path)
    return f"sqlite:///{path}"


async def _check_like_memory(url: str, history: Sequence[Sequence[Unit]]) -> None:
    ledger, memory = await open_ledger(url), MemoryLedger()
    try:
        assert await check_laws(ledger, history) == await check_laws(memory, history)
        assert await ledger.snapshot(NOW_S) == await memory.snapshot(NOW_S)
        assert await ledger.changes(0) == await memory.changes(0)
        assert await ledger.allocations() == await memory.allocations()
        assert await _all_holdings(ledger) == await _all_holdings(memory)
        assert await _all_history(ledger) == await _all_history(memory)
    finally:
        await ledger.close()


@_with_a_store
@given(history=_histories)
def test_sqlite_answers_as_memory_does(
    history: list[list[Unit]], empty_file: Path, loop: asyncio.Runner
) -> None:
    """A SQLite ledger keeps every law and returns the outcomes of the one in memory."""
    loop.run(_check_like_memory(_new_file(empty_file), history))


@pytest.mark.postgres
@_with_a_store
@given(history=_histories)
def test_postgres_answers_as_memory_does(
    history: list[list[Unit]], postgres_url: str, loop: asyncio.Runner
) -> None:
    """A PostgreSQL ledger keeps every law and returns the outcomes of the one in memory."""

    async def check() -> None:
        await migrate(postgres_url)
        await empty(postgres_url)
        await _check_like_memory(postgres_url, history)

    loop.run(check())


@given(record=records())
def test_every_record_survives_being_written_down(record: Record) -> None:
    """An encoded record is decoded to an equal record."""
    assert decode_event(event_kind(record), encode(record)) == record


async def _check_stored(url: str, record: Record) -> None:
    ledger = await open_ledger(url)
    try:
        await ledger.commit([(Put(record),)])
        stored = await ledger.get(type(record), key_of(record))
        if kind_of(record) not in KINDS_NOT_IN_FEED:
            (change,) = await ledger.changes(0)
            assert change.event == stored
        if isinstance(stored, Instance):
            stored = replace(stored, revision=0)
        if isinstance(stored, Provider):
            stored = replace(stored, used={})
        assert stored == record
    finally:
        await ledger.close()


@_with_a_store
@given(record=records())
def test_every_record_survives_sqlite(
    record: Record, empty_file: Path, loop: asyncio.Runner
) -> None:
    """A SQLite ledger returns any record as it was stored."""
    loop.run(_check_stored(_new_file(empty_file), record))


@pytest.mark.postgres
@_with_a_store
@given(record=records())
def test_every_record_survives_postgres(
    record: Record, postgres_url: str, loop: asyncio.Runner
) -> None:
    """A PostgreSQL ledger returns any record as it was stored."""

    async def check() -> None:
        await migrate(postgres_url)
        await empty(postgres_url)
        await _check_stored(postgres_url, record)

    loop.run(check())
