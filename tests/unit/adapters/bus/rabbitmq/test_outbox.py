"""The outbox, in which calls gather that share a message."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any

import pytest

from berth.adapters.bus.rabbitmq.outbox import CALLS_MAX, MESSAGES_MAX, Outbox, OutgoingCall
from berth.adapters.bus.rabbitmq.pending_calls import PendingCall
from berth.domain.errors import UnavailableError

_NUMBERS = count()


def outgoing(body: bytes = b"x") -> OutgoingCall:
    """Return a call that waits for its answer."""
    answer = asyncio.get_running_loop().create_future()
    return OutgoingCall(PendingCall(f"{next(_NUMBERS)}", "queue", answer), body, 1.0)


class Broker:
    """Keeps the messages that are sent, and confirms them when told to."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.messages: list[list[OutgoingCall]] = []
        self.confirms = asyncio.Event()
        self.confirms.set()
        self.errors: list[UnavailableError] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.outbox = Outbox(self._send, self._spawn, bytes_max)

    async def _send(self, calls: Sequence[OutgoingCall]) -> None:
        self.messages.append(list(calls))
        await self.confirms.wait()
        if self.errors:
            raise self.errors.pop()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def send(self, *calls: OutgoingCall) -> None:
        """Add calls in one turn of the event loop, and wait until nothing happens any more."""
        for one in calls:
            self.outbox.add(one)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_calls_of_one_turn_share_a_message() -> None:
    """Calls that are added in the same turn of the event loop are sent together, in order."""
    broker = Broker()
    calls = [outgoing() for _ in range(3)]
    await broker.send(*calls)
    assert broker.messages == [calls]


async def busy_broker() -> Broker:
    """Return a broker that confirms nothing, with as many messages as the outbox sends to it."""
    broker = Broker()
    broker.confirms.clear()
    for _ in range(MESSAGES_MAX):
        await broker.send(outgoing())
    return broker


async def test_calls_gather_until_the_broker_confirms() -> None:
    """While the broker owes as many confirms as allowed, further calls wait, and go together."""
    broker = await busy_broker()
    second, third = outgoing(), outgoing()
    await broker.send(second)
    await broker.send(third)
    assert [len(message) for message in broker.messages] == [1] * MESSAGES_MAX
    broker.confirms.set()
    await broker.send()
    assert broker.messages[MESSAGES_MAX:] == [[second, third]]


async def test_a_burst_is_sent_at_once() -> None:
    """Calls of one turn that fill several messages do not wait for confirms."""
    broker = Broker()
    broker.confirms.clear()
    await broker.send(*(outgoing() for _ in range(MESSAGES_MAX * CALLS_MAX + 1)))
    assert [len(message) for message in broker.messages] == [CALLS_MAX] * MESSAGES_MAX


async def test_an_idle_outbox_sends_again() -> None:
    """After everything is sent, the next call is sent as well."""
    broker = Broker()
    first, second = outgoing(), outgoing()
    await broker.send(first)
    await broker.send(second)
    assert broker.messages == [[first], [second]]


async def test_a_message_has_a_bounded_number_of_calls() -> None:
    """At most `CALLS_MAX` calls share a message."""
    broker = Broker(bytes_max=10_000)
    await broker.send(*(outgoing() for _ in range(CALLS_MAX + 1)))
    assert [len(message) for message in broker.messages] == [CALLS_MAX, 1]


async def test_a_message_has_a_bounded_size() -> None:
    """Calls that exceed the size together are split; one that does so alone is sent alone."""
    broker = Broker(bytes_max=10)
    calls = [outgoing(b"x" * size) for size in (6, 4, 1, 30, 2)]
    await broker.send(*calls)
    assert broker.messages == [calls[:2], calls[2:3], calls[3:4], calls[4:]]


async def test_only_the_calls_of_a_failed_message_fail() -> None:
    """If a message cannot be sent, its calls get the error, and those after it are sent."""
    broker = Broker()
    broker.confirms.clear()
    broker.errors.append(UnavailableError("full"))
    lost, next_one = outgoing(), outgoing()
    await broker.send(lost)
    await broker.send(next_one)
    broker.confirms.set()
    await broker.send()
    with pytest.raises(UnavailableError, match="full"):
        await lost.call.answer
    assert broker.messages == [[lost], [next_one]]
    assert not next_one.call.answer.done()


async def test_calls_that_nobody_waits_for_are_not_sent() -> None:
    """A call whose caller has given up before it was sent is dropped."""
    broker = await busy_broker()
    given_up, last = outgoing(), outgoing()
    await broker.send(given_up, last)
    given_up.call.answer.cancel()
    broker.confirms.set()
    await broker.send()
    assert broker.messages[MESSAGES_MAX:] == [[last]]
