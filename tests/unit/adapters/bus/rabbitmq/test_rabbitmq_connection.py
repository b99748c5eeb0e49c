"""Cancellations by the AMQP library, told apart from cancellations of the waiting task."""

import asyncio
from random import Random

import pytest

from berth.adapters.bus.rabbitmq.broker import RabbitBroker
from berth.adapters.bus.rabbitmq.connection import BrokerConnection, broken_not_cancelled
from berth.domain.errors import UnavailableError


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


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("the session ended (ConnectionError('amqp://me:p%40ss@host/v broke'))"),
        OSError("cannot reach amqp://me:p%40ss@host/v?heartbeat=10"),
        RuntimeError("login as me with p@ss was refused"),
    ],
)
async def test_a_reported_failure_contains_no_password(error: Exception) -> None:
    """A failed session is reported without the password, wherever its text comes from."""
    seen: list[str] = []

    class Telemetry:
        def event(self, name: str, **fields: object) -> None:
            seen.append(f"{name} {fields}")

        def warning(self, name: str, **fields: object) -> None:
            seen.append(f"{name} {fields}")

        def failure(self, name: str, error: BaseException, **fields: object) -> None:
            seen.append(f"{name} {error}")

    broker = RabbitBroker("amqp://me:p%40ss@host/v")
    connection = BrokerConnection(broker, Telemetry(), Random(1))
    failed = asyncio.Event()

    async def fail() -> None:
        if failed.is_set():
            await asyncio.Event().wait()
        failed.set()
        raise error

    connection._run_session = fail  # type: ignore[method-assign]
    running = asyncio.create_task(connection.run())
    await failed.wait()
    await asyncio.sleep(0)
    running.cancel()
    assert len(seen) == 1
    assert seen[0].startswith("broker_unavailable ")
    assert "p@ss" not in seen[0]
    assert "p%40ss" not in seen[0]
