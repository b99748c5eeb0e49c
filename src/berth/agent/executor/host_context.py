"""The context in which tasks run on one host, and the result of a task."""

from dataclasses import dataclass
from typing import NamedTuple

from berth.agent.executor.alternates import Alternates
from berth.domain.compute.build_failure import HALF_LIFE_S, BuildError, FailureCause
from berth.domain.compute.instance import Fault
from berth.domain.compute.instance_action import ActionEvent
from berth.domain.ledger.write import Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.virt import VirtDriver

_FAILED = 500
_DETAILS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class HostContext:
    """One host, with the ledger, driver, clock and settings of its agent.

    Attributes:
        host: the host's name.
        ledger: the ledger.
        driver: the host's driver.
        clock: the source of the time.
        attempts_max: the maximum number of hosts on which a build or move is tried.
        stop_grace_s: how many seconds a guest has to shut itself down.
        offloads: whether a shelved instance leaves the host immediately, if the driver can store
            disks.
        alternates: finds the hosts to try next; if None, a scheduler chooses them.
        half_life_s: the half-life of the count of failed builds, in seconds.
    """

    host: str
    ledger: Ledger
    driver: VirtDriver
    clock: Clock
    attempts_max: int = 3
    stop_grace_s: float = 60.0
    offloads: bool = True
    alternates: Alternates | None = None
    half_life_s: float = HALF_LIFE_S

    def event(self, name: str, started_at_s: float, error: Exception | None = None) -> ActionEvent:
        """Return the event of a step that ran on this host and ends now."""
        text = "" if error is None else str(error)
        return ActionEvent(name, self.host, started_at_s, self.clock.now_s(), text)

    def fault(self, text: str, error: Exception, earlier: Fault | None = None) -> Fault:
        """Return a fault with a message for the owner and details for operators.

        Args:
            text: the message; it must not contain texts of drivers, which reveal hosts.
            error: the cause, which becomes part of the details.
            earlier: the fault of the previous attempt, whose details come first.
        """
        details = f"{self.host}: {error}"[:_DETAILS_MAX]
        if earlier is not None and earlier.details:
            details = f"{earlier.details}\n{details}"
        return Fault(_FAILED, text, self.clock.now_s(), details)


class TaskResult(NamedTuple):
    """The outcome of a task: the writes to commit, and what follows from them.

    Attributes:
        unit: the writes, committed atomically.
        has_failed: True after a failed build that counts against the host, False after a successful
            build, None otherwise.
        stored: the address of stored disks, to be deleted if the ledger rejects the unit.
        cause: the cause of a failed build, whether or not it counts against the host.
        otherwise: units to try in turn when the ledger rejects the previous one for lack of
            capacity or a changed guard.
    """

    unit: Unit
    has_failed: bool | None = None
    stored: str | None = None
    cause: FailureCause | None = None
    otherwise: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, in the order in which to try them."""
        return (self.unit, *self.otherwise)


def cause_of(error: Exception) -> FailureCause | None:
    """Return the cause of a failed build, or None when the error is not a failed build.

    Drivers wrap the errors of lower layers, so a timeout is found among the error's causes.
    """
    if not isinstance(error, BuildError):
        return None
    below: BaseException | None = error.__cause__
    while below is not None and error.cause is FailureCause.DRIVER:
        if isinstance(below, TimeoutError):
            return FailureCause.TIMEOUT
        below = below.__cause__
    return error.cause
