"""The context for turning the outcome of a step into writes, and those writes."""

from dataclasses import dataclass
from typing import NamedTuple

from berth.domain.compute.build_failure import FailureCause
from berth.domain.compute.instance import Fault
from berth.domain.compute.instance_action import ActionEvent
from berth.domain.compute.step import ERROR_TEXT_MAX, StepOutcome
from berth.domain.ledger.write import Unit
from berth.ports.ledger import Ledger
from berth.services.gateway.alternates import Alternates

_FAILED = 500


@dataclass(frozen=True, slots=True)
class StepContext:
    """One outcome that a host has reported, with the context needed to record it.

    Attributes:
        host: the name of the host, as the gateway has authenticated it.
        ledger: the ledger.
        outcome: the outcome.
        now_s: Unix seconds; the step ended then and began `outcome.seconds` earlier. The clock of
            the host is not used, because it may be wrong.
        attempts_max: the maximum number of hosts on which a build or move is tried.
        alternates: finds the hosts to try next; if None, a scheduler chooses them.
    """

    host: str
    ledger: Ledger
    outcome: StepOutcome
    now_s: float
    attempts_max: int = 3
    alternates: Alternates | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the step failed."""
        return self.outcome.error is not None

    @property
    def error_text(self) -> str:
        """The text of the error, for operators; empty if there is none."""
        error = self.outcome.error
        return "" if error is None else error.text[:ERROR_TEXT_MAX]

    @property
    def cause(self) -> FailureCause | None:
        """The cause of a failed build; None if the step succeeded or was not a build."""
        error = self.outcome.error
        return None if error is None else error.cause

    @property
    def blames_host(self) -> bool | None:
        """True if the failure counts against the host, otherwise None."""
        error, cause = self.outcome.error, self.cause
        if error is None or cause is None:
            return None
        return (error.blames_host and cause.blames_host) or None

    def event(self, name: str) -> ActionEvent:
        """Return the event of the step."""
        began_s = self.now_s - self.outcome.seconds
        return ActionEvent(name, self.host, began_s, self.now_s, self.error_text)

    def fault(self, text: str, earlier: Fault | None = None) -> Fault:
        """Return a fault with a message for the owner and details for operators.

        Args:
            text: the message; it must not contain texts of drivers, which reveal hosts.
            earlier: the fault of the previous attempt, whose details come first.
        """
        details = f"{self.host}: {self.error_text}"[:ERROR_TEXT_MAX]
        if earlier is not None and earlier.details:
            details = f"{earlier.details}\n{details}"
        return Fault(_FAILED, text, self.now_s, details)


class StepWrites(NamedTuple):
    """The writes that record an outcome, the result of a build, and alternative writes.

    Attributes:
        unit: the writes, committed atomically.
        has_failed: True after a failed build that counts against the host, False after a successful
            build, None otherwise.
        cause: the cause of a failed build, whether or not it counts against the host.
        otherwise: units to try in turn when the ledger rejects the previous one for lack of
            capacity or a changed guard.
    """

    unit: Unit
    has_failed: bool | None = None
    cause: FailureCause | None = None
    otherwise: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units, in the order in which to try them."""
        return (self.unit, *self.otherwise)
