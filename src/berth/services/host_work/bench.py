"""What work on one host needs, and what comes of it."""

from dataclasses import dataclass
from typing import NamedTuple

from berth.domain.instance import Fault
from berth.domain.instance_action import ActionEvent
from berth.domain.write import Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.virt import Driver

_FAILED = 500


@dataclass(frozen=True, slots=True)
class Bench:
    """One host with what its agent works with.

    `attempts_max` is on how many hosts one instance is tried, `stop_grace_s` for how many seconds
    a guest may shut itself down. With `offloads` an instance that was shelved leaves the host at
    once, if its driver can store the disks.
    """

    host: str
    ledger: Ledger
    driver: Driver
    clock: Clock
    attempts_max: int = 3
    stop_grace_s: float = 60.0
    offloads: bool = True

    def event(self, name: str, started_at_s: float, error: Exception | None = None) -> ActionEvent:
        """Make the record of a step that was done here and ends now."""
        text = "" if error is None else str(error)
        return ActionEvent(name, self.host, started_at_s, self.clock.now_s(), text)

    def fault(self, text: str, error: Exception) -> Fault:
        """Make a fault: `text` is for the owner, who must not learn what drivers say of hosts."""
        return Fault(_FAILED, text, self.clock.now_s(), f"{self.host}: {error}")


class Result(NamedTuple):
    """What to write down, and what to do once it is.

    Attributes:
        unit: for the ledger.
        has_failed: whether a build failed that counts; None when none was tried.
        stored: disks that nobody needs if the unit is refused.
    """

    unit: Unit
    has_failed: bool | None = None
    stored: str | None = None
