"""Maintenance of hosts: how long a host stays disabled, and the drain that empties it.

The record is the desired state (docs/adr/0041-maintenance-of-hosts.md). It also contains the
outcome for each server, so any scheduler can continue a drain.
"""

from dataclasses import dataclass, replace
from typing import Final

from berth.domain.open_name import OpenName

PARALLEL_MAX: Final = 100
"""The largest number of servers that one drain may move at once."""

LEASE_S: Final = 20.0
"""The seconds for which a scheduler keeps a maintenance; after its death another one continues."""


class DrainMode(OpenName):
    """The way in which a drain moves servers that run."""

    LIVE = "live"
    """Without an interruption. Servers that are off are moved cold."""
    COLD = "cold"
    """Stopped, moved, started, and confirmed."""
    SHELVE = "shelve"
    """Shelved and offloaded, until their owners unshelve them."""


class DrainState(OpenName):
    """The state of a drain."""

    RUNNING = "running"
    STOPPED = "stopped"
    """No further moves begin until the drain is requested again."""
    DRAINED = "drained"
    """The host is empty. If a server appears on it nevertheless, the drain runs again."""
    INCOMPLETE = "incomplete"
    """The deadline has passed, or the remaining servers cannot be moved."""


class MoveState(OpenName):
    """The state of one server in a drain."""

    WAITING = "waiting"
    MOVING = "moving"
    MOVED = "moved"
    BLOCKED = "blocked"
    """Its status does not permit a move."""
    FAILED = "failed"
    """Its last attempt failed, or no host had room for it."""


@dataclass(frozen=True, slots=True)
class ServerMove:
    """One server of a drain.

    `method` is the way in which it is moved (`live`, `cold`, `shelve` or `offload`), or empty if
    its status does not permit any. `destination` is the chosen host. `request_id` is the id of the
    latest request, whose decision explains the choice of the host; empty before the first.
    `attempts` counts the failures since the drain was last requested, and `next_try_s` is the Unix
    time of the next attempt. `avoids` are hosts on which the latest attempts failed.
    """

    instance_uuid: str
    name: str
    state: MoveState = MoveState.WAITING
    method: str = ""
    destination: str | None = None
    request_id: str = ""
    reason: str = ""
    """Why the server is still on the host; empty if it has moved or is being moved."""
    attempts: int = 0
    next_try_s: float = 0.0
    avoids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """The drain of a host, as an operator requested it, and its progress.

    At most `parallel` servers move at once. From `deadline_s` on (Unix seconds; None for never) no
    further move begins. Locked servers are moved only with `moves_locked`. `project_id` and
    `user_id` are those of the operator, for the history of the servers. `begun` counts the
    attempts, so that each has an id of its own. `moves` are ordered by name.
    """

    mode: DrainMode = DrainMode.LIVE
    parallel: int = 1
    deadline_s: float | None = None
    moves_locked: bool = False
    project_id: str = ""
    user_id: str = ""
    state: DrainState = DrainState.RUNNING
    message: str = ""
    """Why the drain makes no progress, or why it ended."""
    started_at_s: float = 0.0
    ended_at_s: float | None = None
    begun: int = 0
    moves: tuple[ServerMove, ...] = ()

    def in_state(self, *states: MoveState) -> int:
        """Return the number of servers in any of these states."""
        return sum(move.state in states for move in self.moves)

    @property
    def is_over(self) -> bool:
        """Whether no move is in progress, and none will begin unless a server appears."""
        return self.state is not DrainState.RUNNING and not self.in_state(MoveState.MOVING)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The maintenance of one host, which keeps the host disabled until it ends.

    At `until_s` (Unix seconds; None for never) the service gets back the state that it had before:
    `was_disabled` and `was_disabled_reason`. With `is_ending` that has happened, and the record is
    kept until the moves in progress have ended. One scheduler at a time works on the record:
    `taken_by` names it, and others leave the record alone until `taken_until_s`.
    """

    host: str
    reason: str
    until_s: float | None = None
    was_disabled: bool = False
    was_disabled_reason: str | None = None
    drain: Drain | None = None
    is_ending: bool = False
    started_at_s: float = 0.0
    taken_by: str = ""
    taken_until_s: float = 0.0

    def is_taken_from(self, name: str, now_s: float) -> bool:
        """Return whether a scheduler other than `name` works on the record."""
        # A lease cannot end later than this, unless a clock was wrong. The guard on the record
        # keeps two schedulers from doing the same work, so the lease need not be exact.
        is_running = now_s < self.taken_until_s <= now_s + 2 * LEASE_S
        return self.taken_by not in {"", name} and is_running

    def taken(self, name: str, until_s: float) -> "Maintenance":
        """Return the record with a scheduler that works on it until a Unix time in seconds."""
        return replace(self, taken_by=name, taken_until_s=until_s)


def maintenance_guard(host: str) -> str:
    """Return the name of the guard on the maintenance of a host."""
    return f"maintenance {host}"
