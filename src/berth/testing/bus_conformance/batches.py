"""Conformance tests of batched commands, several calls of which may share a message."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio

import pytest

from berth.domain.errors import InvalidInputError, UnavailableError
from berth.ports.bus import CONTEXT, Bus, Context
from berth.testing.bus_conformance.letters import (
    BATCHED,
    IMPATIENCE_S,
    PATIENCE_S,
    Keeping,
    Letter,
    Reply,
    answering,
)

_CALLS = 200
"""More calls than share a message on any bus."""


class BatchTests:
    """Tests of calls that are made at the same time."""

    async def test_each_of_many_calls_gets_its_own_answer(self, bus: Bus) -> None:
        """Calls that are made together are all answered, each with its own reply."""
        bus.serve(BATCHED, answering("re: "))
        calls = [
            bus.call(BATCHED, Letter(f"{number}"), timeout_s=PATIENCE_S) for number in range(_CALLS)
        ]
        replies = await asyncio.gather(*calls)
        assert [one.text for one in replies] == [f"re: {number}" for number in range(_CALLS)]

    async def test_an_error_reaches_only_its_own_caller(self, bus: Bus) -> None:
        """If the handler raises for one call, the calls made with it are still answered."""

        async def answer(letter: Letter) -> Reply:
            if letter.text == "1":
                raise InvalidInputError("text", "is 1")
            return Reply(letter.text)

        bus.serve(BATCHED, answer)
        calls = [bus.call(BATCHED, Letter(text), timeout_s=PATIENCE_S) for text in "012"]
        first, error, last = await asyncio.gather(*calls, return_exceptions=True)
        assert (first, last) == (Reply("0"), Reply("2"))
        assert isinstance(error, InvalidInputError)
        assert error.field == "text"

    async def test_no_call_waits_for_one_beside_it(self, bus: Bus) -> None:
        """A call whose handler takes long does not delay those that were made with it."""
        others_are_answered = asyncio.Event()

        async def answer(letter: Letter) -> Reply:
            if letter.text == "slow":
                await others_are_answered.wait()
            return Reply(letter.text)

        bus.serve(BATCHED, answer)
        slow = asyncio.ensure_future(bus.call(BATCHED, Letter("slow"), timeout_s=PATIENCE_S))
        calls = [bus.call(BATCHED, Letter(text), timeout_s=PATIENCE_S) for text in "ab"]
        assert await asyncio.gather(*calls) == [Reply("a"), Reply("b")]
        assert not slow.done()
        others_are_answered.set()
        assert await slow == Reply("slow")

    async def test_each_call_keeps_its_context(self, bus: Bus) -> None:
        """The request id of each call reaches its own handler, and no other."""
        kept = Keeping()
        bus.serve(BATCHED, kept)

        async def call(name: str) -> Reply:
            CONTEXT.set(Context(f"req-{name}"))
            return await bus.call(BATCHED, Letter(name), timeout_s=PATIENCE_S)

        await asyncio.gather(*(asyncio.create_task(call(name)) for name in "abc"))
        told = dict(zip(kept.texts, (one.request_id for one in kept.contexts), strict=True))
        assert told == {"a": "req-a", "b": "req-b", "c": "req-c"}

    async def test_a_batched_call_without_a_server_fails(self, bus: Bus) -> None:
        """Calls that no process serves fail, and the errors name the command."""
        calls = [bus.call(BATCHED, Letter(text), timeout_s=PATIENCE_S) for text in "ab"]
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, UnavailableError)
            assert "post.batched" in str(error)

    async def test_a_batched_call_waits_no_longer_than_it_said(self, bus: Bus) -> None:
        """A call ends after its own timeout, although another call in its batch waits longer."""
        goes_on = asyncio.Event()

        async def answer(letter: Letter) -> Reply:
            await goes_on.wait()
            return Reply(letter.text)

        bus.serve(BATCHED, answer)
        patient = asyncio.ensure_future(bus.call(BATCHED, Letter("a"), timeout_s=PATIENCE_S))
        with pytest.raises(UnavailableError, match=r"post\.batched did not answer"):
            await bus.call(BATCHED, Letter("b"), timeout_s=IMPATIENCE_S)
        goes_on.set()
        assert await patient == Reply("a")
