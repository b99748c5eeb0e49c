"""The observer of services, which turns their events into metrics and spans.

A service takes an `Observer` in its constructor and reports each step to it. The default is
`NO_OBSERVER`, which ignores all events.
"""

# ruff: noqa: ARG002 - the methods of `NullObserver` have the port's parameters and use none.

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from berth.domain.compute.build_failure import FailureCause
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Outcome

_T = TypeVar("_T")

Stage: TypeAlias = AbstractContextManager[Callable[[_T], None]]
"""A piece of work: a context manager that the service enters at its start and exits at its end.

Entering it returns a function, which the service calls with the result of the work. Work that
raises an exception has no result.
"""


class TaskEnd(NamedTuple):
    """The end of an attempt of an agent at a task, or at one stage of a move.

    Attributes:
        task: the name of the task or the stage.
        outcome: `done`, `failed` (recorded as the instance's fault), or `error` (raised, and to be
            tried again).
        seconds: the duration of the attempt.
        host: the name of the host.
        instance: the instance as it was before the attempt.
        error: the error message; empty unless the outcome is `failed`.
    """

    task: str
    outcome: str
    seconds: float
    host: str
    instance: Instance
    error: str = ""


class Observer(Protocol):
    """Receives the events of the services of one process. Its methods never wait and never fail."""

    def place(self, request: Request, instances: int) -> Stage[Decision]:
        """Return the stage of placing a request, which encloses the request's other stages.

        Args:
            request: the request.
            instances: the number of instances to place.
        """
        ...

    def decide(self, request: Request, attempt: int) -> Stage[Decision]:
        """Return the stage of one attempt to decide on a request; the first attempt is 1."""
        ...

    def claim(self, decision: Decision) -> Stage[Outcome]:
        """Return the stage of claiming the capacity that a decision needs."""
        ...

    def commit(self, request: Request, decision: Decision) -> Stage[Outcome]:
        """Return the stage of committing a decision, whether a placement or a refusal."""
        ...

    def heartbeats(self, hosts: int, *, are_saved: bool) -> None:
        """Report whether a batch of heartbeats was saved.

        Args:
            hosts: the number of hosts in the batch.
            are_saved: whether all heartbeats were saved; otherwise none was.
        """
        ...

    def task(self, host: str, instance: Instance) -> Stage[None]:
        """Return the stage of carrying out an instance's task, or a step of its move, on a host."""
        ...

    def task_ended(self, end: TaskEnd) -> None:
        """Report that an agent ended an attempt at a task, or at one stage of a move."""
        ...

    def build_failed(self, cause: FailureCause) -> None:
        """Report that a build failed on a host."""
        ...

    def rule_failed(self, rule: str, error: Exception) -> None:
        """Report an error that a rule raised while it explained a refusal."""
        ...


def _ignore(_: object) -> None:
    """Discard the result of a stage."""


# A `nullcontext` may be entered again before it is exited, so one instance serves all stages.
_UNOBSERVED: Final = nullcontext(_ignore)


class NullObserver:
    """An `Observer` that ignores all events; a base class for observers of only some events."""

    def place(self, request: Request, instances: int) -> Stage[Decision]:
        """See `Observer.place`."""
        return _UNOBSERVED

    def decide(self, request: Request, attempt: int) -> Stage[Decision]:
        """See `Observer.decide`."""
        return _UNOBSERVED

    def claim(self, decision: Decision) -> Stage[Outcome]:
        """See `Observer.claim`."""
        return _UNOBSERVED

    def commit(self, request: Request, decision: Decision) -> Stage[Outcome]:
        """See `Observer.commit`."""
        return _UNOBSERVED

    def heartbeats(self, hosts: int, *, are_saved: bool) -> None:
        """See `Observer.heartbeats`."""

    def task(self, host: str, instance: Instance) -> Stage[None]:
        """See `Observer.task`."""
        return _UNOBSERVED

    def task_ended(self, end: TaskEnd) -> None:
        """See `Observer.task_ended`."""

    def build_failed(self, cause: FailureCause) -> None:
        """See `Observer.build_failed`."""

    def rule_failed(self, rule: str, error: Exception) -> None:
        """See `Observer.rule_failed`."""


NO_OBSERVER: Final = NullObserver()
"""The default observer of services."""
