"""The message bus: commands between the processes of Berth, and notifications to other systems.

The bus may lose and duplicate messages. All work is recorded in the ledger, so a lost command only
causes a delay (docs/adr/0004-commands-are-states.md). If a server dies while it processes a
command, the bus may deliver the command to another server, so handlers are idempotent.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

A = TypeVar("A")
"""The arguments of a command."""
R = TypeVar("R")
"""The reply to a command."""


@dataclass(frozen=True, slots=True)
class Context:
    """The metadata that travels with a command.

    `request_id` is the request on whose behalf the command is sent. `deadline_s` is the Unix time
    after which the caller no longer waits. `traceparent` is the W3C Trace Context header of that
    name. Each is None when absent.
    """

    request_id: str | None = None
    deadline_s: float | None = None
    traceparent: str | None = None

    def until(self, deadline_s: float) -> "Context":
        """Return the context of a nested command that is due at `deadline_s` (Unix seconds).

        If this context has an earlier deadline, that one stays.
        """
        # Nested work that outlasts the caller's deadline would be thrown away.
        if self.deadline_s is not None and self.deadline_s < deadline_s:
            return self
        return Context(self.request_id, deadline_s, self.traceparent)


_NONE: Final = Context()
# This is a context variable, so that intermediate functions need not pass the context on.
CONTEXT: Final[ContextVar[Context]] = ContextVar("berth_context", default=_NONE)
"""The context of the running task: sent with each command and restored where it is served."""


@dataclass(frozen=True, slots=True)
class Command(Generic[A, R]):
    """The declaration of a command: its topic and name, and the types of arguments and reply.

    The codec must know the types `args` and `reply`, and their values must be immutable, because a
    bus within one process may pass them on unencoded. A command with `by_one` always goes to the
    same server until that server stops, because its handler depends on state in memory. Calls of a
    `batched` command that are made at the same time may share a message, which saves most of its
    cost.
    """

    topic: str
    name: str
    args: type[A]
    reply: type[R]
    by_one: bool = False
    batched: bool = False


class Bus(Protocol):
    """Delivers commands to their servers: the processes that have called `serve` for them.

    A server may have a name; an agent's server has the name of its host. A named server receives
    the commands addressed to its name, and fanouts. An unnamed one receives commands without an
    address, and fanouts.
    """

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """Send a command to one server and return its reply.

        Args:
            command: the command.
            args: its arguments.
            timeout_s: seconds to wait for the reply.
            server: the name of the server that must carry it out; None for any server.

        Raises:
            UnavailableError: no server is running, or no reply arrived within `timeout_s` seconds;
                in the latter case the command may still be executed.
            BerthError: the error that the handler raised, with its type and fields.
        """
        ...

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """Send a command to one server; return once the bus has accepted it, without a reply.

        Args:
            command: the command.
            args: its arguments.
            timeout_s: seconds after which the bus drops the command if no server has received it.
            server: the name of the server that must carry it out; None for any server.

        Raises:
            UnavailableError: no server is running, or the bus cannot be reached.
        """
        ...

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Send a command to every server that is running now, without waiting for replies.

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
        """Serve a command in this process; return a function that stops serving it."""
        ...

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """Return False if it is known that no server would answer a call, and True otherwise."""
        ...


class Priority(StrEnum):
    """The severity of a notification."""

    INFO = "INFO"
    ERROR = "ERROR"


class Notifier(Protocol):
    """Accepts notifications and delivers them asynchronously."""

    # Notifications are best effort, so that no operation of a cloud depends on its observers.
    def notify(
        self,
        event_type: str,
        payload: object,
        *,
        key: str,
        priority: Priority = Priority.INFO,
    ) -> None:
        """Queue a notification. This never waits and never fails.

        Args:
            event_type: the event, in words separated by dots (`instance.create.end`).
            payload: a document that the codec can encode.
            key: an idempotency key for the event. Processes that report the same event use the same
                key, so that consumers can drop duplicates.
            priority: the severity.
        """
        ...
