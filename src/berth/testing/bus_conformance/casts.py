"""Conformance tests of casts and fanouts, whose senders do not wait for replies."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from berth.domain.errors import ConflictError, UnavailableError
from berth.ports.bus import Bus
from berth.testing.bus_conformance.letters import (
    ASK,
    PATIENCE_S,
    Keeping,
    Letter,
    Reply,
    answering,
    refusing,
)


class CastTests:
    """Tests of `cast` and `fanout`."""

    async def test_a_fanout_reaches_every_server_and_does_not_wait(self, bus: Bus) -> None:
        """A fanout returns before its servers reply, and ignores their replies and errors."""
        gate, all_came = asyncio.Event(), asyncio.Event()
        came: list[str] = []

        def taking(name: str) -> Callable[[Letter], Awaitable[Reply]]:
            async def take(letter: Letter) -> Reply:
                await gate.wait()
                came.append(name + letter.text)
                if len(came) == 2:
                    all_came.set()
                return Reply("")

            return take

        bus.serve(ASK, taking("1"))
        bus.serve(ASK, refusing(ConflictError("no")))
        bus.serve(ASK, taking("2"))
        await bus.fanout(ASK, Letter("x"))
        assert came == []
        gate.set()
        await asyncio.wait_for(all_came.wait(), PATIENCE_S)
        assert sorted(came) == ["1x", "2x"]

    async def test_a_fanout_without_servers_is_no_error(self, bus: Bus) -> None:
        """A fanout without servers succeeds."""
        await bus.fanout(ASK, Letter("x"))

    async def test_a_cast_reaches_one_server_and_does_not_wait(self, bus: Bus) -> None:
        """A cast reaches one of two servers and returns before its handler finishes."""
        gate, kept = asyncio.Event(), Keeping()

        async def take(letter: Letter) -> Reply:
            await gate.wait()
            return await kept(letter)

        bus.serve(ASK, take)
        bus.serve(ASK, take)
        for number in range(6):
            await bus.cast(ASK, Letter(f"{number}"), timeout_s=PATIENCE_S)
        assert kept.texts == []
        gate.set()
        # `wait_for` sorts the texts, because a bus need not keep the order of casts across servers.
        assert await kept.wait_for(6) == ["0", "1", "2", "3", "4", "5"]

    async def test_a_cast_without_a_server_fails(self, bus: Bus) -> None:
        """A cast without a server fails immediately, and the error names the command."""
        with pytest.raises(UnavailableError, match=r"post\.ask"):
            await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)

    async def test_an_error_of_a_handler_does_not_reach_the_sender(self, bus: Bus) -> None:
        """A handler's error does not reach the sender of a cast, and the bus keeps working."""
        kept = Keeping()
        stop = bus.serve(ASK, refusing(ConflictError("no")))
        await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)
        stop()
        bus.serve(ASK, kept)
        await bus.call(ASK, Letter("y"), timeout_s=PATIENCE_S)
        # "x" may be present too: a bus may deliver a cast to a server that starts later.
        assert "y" in kept.texts

    async def test_a_named_server_gets_what_names_it(self, bus: Bus) -> None:
        """Calls and casts that name a server reach that server only."""
        one, two = Keeping(), Keeping()
        bus.serve(ASK, one, server="host-1")
        # Dots separate the parts of a routing key in AMQP; a host name must survive them.
        bus.serve(ASK, two, server="host-2.example")
        await bus.cast(ASK, Letter("a"), timeout_s=PATIENCE_S, server="host-1")
        await bus.cast(ASK, Letter("b"), timeout_s=PATIENCE_S, server="host-2.example")
        reply = await bus.call(ASK, Letter("c"), timeout_s=PATIENCE_S, server="host-1")
        assert reply == Reply("c")
        assert await one.wait_for(2) == ["a", "c"]
        assert await two.wait_for(1) == ["b"]

    async def test_a_named_server_gets_no_unnamed_messages(self, bus: Bus) -> None:
        """A named server receives no unnamed casts, and no calls that name another server."""
        bus.serve(ASK, answering(""), server="host-1")
        with pytest.raises(UnavailableError):
            await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)
        with pytest.raises(UnavailableError):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S, server="host-2")

    async def test_a_fanout_reaches_named_servers_too(self, bus: Bus) -> None:
        """A fanout reaches every server of its command once, named or not."""
        kept = Keeping()
        bus.serve(ASK, kept)
        bus.serve(ASK, kept, server="host-1")
        bus.serve(ASK, kept, server="host-2")
        await bus.fanout(ASK, Letter("x"))
        assert await kept.wait_for(3) == ["x", "x", "x"]
