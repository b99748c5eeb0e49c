"""Conformance tests of calls: their answers, errors, and the metadata beside arguments."""

# ruff: noqa: S101 - a conformance suite is made of asserts
# ruff: noqa: ARG001 - a handler has a parameter for its letter, used or not

import asyncio

# ruff: noqa: S101 - a conformance suite is made of asserts
# ruff: noqa: TID251 - deadlines are times of the system clock
import time

import pytest

# ruff: noqa: S101 - a conformance suite is made of asserts
from berth.domain.errors import BerthError, ConflictError, InvalidInputError, UnavailableError
from berth.ports.bus import CONTEXT, Bus, Context
from berth.testing.bus_conformance.letters import (
    ASK,
    BY_ONE,
    IMPATIENCE_S,
    OTHER,
    PATIENCE_S,
    Keeping,
    Letter,
    Reply,
    answering,
    refusing,
)


class CallTests:
    """Tests of `call`."""

    async def test_a_call_brings_back_the_answer(self, bus: Bus) -> None:
        """The handler receives the arguments, and the caller receives the reply."""
        bus.serve(ASK, answering("re: "))
        assert await bus.call(ASK, Letter("hello"), timeout_s=PATIENCE_S) == Reply("re: hello")

    async def test_arguments_arrive_as_they_were_sent(self, bus: Bus) -> None:
        """Arguments arrive unchanged and with their declared types, even nested ones."""
        letter = Letter("héllo", ("a", "b"), {"x": 1}, Letter("inner"))
        came: list[Letter] = []

        async def keep(arrived: Letter) -> Reply:
            came.append(arrived)
            return Reply("")

        bus.serve(ASK, keep)
        await bus.call(ASK, letter, timeout_s=PATIENCE_S)
        assert came == [letter]
        # A decoder without the declared type would leave a plain mapping here.
        assert isinstance(came[0].inner, Letter)

    async def test_a_command_reaches_only_its_own_servers(self, bus: Bus) -> None:
        """Commands of one topic are distinguished by name."""
        bus.serve(OTHER, answering("other "))
        bus.serve(ASK, answering("asked "))
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("asked x")

    async def test_without_a_server_a_call_fails_at_once(self, bus: Bus) -> None:
        """A call without a server fails, and the error names the command."""
        with pytest.raises(UnavailableError, match=r"post\.ask"):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)

    async def test_a_call_is_answered_by_one_server(self, bus: Bus) -> None:
        """Each call reaches one server, and repeated calls reach every server."""
        bus.serve(ASK, answering("1"))
        bus.serve(ASK, answering("2"))
        # If servers were chosen at random, 20 calls would miss one of two in 1 of 500,000 runs.
        replies = [await bus.call(ASK, Letter(""), timeout_s=PATIENCE_S) for _ in range(20)]
        assert set(replies) == {Reply("1"), Reply("2")}

    async def test_a_by_one_command_goes_to_the_same_server(self, bus: Bus) -> None:
        """A `by_one` command goes to one server until that server stops, and then to another."""
        stops = [bus.serve(BY_ONE, answering(name)) for name in ("1", "2", "3")]
        for _ in range(3):
            replies = [await bus.call(BY_ONE, Letter(""), timeout_s=PATIENCE_S) for _ in range(10)]
            assert len({one.text for one in replies}) == 1
            stops.pop(0)()
        with pytest.raises(UnavailableError, match=r"post\.by_one"):
            await bus.call(BY_ONE, Letter(""), timeout_s=IMPATIENCE_S)

    async def test_calls_do_not_wait_for_one_another(self, bus: Bus) -> None:
        """A server handles several calls concurrently."""
        # Neither handler passes the barrier alone, so sequential handling would time out.
        both = asyncio.Barrier(2)

        async def meet(letter: Letter) -> Reply:
            await both.wait()
            return Reply(letter.text)

        bus.serve(ASK, meet)
        calls = (bus.call(ASK, Letter(text), timeout_s=PATIENCE_S) for text in "ab")
        assert await asyncio.gather(*calls) == [Reply("a"), Reply("b")]

    async def test_a_call_times_out_and_the_server_goes_on(self, bus: Bus) -> None:
        """A call that times out fails; its handler still finishes, and the reply is dropped."""
        gate, done = asyncio.Event(), asyncio.Event()

        async def take_time(letter: Letter) -> Reply:
            await gate.wait()
            done.set()
            return Reply("late")

        bus.serve(ASK, take_time)
        with pytest.raises(UnavailableError, match="may still be carried out"):
            await bus.call(ASK, Letter("x"), timeout_s=IMPATIENCE_S)
        gate.set()
        await asyncio.wait_for(done.wait(), PATIENCE_S)

    async def test_cancelling_a_call_does_not_stop_the_server(self, bus: Bus) -> None:
        """Cancelling a call cancels only the caller's wait, not the handler."""
        begun, gate, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def take_time(letter: Letter) -> Reply:
            begun.set()
            await gate.wait()
            done.set()
            return Reply("")

        bus.serve(ASK, take_time)
        call = asyncio.create_task(bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S))
        # The call is cancelled while the handler runs; before that, it might not have been sent.
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gate.set()
        await asyncio.wait_for(done.wait(), PATIENCE_S)


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


class FailureTests:
    """Tests of errors that a handler raises."""

    @pytest.mark.parametrize(
        "error", [ConflictError("it changed"), InvalidInputError("server.name", "is too long")]
    )
    async def test_an_error_comes_back_with_type_and_fields(
        self, bus: Bus, error: BerthError
    ) -> None:
        """The caller receives the server's error with its type, message and fields."""
        bus.serve(ASK, refusing(error))
        with pytest.raises(type(error)) as caught:
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert str(caught.value) == str(error)
        # Callers read the fields, such as the name of the invalid input.
        assert vars(caught.value) == vars(error)

    async def test_a_mistake_in_a_server_comes_back_as_unavailable(self, bus: Bus) -> None:
        """An unexpected exception becomes `UnavailableError`, and the bus keeps working."""
        # The outcome is unknown, because the handler may have done part of its work.
        stop = bus.serve(ASK, refusing(ZeroDivisionError("oh")))
        with pytest.raises(UnavailableError):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        stop()
        bus.serve(ASK, answering(""))
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("x")
