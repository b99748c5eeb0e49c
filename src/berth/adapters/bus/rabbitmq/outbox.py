"""The calls of one command that wait to be sent, several in one message."""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from berth.adapters.bus.rabbitmq.pending_calls import PendingCall
from berth.domain.errors import UnavailableError

# A server that receives several messages decides on the calls of one while the ledger commits those
# of another, and the caller encodes those of a third. With all calls in one message, each of these
# would wait for the others.
CALLS_MAX: Final = 16
"""The most calls in one message."""
MESSAGES_MAX: Final = 4
"""The most messages without a confirmation of the broker."""


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A call with its encoded command and the seconds that its caller waits."""

    call: PendingCall
    body: bytes
    timeout_s: float


class Outbox:
    """Gathers calls of one command, and sends those that have gathered, up to 16 in a message.

    An idle outbox sends in the next turn of the event loop, together with the calls that other
    tasks make until then. While the broker has not confirmed four messages, further calls gather. A
    busy bus thus needs few messages, and an idle one delays no call.

    Args:
        send: publishes calls as one message, and returns when the broker has confirmed it; raises
            UnavailableError if that is not possible.
        spawn: runs a coroutine in its own task.
        bytes_max: the maximum number of bytes of the commands in one message; a larger command gets
            its own message.
    """

    def __init__(
        self,
        send: Callable[[Sequence[OutgoingCall]], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        bytes_max: int,
    ) -> None:
        self._send = send
        self._spawn = spawn
        self._bytes_max = bytes_max
        self._waiting: deque[OutgoingCall] = deque()
        self._sending = 0

    def add(self, call: OutgoingCall) -> None:
        """Send a call soon; if that fails, the call gets the error."""
        self._waiting.append(call)
        if self._sending < MESSAGES_MAX:
            self._sending += 1
            self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            while calls := self._take():
                try:
                    await self._send(calls)
                except UnavailableError as error:
                    for one in calls:
                        one.call.fail(error)
        finally:
            self._sending -= 1

    def _take(self) -> list[OutgoingCall]:
        """Remove and return calls for one message; those without a waiting caller are dropped."""
        taken: list[OutgoingCall] = []
        size = 0
        while self._waiting and len(taken) < CALLS_MAX:
            size += len(self._waiting[0].body)
            if taken and size > self._bytes_max:
                break
            one = self._waiting.popleft()
            if not one.call.answer.done():
                taken.append(one)
        return taken
