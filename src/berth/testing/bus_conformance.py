"""The conformance suite of the bus port: what every message bus must do.

To hold a bus to it, subclass in a test module and say how to make one:

    class TestMyBus(BusConformance):
        @pytest.fixture
        async def bus(self) -> AsyncIterator[Bus]:
            async with MyBus.open("amqp://localhost") as bus:
                yield bus

The fixture's bus must be empty: nobody serves anything on it. Tests need pytest-asyncio in its
`auto` mode.
"""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts about numbers
# ruff: noqa: ARG001 - a handler takes its letter, whatever it does with it

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import pytest

from berth.domain.errors import BerthError, ConflictError, InvalidInputError, UnavailableError
from berth.ports.bus import Bus, Command

PATIENCE_S = 10.0
"""Long enough for anything that is to come."""

IMPATIENCE_S = 0.05


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent."""

    text: str
    tags: tuple[str, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict[str, int])
    inner: "Letter | None" = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes back."""

    text: str


ASK: Command[Letter, Reply] = Command("post", "ask", Letter, Reply)
OTHER: Command[Letter, Reply] = Command("post", "other", Letter, Reply)


def answering(text: str) -> Callable[[Letter], Awaitable[Reply]]:
    """Return a handler that puts its own text before the letter's."""

    async def answer(letter: Letter) -> Reply:
        return Reply(f"{text}{letter.text}")

    return answer


def refusing(error: Exception) -> Callable[[Letter], Awaitable[Reply]]:
    """Return a handler that raises."""

    async def refuse(letter: Letter) -> Reply:
        raise error

    return refuse


class BusConformance:
    """Everything that holds for any bus."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Make a bus; to be said by whoever uses the suite."""
        raise NotImplementedError

    async def test_a_call_brings_back_the_answer(self, bus: Bus) -> None:
        """The handler gets the arguments and the caller its reply."""
        bus.serve(ASK, answering("re: "))
        assert await bus.call(ASK, Letter("hello"), timeout_s=PATIENCE_S) == Reply("re: hello")

    async def test_arguments_arrive_as_they_were_sent(self, bus: Bus) -> None:
        """Also nested ones, and of the types that the command names."""
        letter = Letter("héllo", ("a", "b"), {"x": 1}, Letter("inner"))
        came: list[Letter] = []

        async def keep(arrived: Letter) -> Reply:
            came.append(arrived)
            return Reply("")

        bus.serve(ASK, keep)
        await bus.call(ASK, letter, timeout_s=PATIENCE_S)
        assert came == [letter]
        assert isinstance(came[0].inner, Letter)

    async def test_a_command_reaches_only_its_own_servers(self, bus: Bus) -> None:
        """Commands of one topic are told apart by name."""
        bus.serve(OTHER, answering("other "))
        bus.serve(ASK, answering("asked "))
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("asked x")

    async def test_without_a_server_a_call_fails_at_once(self, bus: Bus) -> None:
        """It says that nobody serves the command."""
        with pytest.raises(UnavailableError, match=r"post\.ask"):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)

    async def test_a_bus_tells_whether_a_command_is_served(self, bus: Bus) -> None:
        """From the first server's start to the last one's end; ending twice does no harm."""
        assert not bus.serves(ASK)
        stop = bus.serve(ASK, answering(""))
        also_stop = bus.serve(ASK, answering(""))
        assert bus.serves(ASK)
        assert not bus.serves(OTHER)
        stop()
        stop()
        assert bus.serves(ASK)
        also_stop()
        assert not bus.serves(ASK)

    async def test_a_call_is_answered_by_one_server(self, bus: Bus) -> None:
        """Of several, each is asked sooner or later."""
        bus.serve(ASK, answering("1"))
        bus.serve(ASK, answering("2"))
        replies = [await bus.call(ASK, Letter(""), timeout_s=PATIENCE_S) for _ in range(20)]
        assert set(replies) == {Reply("1"), Reply("2")}

    async def test_calls_do_not_wait_for_one_another(self, bus: Bus) -> None:
        """A server works on several calls at once."""
        both = asyncio.Barrier(2)

        async def meet(letter: Letter) -> Reply:
            await both.wait()
            return Reply(letter.text)

        bus.serve(ASK, meet)
        calls = (bus.call(ASK, Letter(text), timeout_s=PATIENCE_S) for text in "ab")
        assert await asyncio.gather(*calls) == [Reply("a"), Reply("b")]

    @pytest.mark.parametrize(
        "error", [ConflictError("it changed"), InvalidInputError("server.name", "is too long")]
    )
    async def test_an_error_comes_back_with_type_and_fields(
        self, bus: Bus, error: BerthError
    ) -> None:
        """The caller can tell what the server meant."""
        bus.serve(ASK, refusing(error))
        with pytest.raises(type(error)) as caught:
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert str(caught.value) == str(error)
        assert vars(caught.value) == vars(error)

    async def test_a_mistake_in_a_server_comes_back_as_unavailable(self, bus: Bus) -> None:
        """Nobody knows what was done; the server goes on serving."""
        stop = bus.serve(ASK, refusing(ZeroDivisionError("oh")))
        with pytest.raises(UnavailableError):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        stop()
        bus.serve(ASK, answering(""))
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("x")

    async def test_who_waits_too_long_is_told_so_and_the_server_goes_on(self, bus: Bus) -> None:
        """A late answer is lost, what was ordered is done."""
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

    async def test_a_caller_who_goes_away_does_not_stop_the_server(self, bus: Bus) -> None:
        """Cancelling a call cancels the waiting only."""
        begun, gate, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def take_time(letter: Letter) -> Reply:
            begun.set()
            await gate.wait()
            done.set()
            return Reply("")

        bus.serve(ASK, take_time)
        call = asyncio.create_task(bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gate.set()
        await asyncio.wait_for(done.wait(), PATIENCE_S)

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
