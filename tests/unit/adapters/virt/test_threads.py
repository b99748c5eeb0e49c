"""Blocking calls in threads."""

import asyncio
import threading

import pytest

from berth.adapters.virt.threads import ThreadRunner


async def test_a_call_gives_what_it_returns_or_raises() -> None:
    """A call's result is returned and its error is raised."""
    threads = ThreadRunner(1)
    assert await threads.run(lambda: 7) == 7

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await threads.finish(fail)


async def test_so_many_are_at_once_and_no_more() -> None:
    """An abandoned call counts against the limit until it ends."""
    threads, go_on, running = ThreadRunner(2), threading.Event(), list[int]()

    def block() -> None:
        running.append(1)
        go_on.wait()

    calls = [asyncio.ensure_future(threads.run(block)) for _ in range(4)]
    while len(running) < 2:  # noqa: ASYNC110 - it is a thread that appends
        await asyncio.sleep(0.001)
    calls[0].cancel()
    calls[1].cancel()
    await asyncio.sleep(0.05)
    assert len(running) == 2
    go_on.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert len(running) == 4


async def test_who_finishes_a_call_waits_for_its_end() -> None:
    """`finish` waits for the end of the call even when it is cancelled."""
    threads, go_on, ended = ThreadRunner(1), threading.Event(), list[int]()

    def block() -> None:
        go_on.wait()
        ended.append(1)

    call = asyncio.ensure_future(threads.finish(block))
    await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.sleep(0.01)
    assert not call.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended == [1]
