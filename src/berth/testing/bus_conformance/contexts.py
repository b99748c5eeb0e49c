"""Contexts: what goes with a command beside its arguments."""

# ruff: noqa: S101 - a conformance suite is made of asserts about numbers
# ruff: noqa: TID251 - and deadlines are told by the clock of the system

import time

from berth.ports.bus import CONTEXT, Bus, Context
from berth.testing.bus_conformance.letters import ASK, PATIENCE_S, Keeping, Letter

_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class ContextTests:
    """Contexts on any bus whose deadlines are told by the system's clock."""

    async def test_a_server_knows_the_context_of_its_caller(self, bus: Bus) -> None:
        """Request id and trace are the caller's, in calls, casts and fanouts."""
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
        """The deadline is that of the call, or an earlier one that the caller has itself."""
        kept = Keeping()
        bus.serve(ASK, kept)
        before_s = time.time()
        await bus.call(ASK, Letter("x"), timeout_s=5)
        soon_s = time.time() + 2
        CONTEXT.set(Context(deadline_s=soon_s))
        await bus.call(ASK, Letter("y"), timeout_s=5)
        first_s, second_s = (one.deadline_s for one in kept.contexts)
        assert first_s is not None
        assert before_s + 5 <= first_s <= time.time() + 5
        assert second_s == soon_s

    async def test_a_context_ends_with_its_command(self, bus: Bus) -> None:
        """What is served next, and the caller, have their own."""
        kept = Keeping()
        bus.serve(ASK, kept)
        CONTEXT.set(Context("req-1"))
        await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert CONTEXT.get().request_id == "req-1"
        CONTEXT.set(Context())
        await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert [one.request_id for one in kept.contexts] == ["req-1", None]
