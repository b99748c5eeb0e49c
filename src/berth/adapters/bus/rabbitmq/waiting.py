"""Waiting for the broker, told apart from being cancelled."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def broken_not_cancelled() -> Generator[None]:
    """Tell a wait that the library has given up from one whose task is cancelled.

    When a connection breaks the library cancels the futures that wait for the broker, and not
    always with the reason. Whoever waits would then seem to have been cancelled itself, which ends
    tasks without a word.

    Raises:
        ConnectionError: the connection broke.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionError("the connection to the broker broke") from error
