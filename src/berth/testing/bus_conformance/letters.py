"""The commands, payloads and handlers of the bus conformance suite."""

# ruff: noqa: ARG001 - a handler takes its letter, whatever it does with it

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from berth.ports.bus import CONTEXT, Command, Context

PATIENCE_S = 10.0
"""Seconds to wait for an event that must happen."""

IMPATIENCE_S = 0.05
"""Timeout in seconds of a call that must fail."""


@dataclass(frozen=True, slots=True)
class Letter:
    """The arguments of the suite's commands."""

    text: str
    tags: tuple[str, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict[str, int])
    inner: "Letter | None" = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of the suite's commands."""

    text: str


ASK: Command[Letter, Reply] = Command("post", "ask", Letter, Reply)
BY_ONE: Command[Letter, Reply] = Command("post", "by_one", Letter, Reply, by_one=True)
BATCHED: Command[Letter, Reply] = Command("post", "batched", Letter, Reply, batched=True)
OTHER: Command[Letter, Reply] = Command("post", "other", Letter, Reply)


def answering(text: str) -> Callable[[Letter], Awaitable[Reply]]:
    """Return a handler that replies with its own text followed by the letter's."""

    async def answer(letter: Letter) -> Reply:
        return Reply(f"{text}{letter.text}")

    return answer


def refusing(error: Exception) -> Callable[[Letter], Awaitable[Reply]]:
    """Return a handler that raises an error."""

    async def refuse(letter: Letter) -> Reply:
        raise error

    return refuse


class Keeping:
    """A handler that records the texts and contexts of the letters it receives."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.contexts: list[Context] = []
        self._came = asyncio.Condition()

    async def __call__(self, letter: Letter) -> Reply:
        """Record a letter, and reply with its text."""
        async with self._came:
            self.texts.append(letter.text)
            self.contexts.append(CONTEXT.get())
            self._came.notify_all()
        return Reply(letter.text)

    async def wait_for(self, count: int) -> list[str]:
        """Wait until `count` letters have arrived, and return all texts, sorted."""
        async with asyncio.timeout(PATIENCE_S), self._came:
            await self._came.wait_for(lambda: len(self.texts) >= count)
        return sorted(self.texts)
