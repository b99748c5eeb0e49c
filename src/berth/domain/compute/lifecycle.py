"""The state machine of instances: which actions may begin in which status, and their outcomes.

The names of actions, tasks and statuses are those of Nova's compute API.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.domain.compute.instance import Status, Task
from berth.domain.compute.instance_action import DELETE

_RUNS: Final = frozenset({Status.ACTIVE})
_OFF_OR_ON: Final = frozenset({Status.ACTIVE, Status.SHUTOFF})
_HARD_REBOOT: Final = frozenset(
    {Status.ACTIVE, Status.SHUTOFF, Status.PAUSED, Status.SUSPENDED, Status.ERROR}
)
_WITH_GUEST: Final = frozenset({Status.ACTIVE, Status.SHUTOFF, Status.PAUSED, Status.SUSPENDED})


class Transition(NamedTuple):
    """The preconditions and effects of an action.

    Attributes:
        action: the name of the action in the history, as in Nova.
        begins: the statuses in which the action may begin.
        task: the task that an agent or a scheduler then carries out.
        ends: the status afterwards; None if the status stays or depends on the outcome.
    """

    action: str
    begins: frozenset[Status]
    task: Task
    ends: Status | None = None


START: Final = Transition("start", frozenset({Status.SHUTOFF}), Task.POWERING_ON, Status.ACTIVE)
STOP: Final = Transition(
    "stop", frozenset({Status.ACTIVE, Status.ERROR}), Task.POWERING_OFF, Status.SHUTOFF
)
REBOOT_SOFT: Final = Transition("reboot", _RUNS, Task.REBOOTING, Status.ACTIVE)
REBOOT_HARD: Final = Transition("reboot", _HARD_REBOOT, Task.REBOOTING_HARD, Status.ACTIVE)
PAUSE: Final = Transition("pause", _RUNS, Task.PAUSING, Status.PAUSED)
UNPAUSE: Final = Transition("unpause", frozenset({Status.PAUSED}), Task.UNPAUSING, Status.ACTIVE)
SUSPEND: Final = Transition("suspend", _RUNS, Task.SUSPENDING, Status.SUSPENDED)
RESUME: Final = Transition("resume", frozenset({Status.SUSPENDED}), Task.RESUMING, Status.ACTIVE)
REBUILD: Final = Transition("rebuild", _OFF_OR_ON | {Status.ERROR}, Task.REBUILDING)
RESIZE: Final = Transition("resize", _OFF_OR_ON, Task.RESIZE_PREP)
MIGRATE: Final = Transition("migrate", _OFF_OR_ON, Task.RESIZE_PREP)
CONFIRM: Final = Transition("confirmResize", frozenset({Status.RESIZED}), Task.RESIZE_MIGRATED)
REVERT: Final = Transition("revertResize", frozenset({Status.RESIZED}), Task.RESIZE_REVERTING)
LIVE_MIGRATE: Final = Transition(
    "live-migration", frozenset({Status.ACTIVE, Status.PAUSED}), Task.MIGRATING
)
EVACUATE: Final = Transition("evacuate", _OFF_OR_ON | {Status.ERROR}, Task.REBUILDING)
SHELVE: Final = Transition("shelve", _WITH_GUEST, Task.SHELVING, Status.SHELVED)
SHELVE_OFFLOAD: Final = Transition(
    "shelveOffload",
    frozenset({Status.SHELVED}),
    Task.SHELVING_OFFLOADING,
    Status.SHELVED_OFFLOADED,
)
UNSHELVE: Final = Transition(
    "unshelve",
    frozenset({Status.SHELVED, Status.SHELVED_OFFLOADED}),
    Task.UNSHELVING,
    Status.ACTIVE,
)
RESCUE: Final = Transition("rescue", _OFF_OR_ON | {Status.ERROR}, Task.RESCUING, Status.RESCUED)
UNRESCUE: Final = Transition(
    "unrescue", frozenset({Status.RESCUED}), Task.UNRESCUING, Status.ACTIVE
)
# An instance in BUILD has never run, so it is deleted immediately; one in DELETED is gone.
_NOT_KEPT: Final = frozenset({Status.BUILD, Status.DELETED})
SOFT_DELETE: Final = Transition(
    DELETE, frozenset(Status) - _NOT_KEPT, Task.SOFT_DELETING, Status.SOFT_DELETED
)
RESTORE: Final = Transition(
    "restore", frozenset({Status.SOFT_DELETED}), Task.RESTORING, Status.ACTIVE
)
CREATE_IMAGE: Final = Transition("createImage", _WITH_GUEST, Task.IMAGE_SNAPSHOT)
CREATE_BACKUP: Final = Transition("createBackup", _WITH_GUEST, Task.IMAGE_BACKUP)

IGNORING_LOCKS: Final = frozenset({CREATE_IMAGE, CREATE_BACKUP})
"""The actions that a lock does not prevent, because they do not change the server; as in Nova."""

LOADING_TASKS: Final = frozenset(
    {
        Task.SPAWNING,
        Task.REBUILDING,
        Task.RESIZE_PREP,
        Task.RESIZE_MIGRATING,
        Task.UNSHELVING,
        Task.RESCUING,
    }
)
"""Tasks that cause disk load on a host (nova-behaviour.md 5.3)."""

HOST_TASKS: Final = frozenset(
    {
        *(step.task for step in (START, STOP, REBOOT_SOFT, REBOOT_HARD)),
        *(step.task for step in (PAUSE, UNPAUSE, SUSPEND, RESUME)),
        Task.SPAWNING,
        Task.REBUILDING,
        Task.SHELVING,
        Task.SHELVING_OFFLOADING,
        Task.UNSHELVING,
        Task.RESCUING,
        Task.UNRESCUING,
        Task.SOFT_DELETING,
        Task.RESTORING,
        Task.IMAGE_SNAPSHOT,
        Task.IMAGE_BACKUP,
        Task.DELETING,
    }
)
"""Tasks that the agent of the instance's host carries out, unless a migration is in progress."""

_RESIZING: Final = frozenset({Task.RESIZE_PREP, Task.RESIZE_MIGRATING, Task.RESIZE_MIGRATED})
# As in Nova, these combinations are shown under names of their own; all others show the plain
# status.
_SHOWN: Final[Mapping[tuple[Status, Task], str]] = {
    (Status.ACTIVE, Task.REBOOTING): "REBOOT",
    (Status.ACTIVE, Task.REBOOTING_HARD): "HARD_REBOOT",
    (Status.ERROR, Task.REBUILDING): "REBUILD",
    (Status.ACTIVE, Task.REBUILDING): "REBUILD",
    (Status.SHUTOFF, Task.REBUILDING): "REBUILD",
    (Status.ACTIVE, Task.MIGRATING): "MIGRATING",
    (Status.PAUSED, Task.MIGRATING): "MIGRATING",
    (Status.RESIZED, Task.RESIZE_REVERTING): "REVERT_RESIZE",
    **{(status, task): "RESIZE" for status in _OFF_OR_ON for task in _RESIZING},
}


STATUSES_SHOWN: Final = (
    *(one.value for one in Status if one is not Status.DELETED),
    *sorted(set(_SHOWN.values())),
)
"""All statuses of existing instances that clients may see."""


def status_shown(status: Status, task: Task | None) -> str:
    """Return the status shown to clients, which depends on the task in progress."""
    return status.value if task is None else _SHOWN.get((status, task), status.value)
