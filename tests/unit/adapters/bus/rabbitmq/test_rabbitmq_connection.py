"""Cancellations by the AMQP library, told apart from cancellations of the waiting task."""

import asyncio

import pytest

from berth.adapters.bus.rabbitmq.connection import broken_not_cancelled


async def wait_for(future: "asyncio.Future[None]") -> None:
    """Wait for a future in the way that users of the broker do."""
    with broken_not_cancelled():
        await future


async def test_what_the_library_cancels_is_a_broken_connection() -> None:
    """A task whose future is cancelled gets a ConnectionError and can handle it."""
    future = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(wait_for(future))
    await asyncio.sleep(0)
    future.cancel()
    with pytest.raises(ConnectionError, match="broke"):
        await task


async def test_a_task_that_is_cancelled_ends() -> None:
    """A task that is cancelled itself ends with CancelledError, not with a ConnectionError."""
    task = asyncio.create_task(wait_for(asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_time_that_is_over_is_over() -> None:
    """A timeout around the wait raises TimeoutError, although it cancels the waiting task."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await wait_for(asyncio.get_running_loop().create_future())


async def test_other_errors_stay_what_they_are() -> None:
    """An error of the future is raised unchanged, and a result is returned normally."""
    future = asyncio.get_running_loop().create_future()
    future.set_exception(OSError("away"))
    with pytest.raises(OSError, match="away"):
        await wait_for(future)
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    await wait_for(done)
