"""Blocking calls in daemon threads, with a limit on their number."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class ThreadRunner:
    """Runs blocking functions, each in a daemon thread.

    A pool of `concurrent.futures` would make the process wait at its end for a call that hangs. An
    abandoned call counts against the limit until it returns.

    Args:
        at_once_max: the maximum number of simultaneous calls.
    """

    def __init__(self, at_once_max: int) -> None:
        self._places = asyncio.Semaphore(at_once_max)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run a function in a thread, and return its result or raise its error.

        Raises:
            BaseException: the function raised it.
        """
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_T] = loop.create_future()

        def end(result: _T | None, error: BaseException | None) -> None:
            self._places.release()
            if outcome.cancelled():
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]  # a result, as there is no error

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - raised again in the waiting task
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits
                loop.call_soon_threadsafe(end, result, error)

        threading.Thread(target=run, name="virt", daemon=True).start()
        return await outcome

    async def finish(self, work: Callable[[], _T]) -> _T:
        """Run a function as `run` does, but wait for its end even when cancelled.

        This is for calls that the next operation on the same guest must not overtake.

        Raises:
            BaseException: the function raised it.
        """
        task = asyncio.ensure_future(self.run(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it
            raise
