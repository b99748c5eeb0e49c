"""Steps: the actions of an agent for an instance, as reported to the control plane.

A report names the step and its outcome. It contains no record: the control plane derives all writes
from its own records, so a compromised host can lie only about its own guests.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from berth.domain.compute.build_failure import FailureCause
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.server_image import ImageSize
from berth.domain.errors import InvalidInputError
from berth.domain.uuids import is_uuid

ERROR_TEXT_MAX: Final = 1_000
"""Maximum number of characters in the text of an error."""

ADDRESS_MAX: Final = 1_000
"""Maximum number of characters in the address of disks or of a waiting guest."""

LEFTOVER_AGE_S: Final = 600.0
"""Leftover files are ignored if they or their instance changed within this many seconds.

A task may still be working on them.
"""


class StepResult(StrEnum):
    """The result of a step."""

    DONE = "done"
    FAILED = "failed"
    STORED = "stored"
    """The disks are stored at the address that the outcome names."""
    GUEST_GONE = "guest_gone"
    """The source of a live migration no longer has the guest."""
    GUEST_LOST = "guest_lost"
    """The guest of a live migration is on neither side."""
    DISKS_LEFT = "disks_left"
    """The guest is destroyed, but this host cannot delete the stored disks."""


@dataclass(frozen=True, slots=True)
class StepError:
    """The reason why a step failed.

    `text` is for operators. `cause` is set for failed builds only; `blames_host` says whether the
    failure counts against the host. `power` is the power state of the guest after the failure, or
    empty if the host does not know it.
    """

    text: str
    cause: FailureCause | None = None
    blames_host: bool = False
    power: str = ""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of one step.

    `revision` is that of the instance on which the agent acted, and `stage` the stage of its move,
    empty if it has none; a report about an older state is rejected. `seconds` is the duration of
    the step. `address` tells where the disks, or the guest that waits for a live migration, can be
    reached. `image` is the size of the image that the step has made.
    """

    instance_uuid: str
    revision: int
    result: StepResult
    seconds: float = 0.0
    stage: str = ""
    address: str = ""
    error: StepError | None = None
    image: ImageSize | None = None

    def __post_init__(self) -> None:
        """Reject values that a correct agent never reports.

        Raises:
            InvalidInputError: a value is malformed or out of bounds, or `error` does not match
                `result`.
        """
        if not is_uuid(self.instance_uuid):
            raise InvalidInputError("instance_uuid", f"{self.instance_uuid[:80]!r} must be a UUID")
        if len(self.address) > ADDRESS_MAX:
            reason = f"has {len(self.address)} characters; at most {ADDRESS_MAX} are allowed"
            raise InvalidInputError("address", reason)
        # Another host opens the address, and operators read it in logs.
        if not self.address.isprintable():
            raise InvalidInputError(
                "address", f"{self.address[:80]!r} must consist of printable characters"
            )
        is_failure = self.result in {StepResult.FAILED, StepResult.GUEST_LOST}
        if is_failure != (self.error is not None):
            wanted = "is required" if is_failure else "must be absent"
            raise InvalidInputError("error", f"{wanted} when the result is {self.result}")
        if not 0 <= self.seconds < float("inf"):
            raise InvalidInputError("seconds", f"{self.seconds} must be finite and at least 0")


UNKNOWN: Final = "unknown"
DELETED: Final = "deleted"
NO_HOST: Final = "on no host"
OTHER_HOST: Final = "on another host"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an instance, as far as it concerns a host.

    `instance` and `migration` are the current records if the instance concerns the host. Otherwise
    both are None, and `where` says why: `unknown`, `deleted` (even if the record still names the
    host), `on no host` or `on another host`. `revision` is that of the instance, 0 if it is
    unknown.
    """

    instance: Instance | None = None
    migration: Migration | None = None
    where: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer to an outcome: whether it was recorded, and the current state of the instance.

    `standing` is None if the outcome was recorded.
    """

    is_recorded: bool
    standing: Standing | None = None


class LeftoverUse(StrEnum):
    """The verdict of the control plane on leftover files or stored disks."""

    NEEDED = "needed"
    """The leftover is needed, or may be."""
    UNNEEDED = "unneeded"
    """The agent may delete the leftover."""
    UNCLEAR = "unclear"
    """The operator has to decide."""


@dataclass(frozen=True, slots=True)
class LeftoverVerdict:
    """The verdict on a leftover, and the reason, worded as the end of a sentence."""

    use: LeftoverUse
    reason: str = ""
