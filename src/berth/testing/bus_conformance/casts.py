"""Casts and fanouts: nobody waits."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts about numbers

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
    """Casts and fanouts on any bus."""

    async def test_a_fanout_reaches_every_server_and_does_not_wait(self, bus: Bus) -> None:
        """It returns before they have answered, and does not care what they answer."""
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
        """There was nobody to tell."""
        await bus.fanout(ASK, Letter("x"))

    async def test_a_cast_reaches_one_server_and_does_not_wait(self, bus: Bus) -> None:
        """Of two servers one gets it; the sender goes on before that is done."""
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
        assert await kept.wait_for(6) == ["0", "1", "2", "3", "4", "5"]

    async def test_a_cast_that_nobody_takes_is_told(self, bus: Bus) -> None:
        """Without a server the sender learns it at once."""
        with pytest.raises(UnavailableError, match=r"post\.ask"):
            await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)

    async def test_a_failed_cast_is_nobody_elses_trouble(self, bus: Bus) -> None:
        """The sender does not hear of it, and the server goes on."""
        kept = Keeping()
        stop = bus.serve(ASK, refusing(ConflictError("no")))
        await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)
        stop()
        bus.serve(ASK, kept)
        await bus.call(ASK, Letter("y"), timeout_s=PATIENCE_S)
        assert "y" in kept.texts

    async def test_a_named_server_gets_what_names_it(self, bus: Bus) -> None:
        """Calls and casts to one of several reach it alone."""
        one, two = Keeping(), Keeping()
        bus.serve(ASK, one, server="host-1")
        bus.serve(ASK, two, server="host-2.example")
        await bus.cast(ASK, Letter("a"), timeout_s=PATIENCE_S, server="host-1")
        await bus.cast(ASK, Letter("b"), timeout_s=PATIENCE_S, server="host-2.example")
        reply = await bus.call(ASK, Letter("c"), timeout_s=PATIENCE_S, server="host-1")
        assert reply == Reply("c")
        assert await one.wait_for(2) == ["a", "c"]
        assert await two.wait_for(1) == ["b"]

    async def test_who_has_a_name_is_not_sent_what_names_nobody(self, bus: Bus) -> None:
        """And nobody else is sent what names a server that is not there."""
        bus.serve(ASK, answering(""), server="host-1")
        with pytest.raises(UnavailableError):
            await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)
        with pytest.raises(UnavailableError):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S, server="host-2")

    async def test_a_fanout_reaches_named_servers_too(self, bus: Bus) -> None:
        """Every server of the command gets it once."""
        kept = Keeping()
        bus.serve(ASK, kept)
        bus.serve(ASK, kept, server="host-1")
        bus.serve(ASK, kept, server="host-2")
        await bus.fanout(ASK, Letter("x"))
        assert await kept.wait_for(3) == ["x", "x", "x"]
