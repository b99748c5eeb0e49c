"""Calls in flight: who waits for which answer, and when there is no use in waiting."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError, ChannelNotFoundEntity

from berth.adapters.bus.rabbitmq.connection import BrokerSession, broken_not_cancelled
from berth.domain.errors import UnavailableError

INTERVAL_S = 1.0
"""How old what is known may be."""
_ANSWER_S = 5.0
"""A broker that takes longer is away. Heartbeats tell that, too, but after half a minute."""
_FORGET_S = 10.0
"""How long a queue without servers is looked at after the last call."""


@dataclass(slots=True)
class PendingCall:
    """One call: its number, where it went, and its answer once that has come.

    `queue` is None for a named server, whose queue goes with it.
    """

    call_id: str
    queue: str | None
    answer: asyncio.Future[bytes]


class PendingCalls:
    """The calls that wait for an answer."""

    def __init__(self) -> None:
        self._calls: dict[str, PendingCall] = {}
        self._numbers = count(1)

    @contextmanager
    def begin(self, queue: str | None) -> Generator[PendingCall]:
        """Expect an answer for as long as the body runs."""
        answer = asyncio.get_running_loop().create_future()
        call = PendingCall(f"{next(self._numbers)}", queue, answer)
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


class QueueWatch:
    """Looks at the queues of calls in flight once in a while, and ends those that nobody serves."""

    def __init__(self, calls: PendingCalls, now_s: Callable[[], float]) -> None:
        self._calls = calls
        self._now_s = now_s
        self._asked_at_s: dict[str, float] = {}
        """Queues that nobody served when they were last looked at, and when one was asked for."""

    def is_unserved(self, queue: str | None) -> bool:
        """Tell whether nobody serves a queue, as far as is known."""
        if queue is None or queue not in self._asked_at_s:
            return False
        self._asked_at_s[queue] = self._now_s()
        return True

    def forget(self) -> None:
        """Know nothing any more, as after a break of the connection."""
        self._asked_at_s.clear()

    async def run(self, session: BrokerSession) -> None:
        """Look for as long as the connection lasts."""
        channel: Channel | None = None
        while True:
            await asyncio.sleep(INTERVAL_S)
            for queue in self._calls.queues | self._asked_at_s.keys():
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        with broken_not_cancelled():
                            channel = channel or await session.spare_channel()
                            declared = await channel.queue_declare(queue, passive=True)
                    self._note(queue, declared.consumer_count or 0)
                except ChannelNotFoundEntity:
                    # That closes the channel, too.
                    channel = None
                    self._note(queue, 0)
                except (AMQPError, OSError, RuntimeError) as error:
                    session.end(f"the watch failed: {error!r}")
                    return

    def _note(self, queue: str, servers: int) -> None:
        if servers:
            self._asked_at_s.pop(queue, None)
            return
        now_s = self._now_s()
        if now_s - self._asked_at_s.setdefault(queue, now_s) > _FORGET_S:
            del self._asked_at_s[queue]
        self._calls.fail(
            f"nobody serves {queue} any more; a command that was sent may still be carried out, "
            "so repeat it with the same request id",
            queue,
        )
