"""Maintenance of hosts: hosts that are kept disabled, and drains that empty them."""

from collections.abc import Mapping
from typing import Final

from berth.client.operations import Group, K, operation
from berth.client.requests import Route, Steps, Value, wait_until

RUNNING: Final = "running"
DRAINED: Final = "drained"
_MOVING: Final = "moving"


class ServerMove(Value, frozen=True):
    """One server of a drain, or of its plan.

    `state` is `waiting`, `moving`, `moved`, `blocked` (its status permits no move) or `failed`; in
    plans also `planned`. `method` is `live`, `cold`, `shelve`, `offload` or None. `request_id` is
    that of the decision that explains the destination. `next_try_s` is Unix seconds.
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


class Drain(Value, frozen=True):
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
    counts: Mapping[str, int]
    servers: tuple[ServerMove, ...]

    @property
    def is_over(self) -> bool:
        """Whether no move is in progress and none will begin."""
        return self.state != RUNNING and not self.counts.get(_MOVING)


class HostMaintenance(Value, frozen=True):
    """The maintenance of a host; `drain` is None if the host is only kept disabled.

    `until_s` is the Unix time at which it ends, or None if an operator must end it.
    """

    host: str
    reason: str
    until_s: float | None
    started_at_s: float
    is_ending: bool
    drain: Drain | None


class HostMaintenanceList(Value, frozen=True):
    """The response with the maintenance of every host that has one."""

    maintenances: tuple[HostMaintenance, ...]


class DrainPlan(Value, frozen=True):
    """The plan of a drain; `fits` of the `total` servers would leave the host."""

    host: str
    migrate: str
    fits: int
    total: int
    servers: tuple[ServerMove, ...]


_LIST: Final = Route("GET", "/berth/v1/maintenances", HostMaintenanceList)
_PATH: Final = "/berth/v1/hosts/{name}/maintenance"
_SHOW: Final = Route("GET", _PATH, HostMaintenance)
_BEGIN: Final = Route("PUT", _PATH, HostMaintenance, body=("until_s", "reason"))
_END: Final = Route("DELETE", _PATH, type(None))
_DRAIN_PATH: Final = "/berth/v1/hosts/{name}/drain"
_PLAN: Final = Route("GET", _DRAIN_PATH, DrainPlan, query=("migrate", "moves_locked"))
_DRAIN: Final = Route(
    "POST",
    _DRAIN_PATH,
    HostMaintenance,
    body=("migrate", "parallel", "deadline_s", "moves_locked", "reason"),
)
_STOP: Final = Route("DELETE", _DRAIN_PATH, HostMaintenance)


class Maintenance(Group[K]):
    """Hosts in maintenance, for administrators."""

    @operation
    def list(self) -> Steps[tuple[HostMaintenance, ...]]:
        """Return the maintenance of every host that has one, ordered by host."""
        found = yield from _LIST.ask()
        return found.maintenances

    @operation
    def get(self, host: str) -> Steps[HostMaintenance]:
        """Return the maintenance of a host with the progress of its drain."""
        return _SHOW.ask(name=host)

    @operation
    def begin(
        self, host: str, *, until_s: float | None = None, reason: str | None = None
    ) -> Steps[HostMaintenance]:
        """Keep a host disabled; its servers stay.

        Args:
            host: the name of the host.
            until_s: the Unix time at which the host is enabled again; None for `end` only.
            reason: the reason, stored with the disabled service.
        """
        return _BEGIN.ask(body={"until_s": until_s, "reason": reason}, name=host)

    @operation
    def end(self, host: str) -> Steps[None]:
        """Enable a host again, and end its maintenance and its drain."""
        return _END.ask(name=host)


class Drains(Group[K]):
    """Drains, which move all servers from a host, for administrators."""

    @operation
    def plan(
        self, host: str, *, migrate: str = "live", moves_locked: bool = False
    ) -> Steps[DrainPlan]:
        """Return what a drain would do now with each server on a host; nothing changes.

        Args:
            host: the name of the host.
            migrate: how servers that run are moved: `live`, `cold` or `shelve`.
            moves_locked: whether locked servers are moved as well.
        """
        return _PLAN.ask(query={"migrate": migrate, "moves_locked": moves_locked}, name=host)

    @operation
    def start(
        self,
        host: str,
        *,
        migrate: str = "live",
        parallel: int = 1,
        deadline_s: float | None = None,
        moves_locked: bool = False,
        reason: str | None = None,
    ) -> Steps[HostMaintenance]:
        """Disable a host and have its servers moved; a stopped or ended drain continues.

        Args:
            host: the name of the host.
            migrate: how servers that run are moved: `live`, `cold` or `shelve`.
            parallel: the number of servers that move at once.
            deadline_s: the Unix time after which no move begins.
            moves_locked: whether locked servers are moved as well.
            reason: the reason, stored with the disabled service.
        """
        body = {
            "migrate": migrate,
            "parallel": parallel,
            "deadline_s": deadline_s,
            "moves_locked": moves_locked,
            "reason": reason,
        }
        return _DRAIN.ask(body=body, name=host)

    @operation
    def stop(self, host: str) -> Steps[HostMaintenance]:
        """Stop a drain: moves in progress end, no further ones begin, the host stays disabled."""
        return _STOP.ask(name=host)

    @operation
    def wait(self, host: str, *, timeout_s: float, poll_s: float = 1.0) -> Steps[HostMaintenance]:
        """Wait until no move of a drain is in progress and none will begin.

        The `state` of its drain tells whether the host is empty: `drained`.

        Args:
            host: the name of the host.
            timeout_s: the longest time to wait, in seconds; the drain goes on afterwards.
            poll_s: the pause between two requests, in seconds.

        Raises:
            DeadlineError: the drain did not end in time.
        """
        return wait_until(
            lambda: _SHOW.ask(name=host),
            lambda found: found.drain is None or found.drain.is_over,
            timeout_s=timeout_s,
            poll_s=poll_s,
            what=f"the drain of {host}",
        )
