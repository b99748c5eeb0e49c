"""Waiting for ledger versions."""

import asyncio

from berth.adapters.ledger.engine.version_watch import VersionWatch


async def test_a_version_wakes_only_its_waiters() -> None:
    """Waiters for a later version continue to wait."""
    watch = VersionWatch()
    low, high = (asyncio.ensure_future(watch.wait(after, 60.0)) for after in (1, 5))
    await asyncio.sleep(0)
    watch.advance(2)
    assert await low
    assert not high.done()
    watch.advance(6)
    assert await high
    assert not watch.has_waiters


async def test_versions_never_go_back() -> None:
    """An older version is ignored."""
    watch = VersionWatch(7)
    watch.advance(3)
    assert watch.version == 7
    assert await watch.wait(6, 0.0)
    assert not await watch.wait(7, 0.0)


async def test_closing_wakes_every_waiter() -> None:
    """Closing the watch ends all waits, which return False."""
    watch = VersionWatch()
    waiting = [asyncio.ensure_future(watch.wait(n, 60.0)) for n in range(3)]
    await asyncio.sleep(0)
    watch.close()
    assert await asyncio.gather(*waiting) == [False] * 3


async def test_a_restored_store_is_watched_from_its_version() -> None:
    """After a reset to an older version, waiters wait for versions after that one."""
    watch = VersionWatch(7)
    watch.reset(3)
    assert watch.version == 3
    assert not await watch.wait(3, 0.0)
    waiting = asyncio.ensure_future(watch.wait(3, 60.0))
    await asyncio.sleep(0)
    watch.reset(4)
    assert await waiting
