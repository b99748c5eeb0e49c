"""Conformance tests of contexts: the metadata that accompanies a command's arguments."""

# ruff: noqa: S101 - a conformance suite is made of asserts
# ruff: noqa: TID251 - deadlines are times of the system clock

import time

from berth.ports.bus import CONTEXT, Bus, Context
from berth.testing.bus_conformance.letters import ASK, PATIENCE_S, Keeping, Letter

_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class ContextTests:
    """Tests of contexts, for a bus whose deadlines are times of the system clock."""

    async def test_a_server_knows_the_context_of_its_caller(self, bus: Bus) -> None:
        """Calls, casts and fanouts carry the caller's request id and trace."""
        kept = Keeping()
        bus.serve(ASK, kept)
        CONTEXT.set(Context("req-1", None, _TRACE))
        await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        await bus.cast(ASK, Letter("x"), timeout_s=PATIENCE_S)
        await bus.fanout(ASK, Letter("x"))
        await kept.wait_for(3)
        assert {one.request_id for one in kept.contexts} == {"req-1"}
        assert {one.traceparent for one in kept.contexts} == {_TRACE}

    async def test_a_server_knows_how_long_its_caller_waits(self, bus: Bus) -> None:
        """The deadline is the call's, or the caller's own deadline when that is earlier."""
        kept = Keeping()
        bus.serve(ASK, kept)
        before_s = time.time()
        await bus.call(ASK, Letter("x"), timeout_s=5)
        soon_s = time.time() + 2
        CONTEXT.set(Context(deadline_s=soon_s))
        await bus.call(ASK, Letter("y"), timeout_s=5)
        first_s, second_s = (one.deadline_s for one in kept.contexts)
        assert first_s is not None
        # The clock is read before and after, since the bus reads it somewhere in between.
        assert before_s + 5 <= first_s <= time.time() + 5
        assert second_s == soon_s

    async def test_a_context_ends_with_its_command(self, bus: Bus) -> None:
        """A context applies to its command only, not to the next one or to the caller."""
        kept = Keeping()
        bus.serve(ASK, kept)
        CONTEXT.set(Context("req-1"))
        await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert CONTEXT.get().request_id == "req-1"
        CONTEXT.set(Context())
        await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert [one.request_id for one in kept.contexts] == ["req-1", None]
