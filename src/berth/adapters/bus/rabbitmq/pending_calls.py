"""The calls that wait for a reply, and the polls that check whether their queues have consumers."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from aiormq.channel import Channel
from aiormq.exceptions import AMQPError, ChannelNotFoundEntity

from berth.adapters.bus.rabbitmq.connection import BrokerSession, broken_not_cancelled
from berth.domain.errors import UnavailableError

INTERVAL_S = 1.0
"""Seconds between two polls of the queues."""

# A poll that gets no answer for this long ends the session. Heartbeats would detect a silent broker
# only after half a minute.
_ANSWER_S = 5.0
# A queue without consumers is no longer polled this long after the last call to it.
_FORGET_S = 10.0


@dataclass(slots=True)
class PendingCall:
    """One call that waits for its reply.

    `queue` is the shared queue to which the call was sent, or None for a named server, whose queue
    disappears with it. `answer` receives the encoded reply.
    """

    call_id: str
    queue: str | None
    answer: asyncio.Future[bytes]

    def fail(self, error: UnavailableError) -> None:
        """Raise an error in the caller, unless it has its answer already."""
        if not self.answer.done():
            self.answer.set_exception(error)
            # The exception is retrieved here, because asyncio would otherwise log it as never
            # retrieved if the caller is cancelled at this moment.
            self.answer.exception()


class PendingCalls:
    """The calls of this process that wait for a reply."""

    def __init__(self) -> None:
        self._calls: dict[str, PendingCall] = {}
        self._numbers = count(1)

    @contextmanager
    def begin(self, queue: str | None) -> Generator[PendingCall]:
        """Register a call for the duration of the context."""
        answer = asyncio.get_running_loop().create_future()
        call = PendingCall(f"{next(self._numbers)}", queue, answer)
        self._calls[call.call_id] = call
        try:
            yield call
        finally:
            del self._calls[call.call_id]
            answer.cancel()

    def answer(self, call_id: str, body: bytes) -> None:
        """Pass a reply to its call; ignore late and repeated replies."""
        call = self._calls.get(call_id)
        if call is not None and not call.answer.done():
            call.answer.set_result(body)

    def fail(self, reason: str, queue: str | None = None) -> None:
        """Fail all calls, or only those that were sent to `queue`."""
        for call in self._calls.values():
            if queue in (None, call.queue):
                call.fail(UnavailableError(reason))

    @property
    def queues(self) -> set[str]:
        """The shared queues with pending calls."""
        return {call.queue for call in self._calls.values() if call.queue is not None}


class QueueWatch:
    """Polls the queues of pending calls once a second, and fails calls to queues without consumers.

    A queue outlives its consumers, so that a restart of the broker or of the only scheduler loses
    no command. Without this check a caller would wait for its whole timeout.

    Args:
        calls: the pending calls.
        now_s: returns the Unix time in seconds.
    """

    def __init__(self, calls: PendingCalls, now_s: Callable[[], float]) -> None:
        self._calls = calls
        self._now_s = now_s
        # The queues that had no consumer at the last poll, and the time of the last call to each.
        self._asked_at_s: dict[str, float] = {}

    def is_unserved(self, queue: str | None) -> bool:
        """Return whether a queue had no consumer at the last poll; False if `queue` is None.

        After a result of True, the queue is polled for another 10 s.
        """
        if queue is None or queue not in self._asked_at_s:
            return False
        self._asked_at_s[queue] = self._now_s()
        return True

    async def run(self, session: BrokerSession) -> None:
        """Poll the queues until a poll fails; then end the session."""
        # The queues may have consumers again since an earlier session polled them.
        self._asked_at_s.clear()
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
                    # The broker closes a channel on which a passive declare failed.
                    channel = None
                    self._note(queue, 0)
                except (AMQPError, OSError, RuntimeError) as error:
                    session.end(f"polling the queues failed: {error!r}")
                    return

    def _note(self, queue: str, servers: int) -> None:
        if servers:
            self._asked_at_s.pop(queue, None)
            return
        now_s = self._now_s()
        if now_s - self._asked_at_s.setdefault(queue, now_s) > _FORGET_S:
            del self._asked_at_s[queue]
        self._calls.fail(
            f"no process reads the queue {queue} now; a command that was sent may still be "
            "carried out, so repeat it with the same request id",
            queue,
        )
