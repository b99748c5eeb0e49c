"""Migrations: moves of instances between hosts, step by step.

What was allocated on the host that is left is held by the migration, as a consumer of its own,
until that host is clean; the instance itself holds what it has on the other one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Fault, Status
from berth.domain.hardware.assignment import Assignment
from berth.domain.open_name import OpenName

CONSUMER_TYPE: Final = "MIGRATION"
"""Type of consumers that are migrations."""


class MoveKind(OpenName):
    """The kinds of moves, as clients call them."""

    RESIZE = "resize"
    COLD = "migration"
    LIVE = "live-migration"
    EVACUATION = "evacuation"


class Stage(OpenName):
    """How far a move is. Each stage but the last ones is somebody's turn."""

    LEAVING = "leaving"
    """The source stops the guest and offers its disks."""
    ARRIVING = "arriving"
    """The destination builds the guest."""
    ARRIVED = "arrived"
    """The owner is to confirm or revert."""
    CONFIRMING = "confirming"
    """The source forgets the guest."""
    RETURNING = "returning"
    """The destination forgets the guest, since the move is reverted."""
    RESTORING = "restoring"
    """The source starts the guest again, since the move is reverted or has failed."""
    PREPARING = "preparing"
    """The destination opens itself for a live guest."""
    MOVING = "moving"
    """The source hands the live guest over."""
    LANDING = "landing"
    """The source has the live guest no more, and the destination says whether it has it."""
    WITHDRAWING = "withdrawing"
    """The destination clears away what it prepared, since the live move failed."""
    ABANDONED = "abandoned"
    """The destination clears away what it has of an instance that was deleted on its way."""
    LEFT_BEHIND = "left_behind"
    """The source, when it is back, destroys what is left of an evacuated guest."""

    CONFIRMED = "confirmed"
    REVERTED = "reverted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


_ENDED: Final = frozenset(
    {Stage.CONFIRMED, Stage.REVERTED, Stage.COMPLETED, Stage.CANCELLED, Stage.FAILED}
)
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
_STATUSES_OF_KIND: Final[Mapping[tuple[MoveKind, Stage], str]] = {
    (MoveKind.EVACUATION, Stage.ARRIVING): "accepted",
    (MoveKind.EVACUATION, Stage.FAILED): "failed",
    (MoveKind.LIVE, Stage.FAILED): "failed",
}


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a move: where the instance is, or is to be, and what it has there."""

    host: str
    node: str
    flavor: Flavor
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Migration:
    """One move of one instance. `number` is its id for clients.

    `was` is the status of the instance before, which it has again afterwards. `address` is where
    the other side finds the guest or its disks; it is for agents alone. `retried` are (host, node)
    pairs where this move has failed before. Times are Unix seconds.
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
    """Its owner wants it to end before it is done."""
    forced: bool = False
    """Its destination was named, so no other one is tried."""
    retried: tuple[tuple[str, str], ...] = ()
    fault: Fault | None = None
    group_uuid: str | None = None
    """The server group of the instance: its members keep off both sides."""
    created_at_s: float = 0.0
    updated_at_s: float = 0.0

    @property
    def is_known(self) -> bool:
        """This Berth knows what it is and how far; if not, a newer one has to deal with it."""
        return self.stage in _STATUSES and self.kind in _KINDS

    @property
    def has_ended(self) -> bool:
        """Nothing is to be done for it any more."""
        return self.stage in _ENDED

    @property
    def is_left_over(self) -> bool:
        """The instance is elsewhere for good, and one side is yet to clear away what it has."""
        return self.stage in _LEFT_OVER

    def concerns(self, host: str) -> bool:
        """Tell whether a host has, or is to have, something of the instance until it has ended."""
        return not self.has_ended and host in {self.source.host, self.destination.host}

    @property
    def turn(self) -> str | None:
        """The host whose agent has to do something; None when nobody has."""
        if self.kind not in _KINDS:
            return None
        if self.stage in _OF_SOURCE:
            return self.source.host
        return self.destination.host if self.stage in _OF_DESTINATION else None

    @property
    def elsewhere(self) -> Place | None:
        """Where it keeps room beside the host that the instance is on; None when nowhere."""
        if self.stage in _BEFORE_ARRIVAL:
            return self.destination
        return self.source if self.stage in _AFTER_ARRIVAL else None

    @property
    def status(self) -> str:
        """How far it is, in the words of the compute API; else in those of a newer Berth."""
        stage = self.stage
        return _STATUSES_OF_KIND.get((self.kind, stage)) or _STATUSES.get(stage, stage.value)
