"""Calls in flight: who waits for which answer, and when there is no use in waiting."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from aiormq.abc import DeliveredMessage

from berth.domain.errors import UnavailableError


@dataclass(slots=True)
class Call:
    """One call: its number, where it went, and its answer once that has come.

    `queue` is None for a named server, whose queue goes with it.
    """

    call_id: str
    queue: str | None
    answer: asyncio.Future[bytes]


class Calls:
    """The calls that wait for an answer."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._numbers = count(1)

    @contextmanager
    def begin(self, queue: str | None) -> Generator[Call]:
        """Expect an answer for as long as the body runs."""
        answer = asyncio.get_running_loop().create_future()
        call = Call(f"{next(self._numbers)}", queue, answer)
        self._calls[call.call_id] = call
        try:
            yield call
        finally:
            del self._calls[call.call_id]
            answer.cancel()

    async def on_message(self, message: DeliveredMessage) -> None:
        """Take an answer in; one that nobody waits for any more, or a second, is forgotten."""
        call = self._calls.get(message.header.properties.correlation_id or "")
        if call is not None and not call.answer.done():
            call.answer.set_result(message.body)

    def fail(self, reason: str, queue: str | None = None) -> None:
        """Have calls given up, all or those that went to a queue."""
        for call in self._calls.values():
            if queue in (None, call.queue) and not call.answer.done():
                call.answer.set_exception(UnavailableError(reason))
                # Its caller may be at something else, and never ask.
                call.answer.exception()

    @property
    def queues(self) -> set[str]:
        """The shared queues that somebody waits for."""
        return {call.queue for call in self._calls.values() if call.queue is not None}
