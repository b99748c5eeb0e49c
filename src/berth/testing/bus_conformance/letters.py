"""What is sent in the suite, and servers of all kinds."""

# ruff: noqa: ARG001 - a handler takes its letter, whatever it does with it

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from berth.ports.bus import CONTEXT, Command, Context

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
BY_ONE: Command[Letter, Reply] = Command("post", "by_one", Letter, Reply, by_one=True)
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


class Keeping:
    """A server that keeps the letters that come, with their contexts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.contexts: list[Context] = []
        self._came = asyncio.Condition()

    async def __call__(self, letter: Letter) -> Reply:
        """Keep a letter."""
        async with self._came:
            self.texts.append(letter.text)
            self.contexts.append(CONTEXT.get())
            self._came.notify_all()
        return Reply(letter.text)

    async def wait_for(self, count: int) -> list[str]:
        """Wait until so many have come, and return their texts in order of the alphabet."""
        async with asyncio.timeout(PATIENCE_S), self._came:
            await self._came.wait_for(lambda: len(self.texts) >= count)
        return sorted(self.texts)
