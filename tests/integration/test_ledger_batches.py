"""Reports of a ledger about its batches."""

import asyncio
from pathlib import Path

from berth.adapters.ledger import open_ledger
from berth.domain.ledger.write import Put
from berth.testing.builders import make_flavor


async def check(url: str) -> None:
    """Commit ten units concurrently and check the reports."""
    reported: list[tuple[int, float]] = []
    ledger = await open_ledger(url, on_batch=lambda *batch: reported.append(batch))
    try:
        units = [(Put(make_flavor(number)),) for number in range(1, 11)]
        await asyncio.gather(*(ledger.commit([unit]) for unit in units))
        await ledger.snapshot(0.0)
    finally:
        await ledger.close()
    assert sum(count for count, _ in reported) == 10
    assert 1 <= len(reported) <= 10
    assert all(0 < seconds < 60 for _, seconds in reported)


async def test_batches_are_reported_with_size_and_time(tmp_path: Path) -> None:
    """A SQLite ledger reports the units and duration of each batch, and no reads."""
    await check(f"sqlite:///{tmp_path / 'l.sqlite'}")


async def test_postgresql_reports_its_batches(fresh_postgres_url: str) -> None:
    """A PostgreSQL ledger reports its batches in the same way."""
    await check(fresh_postgres_url)
