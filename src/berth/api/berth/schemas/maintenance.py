"""Queries, request bodies and response bodies for the maintenance of hosts."""

from typing import Annotated, Literal

from berth.api.codec import Meta, Model, View
from berth.api.values import Flag
from berth.domain.compute.maintenance import PARALLEL_MAX

# Times far beyond the life of any deployment are mistakes, such as milliseconds.
_TIME_MAX_S = 10**11

Mode = Literal["live", "cold", "shelve"]
Time = Annotated[float, Meta(ge=0, le=_TIME_MAX_S)]
"""Unix time in seconds."""
Reason = Annotated[str, Meta(min_length=1, max_length=255)]


class DrainQuery(Model):
    """The drain that is planned and not begun; see `DrainBody`."""

    migrate: Mode = "live"
    moves_locked: Flag = False


class DrainBody(Model):
    """A drain: how servers that run are moved, how many at once, and until when moves may begin.

    `deadline_s` is Unix time in seconds. Locked servers are moved only with `moves_locked`.
    `reason` is stored with the disabled service.
    """

    migrate: Mode = "live"
    parallel: Annotated[int, Meta(ge=1, le=PARALLEL_MAX)] = 1
    deadline_s: Time | None = None
    moves_locked: bool = False
    reason: Reason | None = None


class MaintenanceBody(Model):
    """A maintenance: the time at which it ends, in Unix seconds, or null, and its reason."""

    until_s: Time | None = None
    reason: Reason | None = None


class ServerMoveView(View):
    """One server of a drain, or of its plan.

    `state` is `waiting`, `moving`, `moved`, `blocked` (its status permits no move) or `failed`; in
    plans also `planned`. `method` is `live`, `cold`, `shelve` or `offload`, or null. `request_id`
    names the decision that explains the choice of the destination; null in plans, whose decisions
    are not recorded. `next_try_s` is Unix time in seconds.
    """

    instance_uuid: str
    name: str
    state: str
    method: str | None
    destination: str | None
    reason: str | None
    request_id: str | None = None
    attempts: int = 0
    next_try_s: float | None = None


class DrainPlanAnswer(View):
    """What a drain would do now; `fits` is the number of servers that would leave the host."""

    host: str
    migrate: str
    fits: int
    total: int
    servers: list[ServerMoveView]


class DrainView(View):
    """A drain and its progress; `counts` has the number of servers in each state.

    `state` is `running`, `stopped`, `drained` (the host is empty) or `incomplete` (the deadline has
    passed, or the servers that are left cannot be moved). Times are Unix seconds.
    """

    state: str
    message: str
    migrate: str
    parallel: int
    deadline_s: float | None
    moves_locked: bool
    started_at_s: float
    ended_at_s: float | None
    counts: dict[str, int]
    servers: list[ServerMoveView]


class MaintenanceAnswer(View):
    """The maintenance of a host; `drain` is null if the host is only kept disabled."""

    host: str
    reason: str
    until_s: float | None
    started_at_s: float
    is_ending: bool
    drain: DrainView | None


class MaintenancesAnswer(View):
    """The maintenance of every host that has one, ordered by host."""

    maintenances: list[MaintenanceAnswer]
