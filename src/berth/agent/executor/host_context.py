"""What work on one host needs, and what comes of it."""

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
    """One host with what its agent works with.

    `attempts_max` is on how many hosts one instance is tried, `stop_grace_s` for how many seconds
    a guest may shut itself down. With `offloads` an instance that was shelved leaves the host at
    once, if its driver can store the disks. `alternates` looks at the hosts that are tried next;
    without it schedulers choose them. `half_life_s` is in which time failed builds count half.
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
        """Make the record of a step that was done here and ends now."""
        text = "" if error is None else str(error)
        return ActionEvent(name, self.host, started_at_s, self.clock.now_s(), text)

    def fault(self, text: str, error: Exception, earlier: Fault | None = None) -> Fault:
        """Make a fault: `text` is for the owner, who must not learn what drivers say of hosts.

        Args:
            text: what went wrong.
            error: why, for operators.
            earlier: of the try before this one, whose details come first.
        """
        details = f"{self.host}: {error}"[:_DETAILS_MAX]
        if earlier is not None and earlier.details:
            details = f"{earlier.details}\n{details}"
        return Fault(_FAILED, text, self.clock.now_s(), details)


class TaskResult(NamedTuple):
    """What to write down, and what to do once it is.

    Attributes:
        unit: for the ledger.
        has_failed: whether a build failed that counts; None when none was tried.
        stored: disks that nobody needs if the unit is refused.
        cause: why a build failed, if one did, counting or not.
        otherwise: units to try in turn when the ledger has no room for the one before, or others
            have changed what it rests on.
    """

    unit: Unit
    has_failed: bool | None = None
    stored: str | None = None
    cause: FailureCause | None = None
    otherwise: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, the first choice first."""
        return (self.unit, *self.otherwise)


def cause_of(error: Exception) -> FailureCause | None:
    """Return why a build failed; None when it was none that failed.

    Drivers wrap what broke below them, so a time that ran out there is found as its cause.
    """
    if not isinstance(error, BuildError):
        return None
    below: BaseException | None = error.__cause__
    while below is not None and error.cause is FailureCause.DRIVER:
        if isinstance(below, TimeoutError):
            return FailureCause.TIMEOUT
        below = below.__cause__
    return error.cause
