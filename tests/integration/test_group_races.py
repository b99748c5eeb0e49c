"""Hard policies of server groups hold in every version under concurrent writes, on every ledger."""

import pytest

from berth.adapters.ledger import MemoryLedger, migrate, open_ledger
from berth.domain.compute.instance import Instance
from berth.ports.ledger import Ledger
from berth.testing.emptying import empty
from tests.integration.group_races import Race, broken_groups

_ALL = 1_000_000


async def _race(ledger: Ledger, seed: int) -> None:
    race = Race(ledger, seed)
    try:
        await race.open()
        await race.run()
        changes = await ledger.changes(0, _ALL)
        assert broken_groups(changes) == []
        told = [one.event for one in changes]
        assert sum(isinstance(one, Instance) and one.host is not None for one in told) > 20
    finally:
        await ledger.close()


@pytest.mark.parametrize("seed", range(12))
async def test_groups_are_kept_in_memory(seed: int) -> None:
    """Hard policies hold in memory, with late replicas, failed builds, moves and reverts."""
    await _race(MemoryLedger(), seed)


@pytest.mark.parametrize("seed", range(3))
async def test_groups_are_kept_on_sqlite(seed: int, fresh_sqlite_url: str) -> None:
    """Hard policies hold in a SQLite file."""
    await _race(await open_ledger(fresh_sqlite_url), seed)


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(3))
async def test_groups_are_kept_on_postgres(seed: int, postgres_url: str) -> None:
    """Hard policies hold in a PostgreSQL database."""
    await migrate(postgres_url)
    await empty(postgres_url)
    await _race(await open_ledger(postgres_url), seed)
