"""The message bus: commands between the parts of Berth. At most once; truth is in the ledger."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Command(Generic[A, R]):
    """A command that a part serves: who serves it, its name, what goes in and comes back.

    `args` and `reply` are types that the codec knows; both are encoded on every bus, so that
    what works in one process works between two.
    """

    topic: str
    name: str
    args: type[A]
    reply: type[R]


class Bus(Protocol):
    """Carries commands by topic."""

    async def call(self, command: Command[A, R], args: A, *, timeout_s: float) -> R:
        """Send to one server of the command's topic and wait for its answer.

        Raises:
            UnavailableError: nobody serves it, or the answer did not come in time (then it may
                still be carried out).
            BerthError: what the server raised, with its type and fields kept.
        """
        ...

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Send to every server of the command's topic and do not wait."""
        ...

    def serve(
        self, command: Command[A, R], handler: Callable[[A], Awaitable[R]]
    ) -> Callable[[], None]:
        """Serve a command in this process; the returned function stops serving it."""
        ...

    def serves(self, command: Command[A, R]) -> bool:
        """Tell whether anybody that this bus reaches serves the command."""
        ...
