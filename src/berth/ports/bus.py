"""The message bus: commands between the parts of Berth. It may lose and double; truth is elsewhere.

What is to be done stands in the ledger, so a command that is lost costs time and nothing else. A
bus between processes may hand one command to two servers, one after the other, when the first
dies at it: handlers do no harm when they are asked twice.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Context:
    """What goes with a command beside its arguments.

    `request_id` names the request that it is done for. `deadline_s` is the Unix time after which
    nobody waits for the outcome. `traceparent` is the header of that name of W3C Trace Context.
    """

    request_id: str | None = None
    deadline_s: float | None = None
    traceparent: str | None = None

    def until(self, deadline_s: float) -> "Context":
        """Return the context of a command within this one: it ends with the earlier deadline."""
        if self.deadline_s is not None and self.deadline_s < deadline_s:
            return self
        return Context(self.request_id, deadline_s, self.traceparent)


_NONE: Final = Context()
CONTEXT: Final[ContextVar[Context]] = ContextVar("berth_context", default=_NONE)
"""The context of whatever runs: sent with each command, and set again where it is served."""


@dataclass(frozen=True, slots=True)
class Command(Generic[A, R]):
    """A command that a part serves: who serves it, its name, what goes in and comes back.

    `args` and `reply` are types that the codec knows; both are encoded on every bus, so that
    what works in one process works between two. One that is served `by_one` goes to the same of
    its servers each time, and to another one when that ends, as each answers by what it remembers.
    """

    topic: str
    name: str
    args: type[A]
    reply: type[R]
    by_one: bool = False


class Bus(Protocol):
    """Carries commands by topic.

    A server may have a name (the agent of a host has its host's). It is sent what names it, and
    fanouts; one without a name is sent what names nobody, and fanouts.
    """

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """Send to one server of the command and wait for its answer.

        Raises:
            UnavailableError: nobody serves it, or the answer did not come in time (then it may
                still be carried out).
            BerthError: what the server raised, with its type and fields kept.
        """
        ...

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """Send to one server of the command; return when the bus has it, and do not wait.

        What has not reached a server after `timeout_s` is dropped.

        Raises:
            UnavailableError: nobody serves it, or the bus cannot be reached.
        """
        ...

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Send to every server of the command that is there now, and do not wait.

        Raises:
            UnavailableError: the bus cannot be reached.
        """
        ...

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """Serve a command in this process; the returned function stops serving it."""
        ...

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """Tell whether a call is worth trying: False when it is known that nobody would answer."""
        ...


class Priority(StrEnum):
    """How much a notification matters to whoever reads it."""

    INFO = "INFO"
    ERROR = "ERROR"


class Notifier(Protocol):
    """Takes notifications and tells them in its own time."""

    def notify(
        self, event_type: str, payload: object, *, key: str, priority: Priority = Priority.INFO
    ) -> None:
        """Have something told that happened. It never waits and never fails.

        Args:
            event_type: what happened, in words with dots between (`instance.create.end`).
            payload: a document that the codec knows.
            key: what it is about and which time it happened; whoever tells of the same gives
                the same key, so that readers know the second from the first.
            priority: how much it matters.
        """
        ...
