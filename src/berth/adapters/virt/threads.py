"""Calls that block, in threads: so many at once, and none that keeps the process from ending."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class ThreadRunner:
    """Runs what blocks in threads of its own.

    Not a pool of `concurrent.futures`: the process would wait at its end for a call that hangs.
    A call that nobody waits for any more keeps its place until it returns.
    """

    def __init__(self, at_once_max: int) -> None:
        self._places = asyncio.Semaphore(at_once_max)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do something in a thread, and return what it does.

        Raises:
            BaseException: whatever it raises.
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
                outcome.set_result(result)  # type: ignore[arg-type]  # one of both is given

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(end, result, error)

        threading.Thread(target=run, name="virt", daemon=True).start()
        return await outcome

    async def finish(self, work: Callable[[], _T]) -> _T:
        """Do something as `run` does; whoever is cancelled meanwhile waits for its end.

        For what must not be overtaken by what the next one does with the same guest.
        """
        task = asyncio.ensure_future(self.run(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # seen, so nobody complains that it was not
            raise
