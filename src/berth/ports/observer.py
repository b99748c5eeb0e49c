"""What the services report about their work, to be counted and traced.

A service takes an `Observer` in its constructor and reports each step to it. Without one it takes
`NO_OBSERVER`, whose stages cost less than 1 µs each: 3 µs of a create, which takes about 1 ms.
"""

# ruff: noqa: ARG002 - the methods of `NullObserver` have the port's parameters and use none.

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeAlias, TypeVar

from berth.domain.compute.build_failure import FailureCause
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.ledger.write import Outcome

_T = TypeVar("_T")

Stage: TypeAlias = AbstractContextManager[Callable[[_T], None]]
"""A stretch of work: entered when it begins, left when it ends.

Entering returns a function that the service calls with the result. A stage that raises is left
without a result.
"""


class Observer(Protocol):
    """Receives the events of the services of one process. No method waits or fails."""

    def place(self, request: Request, instances: int) -> Stage[Decision]:
        """Begin to place a request for this many instances; its other stages are within this."""
        ...

    def decide(self, request: Request, attempt: int) -> Stage[Decision]:
        """Begin to decide on a request; the first attempt is 1."""
        ...

    def claim(self, decision: Decision) -> Stage[Outcome]:
        """Begin to claim what was decided."""
        ...

    def commit(self, request: Request, decision: Decision) -> Stage[Outcome]:
        """Begin to commit a decision, be it a placement or a refusal."""
        ...

    def heartbeats(self, hosts: int, *, are_saved: bool) -> None:
        """Report the heartbeats of this many hosts, saved together or not at all."""
        ...

    def task(self, host: str, instance: Instance) -> Stage[None]:
        """Begin to carry out the task of an instance on a host; stages of moves count as tasks."""
        ...

    def task_ended(self, task: str, outcome: str, seconds: float) -> None:
        """Report that a host ended a task, or one stage of a move.

        Args:
            task: the name of the task or the stage.
            outcome: `done`, `failed` (recorded as the instance's fault), or `error` (raised, and
                to be tried again).
            seconds: the time that it took.
        """
        ...

    def build_failed(self, cause: FailureCause) -> None:
        """Report that a build failed on a host."""
        ...


def _ignore(_: object) -> None:
    """Take a result that is not observed."""


# `nullcontext` may be entered any number of times at once, so one instance serves all stages.
_UNOBSERVED: Final = nullcontext(_ignore)


class NullObserver:
    """An `Observer` that ignores everything; the base of observers of some of the events."""

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

    def task_ended(self, task: str, outcome: str, seconds: float) -> None:
        """See `Observer.task_ended`."""

    def build_failed(self, cause: FailureCause) -> None:
        """See `Observer.build_failed`."""


NO_OBSERVER: Final = NullObserver()
"""The default of every constructor that takes an `Observer`."""
