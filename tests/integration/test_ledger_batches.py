"""What the ledger tells of its batches."""

import asyncio
from pathlib import Path

from berth.adapters.ledger import open_ledger
from berth.domain.ledger.write import Put
from berth.testing.builders import make_flavor


async def check(url: str) -> None:
    """Commit ten units at once and see what is told."""
    told: list[tuple[int, float]] = []
    ledger = await open_ledger(url, on_batch=lambda *batch: told.append(batch))
    try:
        units = [(Put(make_flavor(number)),) for number in range(1, 11)]
        await asyncio.gather(*(ledger.commit([unit]) for unit in units))
        await ledger.snapshot(0.0)
    finally:
        await ledger.close()
    assert sum(count for count, _ in told) == 10
    assert 1 <= len(told) <= 10
    assert all(0 < seconds < 60 for _, seconds in told)


async def test_batches_are_told_with_their_size_and_time(tmp_path: Path) -> None:
    """Units that waited together share a batch; questions are none."""
    await check(f"sqlite:///{tmp_path / 'l.sqlite'}")


async def test_postgresql_tells_of_its_batches_too(fresh_postgres_url: str) -> None:
    """In the same way."""
    await check(fresh_postgres_url)
