"""A limit on concurrent tasks under which client addresses take turns."""

import asyncio
from collections import OrderedDict, deque


class FairSlots:
    """Limits the number of tasks that run at once; addresses with waiting tasks take turns.

    With a plain semaphore, a client that sends many requests at once would delay all others by the
    time that all of its requests take.

    Args:
        slots: the maximum number of tasks that run at once.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, address: str) -> None:
        """Wait for a slot on behalf of a client address; the caller must release the slot."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self._leave(address, turn)
            raise

    def release(self) -> None:
        """Pass a slot on to the next waiting task, or free it."""
        while self._waiting:
            address, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns
            # A task cancelled in the current iteration of the event loop is still in the queue.
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, address: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(address)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[address]
