"""The allowed changes of an instance's and a move's state from one version to the next.

They are listed here independently of the code that makes these changes.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Stage

State = tuple[Status, Task | None]

WAITING: Final[State] = (Status.BUILD, Task.SCHEDULING)
BUILDING: Final[State] = (Status.BUILD, Task.SPAWNING)
ACTIVE: Final[State] = (Status.ACTIVE, None)
ERROR: Final[State] = (Status.ERROR, None)
DELETED: Final[State] = (Status.DELETED, None)
AWAY: Final[State] = (Status.SHELVED_OFFLOADED, None)

_SIMPLE: Final = (
    lifecycle.START,
    lifecycle.STOP,
    lifecycle.REBOOT_SOFT,
    lifecycle.REBOOT_HARD,
    lifecycle.PAUSE,
    lifecycle.UNPAUSE,
    lifecycle.SUSPEND,
    lifecycle.RESUME,
    lifecycle.REBUILD,
    lifecycle.SHELVE,
    lifecycle.SHELVE_OFFLOAD,
    lifecycle.UNSHELVE,
    lifecycle.LIVE_MIGRATE,
    lifecycle.RESCUE,
    lifecycle.UNRESCUE,
    lifecycle.SOFT_DELETE,
    lifecycle.RESTORE,
)
_POWER: Final = frozenset(step.task for step in _SIMPLE[:8])
_GUESTS: Final = (Status.ACTIVE, Status.PAUSED, Status.SUSPENDED, Status.SHUTOFF)
_OFF_OR_ON: Final = (Status.ACTIVE, Status.SHUTOFF)
_BROKEN: Final = Status.ERROR


def _simple() -> Iterator[tuple[State, State]]:
    """Yield the edges of operations that begin, and succeed or leave the instance unchanged."""
    for step in _SIMPLE:
        for status in sorted(step.begins):
            yield (status, None), (status, step.task)
            yield (status, step.task), (status, None)
            if step.task in _POWER:  # after a failure, the instance takes the state of its guest
                yield from (((status, step.task), (end, None)) for end in _GUESTS)
            if step.ends is not None:
                yield (status, step.task), (step.ends, None)


def _builds() -> Iterator[tuple[State, State]]:
    yield WAITING, BUILDING
    yield WAITING, ERROR
    yield BUILDING, ACTIVE
    yield BUILDING, WAITING
    yield BUILDING, ERROR
    for status, end in product((*_OFF_OR_ON, _BROKEN), (*_OFF_OR_ON, _BROKEN)):
        yield (status, Task.REBUILDING), (end, None)
    yield (Status.SHELVED_OFFLOADED, Task.UNSHELVING), (Status.ACTIVE, None)
    for step in (lifecycle.RESCUE, lifecycle.UNRESCUE):
        yield from (((status, step.task), ERROR) for status in sorted(step.begins))
    for status in sorted(lifecycle.SHELVE.begins):
        yield (status, Task.SHELVING), (Status.SHELVED, Task.SHELVING_OFFLOADING)
    # Guests that end by themselves are found to be off.
    for status in (Status.ACTIVE, Status.PAUSED, Status.SUSPENDED):
        yield (status, None), (Status.SHUTOFF, None)
    # Guests may also be found suspended, or found running although they were suspended.
    for status in (Status.ACTIVE, Status.PAUSED):
        yield (status, None), (Status.SUSPENDED, None)
    yield (Status.SUSPENDED, None), ACTIVE


def _moves() -> Iterator[tuple[State, State]]:
    resized = Status.RESIZED
    for was in _OFF_OR_ON:
        prepares, migrates = (was, Task.RESIZE_PREP), (was, Task.RESIZE_MIGRATING)
        arrives, reverts = (was, Task.RESIZE_MIGRATED), (was, Task.RESIZE_REVERTING)
        yield (was, None), prepares
        yield prepares, migrates
        yield prepares, (was, None)
        yield migrates, arrives
        yield arrives, (resized, None)
        yield migrates, reverts
        yield arrives, reverts
        for task in (Task.RESIZE_MIGRATED, Task.RESIZE_REVERTING, None):
            yield (resized, task), (was, None)
        for back in ((was, None), prepares, migrates, ERROR):
            yield reverts, back
    yield (resized, Task.RESIZE_REVERTING), ERROR
    for task in (Task.RESIZE_MIGRATED, Task.RESIZE_REVERTING):
        yield (resized, None), (resized, task)
        yield (resized, task), (resized, None)


def _cut_short() -> Iterator[tuple[State, State]]:
    """Yield the edges that may interrupt any task: evacuations and deletes."""
    for status, task in product(Status, (None, *Task)):
        if status is Status.DELETED:
            continue
        yield (status, task), DELETED
        yield (status, task), (status, Task.DELETING)
        if status in lifecycle.SOFT_DELETE.begins and task is not Task.DELETING:
            yield (status, task), (status, Task.SOFT_DELETING)
            yield (status, task), (Status.SOFT_DELETED, None)  # on a host that is down
            # A soft deletion ends a resize or an unshelve first.
            if status is Status.RESIZED:
                yield from (((status, task), (was, Task.SOFT_DELETING)) for was in _OFF_OR_ON)
            elif status is Status.SHELVED_OFFLOADED:
                yield (status, task), (Status.SHELVED, Task.SOFT_DELETING)
        if status in {*_OFF_OR_ON, _BROKEN} and task is not Task.DELETING:
            yield (status, task), (status, Task.REBUILDING)
            yield (status, task), (Status.SHUTOFF, Task.REBUILDING)


EDGES: Final = frozenset({*_simple(), *_builds(), *_moves(), *_cut_short()})
LOST: Final = frozenset(
    ((status, Task.MIGRATING), ERROR) for status in sorted(lifecycle.LIVE_MIGRATE.begins)
)
"""The edges of an instance in a live migration whose guest is on neither host."""
FIRST: Final = frozenset({WAITING, BUILDING, ERROR})
RESETS: Final = frozenset({ACTIVE, ERROR})

_S = Stage
FIRST_STAGES: Final = frozenset({_S.LEAVING, _S.PREPARING, _S.ARRIVING})
STAGES: Final[Mapping[Stage, frozenset[Stage]]] = {
    _S.LEAVING: frozenset({_S.ARRIVING, _S.RESTORING, _S.ABANDONED, _S.FAILED}),
    _S.ARRIVING: frozenset(
        {_S.ARRIVED, _S.LEFT_BEHIND, _S.RESTORING, _S.ABANDONED, _S.FAILED},
    ),
    _S.ARRIVED: frozenset({_S.CONFIRMING, _S.RETURNING, _S.LEFT_BEHIND, _S.CONFIRMED, _S.FAILED}),
    _S.CONFIRMING: frozenset({_S.CONFIRMED, _S.LEFT_BEHIND, _S.FAILED}),
    _S.RETURNING: frozenset({_S.RESTORING, _S.ARRIVED, _S.LEFT_BEHIND, _S.FAILED}),
    _S.RESTORING: frozenset({_S.REVERTED, _S.FAILED}),
    _S.PREPARING: frozenset({_S.MOVING, _S.FAILED, _S.CANCELLED, _S.ABANDONED}),
    _S.MOVING: frozenset({_S.COMPLETED, _S.LANDING, _S.WITHDRAWING, _S.ABANDONED}),
    _S.LANDING: frozenset({_S.COMPLETED, _S.FAILED, _S.ABANDONED}),
    _S.WITHDRAWING: frozenset({_S.FAILED, _S.CANCELLED, _S.ABANDONED}),
    _S.ABANDONED: frozenset({_S.FAILED}),
    # A resize or cold migration ends confirmed, an evacuation completed.
    _S.LEFT_BEHIND: frozenset({_S.COMPLETED, _S.CONFIRMED}),
}

GIVEN_UP: Final = (_S.RETURNING, _S.ABANDONED)
"""The change of a returning move whose instance is reset by an administrator."""


def state_of(instance: Instance) -> State:
    """Return the status and task of an instance."""
    return instance.status, instance.task


def may_follow(before: State | None, after: State, *, is_reset: bool, is_looked_for: bool) -> bool:
    """Tell whether an instance may change from one state to another in one save.

    Args:
        before: the state before the save, None for a new instance.
        after: the saved state.
        is_reset: whether an administrator may have reset its state.
        is_looked_for: whether its guest has left the source, and the destination is checked.
    """
    if before is None:
        return after in FIRST
    if before == after:
        return before != DELETED
    is_lost = is_looked_for and (before, after) in LOST
    return is_lost or (before, after) in EDGES or (is_reset and after in RESETS)


def may_move_on(before: Stage | None, after: Stage, *, is_reset: bool) -> bool:
    """Tell whether a move may change from one stage to another in one save.

    Args:
        before: the stage before the save, None for a new move.
        after: the saved stage.
        is_reset: whether an administrator may have reset its instance's state.
    """
    if before is None:
        return after in FIRST_STAGES
    if is_reset and (before, after) == GIVEN_UP:
        return True
    return before is after or after in STAGES.get(before, frozenset())
