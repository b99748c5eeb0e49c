"""Migrations: moves of instances between hosts, as a state machine (docs/adr/0018-moves.md).

The migration is itself a consumer. It holds the allocations on the source until the source has been
cleaned up, while the instance holds those on the destination. If the instance stays on the source
or is deleted, the migration holds the allocations of the side that must still be cleaned up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Fault, Status
from berth.domain.hardware.assignment import Assignment
from berth.domain.open_name import OpenName

CONSUMER_TYPE: Final = "MIGRATION"
"""The consumer type of migrations."""


class MoveKind(OpenName):
    """The kind of a move, as in the compute API."""

    RESIZE = "resize"
    COLD = "migration"
    LIVE = "live-migration"
    EVACUATION = "evacuation"


class Stage(OpenName):
    """The stage of a move.

    In each non-final stage but `ARRIVED`, one side must act (`Migration.turn`).
    """

    LEAVING = "leaving"
    """The source stops the guest and offers its disks."""
    ARRIVING = "arriving"
    """The destination builds the guest."""
    ARRIVED = "arrived"
    """The owner must confirm or revert the move."""
    CONFIRMING = "confirming"
    """The source deletes its guest."""
    RETURNING = "returning"
    """The destination deletes its guest, because the owner reverted the move."""
    RESTORING = "restoring"
    """The source restarts its guest, because the move was reverted or has failed."""
    PREPARING = "preparing"
    """The destination prepares to receive the live guest."""
    MOVING = "moving"
    """The source transfers the live guest."""
    LANDING = "landing"
    """The source no longer has the live guest, and the destination checks whether it arrived."""
    WITHDRAWING = "withdrawing"
    """The destination deletes the prepared guest, because the live migration failed."""
    ABANDONED = "abandoned"
    """The instance was deleted during the move; the destination deletes its guest and disks."""
    LEFT_BEHIND = "left_behind"
    """The instance was evacuated; the source deletes the old guest once its agent runs again."""

    # Final stages: neither side has anything left to do.
    CONFIRMED = "confirmed"
    REVERTED = "reverted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


_ENDED: Final = frozenset(
    {Stage.CONFIRMED, Stage.REVERTED, Stage.COMPLETED, Stage.CANCELLED, Stage.FAILED}
)
# The instance no longer takes part in the move, but the record still holds the capacity until the
# agent of one side has cleaned up, because a guest may still run there (docs/adr/0018-moves.md).
_LEFT_OVER: Final = frozenset({Stage.LEFT_BEHIND, Stage.ABANDONED})
_OF_SOURCE: Final = frozenset(
    {Stage.LEAVING, Stage.CONFIRMING, Stage.RESTORING, Stage.MOVING, Stage.LEFT_BEHIND}
)
_OF_DESTINATION: Final = frozenset(
    {
        Stage.ARRIVING,
        Stage.RETURNING,
        Stage.PREPARING,
        Stage.LANDING,
        Stage.WITHDRAWING,
        Stage.ABANDONED,
    }
)
# Stages in which the instance's record names the source, so the destination is "elsewhere". After
# the arrival the record names the destination, and the source is "elsewhere".
_BEFORE_ARRIVAL: Final = frozenset(
    {
        Stage.LEAVING,
        Stage.ARRIVING,
        Stage.PREPARING,
        Stage.MOVING,
        Stage.LANDING,
        Stage.WITHDRAWING,
        Stage.ABANDONED,
    }
)
_AFTER_ARRIVAL: Final = frozenset(
    {Stage.ARRIVED, Stage.CONFIRMING, Stage.RETURNING, Stage.LEFT_BEHIND}
)

_KINDS: Final = frozenset(MoveKind)
_STATUSES: Final[Mapping[Stage, str]] = {
    Stage.LEAVING: "migrating",
    Stage.ARRIVING: "post-migrating",
    Stage.ARRIVED: "finished",
    Stage.CONFIRMING: "confirming",
    Stage.RETURNING: "reverting",
    Stage.RESTORING: "reverting",
    Stage.PREPARING: "preparing",
    Stage.MOVING: "running",
    Stage.LANDING: "running",
    Stage.WITHDRAWING: "failed",
    Stage.ABANDONED: "error",
    Stage.LEFT_BEHIND: "done",
    Stage.CONFIRMED: "confirmed",
    Stage.REVERTED: "reverted",
    Stage.COMPLETED: "completed",
    Stage.CANCELLED: "cancelled",
    Stage.FAILED: "error",
}
# Nova reports some stages under a different status for these kinds.
_STATUSES_OF_KIND: Final[Mapping[tuple[MoveKind, Stage], str]] = {
    (MoveKind.EVACUATION, Stage.ARRIVING): "accepted",
    (MoveKind.EVACUATION, Stage.FAILED): "failed",
    (MoveKind.LIVE, Stage.FAILED): "failed",
    # The owner has confirmed the move, or deleted the instance, which confirms it as well.
    (MoveKind.RESIZE, Stage.LEFT_BEHIND): "confirmed",
    (MoveKind.COLD, Stage.LEFT_BEHIND): "confirmed",
}
STATUSES_SHOWN: Final = tuple(sorted({*_STATUSES.values(), *_STATUSES_OF_KIND.values()}))
"""All statuses of migrations that clients may see."""


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a move: a host, and the flavor and hardware of the instance there.

    `assignment` is None if the instance receives nothing there beyond its flavor's amounts.
    """

    host: str
    node: str
    flavor: Flavor
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """One move of one instance.

    `number` is the integer id that clients see. `was` is the instance's status before the move,
    which is restored afterwards. `address` tells the agent of the other side where to find the
    guest or its disks; clients never see it. `retried` are (host, node) pairs on which this move
    has failed. Times are Unix seconds.
    """

    uuid: str
    number: int
    instance_uuid: str
    kind: MoveKind
    stage: Stage
    source: Place
    destination: Place
    was: Status
    request_id: str
    project_id: str
    user_id: str
    address: str = ""
    cancelled: bool = False
    """Whether the owner has requested to abort the move."""
    forced: bool = False
    """Whether the caller named the destination; if so, no other host is tried."""
    retried: tuple[tuple[str, str], ...] = ()
    fault: Fault | None = None
    group_uuid: str | None = None
    """The instance's server group, or None. Its policy applies on both sides during the move."""
    stays_off: bool = False
    """Whether the destination of an evacuation stops the instance, whatever its status was."""
    created_at_s: float = 0.0
    updated_at_s: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether this version of Berth knows the kind and the stage and so may act on the move."""
        return self.stage in _STATUSES and self.kind in _KINDS

    @property
    def has_ended(self) -> bool:
        """Whether the move is in a final stage, in which no side has to act."""
        return self.stage in _ENDED

    @property
    def is_left_over(self) -> bool:
        """Whether the instance was deleted or evacuated and one side still has to clean up."""
        return self.stage in _LEFT_OVER

    def concerns(self, host: str) -> bool:
        """Return whether a host is the source or the destination of a move that has not ended."""
        return not self.has_ended and host in {self.source.host, self.destination.host}

    @property
    def is_in_place(self) -> bool:
        """Whether source and destination are the same host."""
        here = self.source.host, self.source.node
        return here == (self.destination.host, self.destination.node)

    @property
    def turn(self) -> str | None:
        """The host whose agent must act next; None if no agent has to or the kind is unknown."""
        # A newer version added the unknown kind. A wrong guess could destroy the only guest.
        if self.kind not in _KINDS:
            return None
        if self.stage in _OF_SOURCE:
            return self.source.host
        return self.destination.host if self.stage in _OF_DESTINATION else None

    @property
    def elsewhere(self) -> Place | None:
        """The side other than the instance's host, if it holds allocations; otherwise None."""
        if self.stage in _BEFORE_ARRIVAL:
            return self.destination
        return self.source if self.stage in _AFTER_ARRIVAL else None

    @property
    def stage_when_cleared(self) -> Stage:
        """The final stage that the move enters once its leftovers have been cleaned up."""
        if self.stage is not Stage.LEFT_BEHIND:
            return Stage.FAILED
        is_confirmed = self.kind in {MoveKind.RESIZE, MoveKind.COLD}
        return Stage.CONFIRMED if is_confirmed else Stage.COMPLETED

    @property
    def status(self) -> str:
        """The status shown by the compute API; for an unknown stage, the stage's own name."""
        stage = self.stage
        return _STATUSES_OF_KIND.get((self.kind, stage)) or _STATUSES.get(stage, stage.value)
