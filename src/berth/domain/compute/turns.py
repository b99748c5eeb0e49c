"""Turns: the host that must take the next step for an instance, and the hosts that it concerns.

The agent of a host and the control plane both apply these rules: the agent to find its work, the
control plane to reject the outcome of a step that was not the host's to take.
"""

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import EVACUATE, HOST_TASKS
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.fast_replace import fast_replace

_NO_FLAVOR = Flavor("", "", vcpus=0, memory_mb=0)
_LEFTOVER_STAGES = frozenset({Stage.LEFT_BEHIND, Stage.ABANDONED})


def has_turn(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Return whether the agent of a host must take the next step for an instance.

    Args:
        host: the agent's host.
        instance: the instance, as in the ledger.
        migration: the move under way, if any.
    """
    # A newer Berth may write stages that this version does not know; only newer agents handle them.
    if migration is not None and not migration.is_known:
        return False
    turn = None if migration is None else migration.turn
    # A delete does not wait for a move: it ends the instance's part immediately (ADR 0018).
    if turn is not None and instance.task is not Task.DELETING:
        return turn == host
    if is_nowhere(instance):
        return True
    if instance.host != host or _is_evacuated(instance):
        return False
    return instance.task in HOST_TASKS or has_disks_to_drop(instance)


def is_nowhere(instance: Instance) -> bool:
    """Return whether an instance without a host is being deleted but still has stored disks.

    Any agent may delete the disks.
    """
    is_going = instance.task is Task.DELETING and instance.status is not Status.DELETED
    return is_going and instance.host is None and instance.disks is not None


def as_any_host_sees(instance: Instance) -> Instance:
    """Return an instance that is nowhere, reduced to what the deletion of its disks needs.

    Any host may be asked to delete the disks, so every host sees these instances.
    """
    return fast_replace(
        instance,
        name="",
        project_id="",
        user_id="",
        request_id="",
        reservation_id="",
        flavor=_NO_FLAVOR,
        image=None,
        group_uuid=None,
        requested_zone=None,
        assignment=None,
        retried=(),
        alternates=(),
        hints={},
        metadata={},
        extra={},
        fault=None,
        decision_id=None,
    )


def _is_evacuated(instance: Instance) -> bool:
    """Return whether an instance waits for a scheduler to choose the destination of an evacuation.

    Its task is that of a rebuild, as in Nova; only the action differs. If the instance's host is
    alive although it was declared down, the host's agent must not rebuild the guest.
    """
    action = instance.action
    is_asked = action is not None and action.name == EVACUATE.action
    return is_asked and instance.task is Task.REBUILDING


def has_disks_to_drop(instance: Instance) -> bool:
    """Return whether an instance is active and still has stored disks."""
    is_active = instance.status is Status.ACTIVE and instance.task is None
    return is_active and instance.disks is not None


def should_run(instance: Instance, migration: Migration | None) -> bool:
    """Return whether the guest of an idle instance should be running."""
    if instance.task is not None:
        return False
    if instance.status is Status.RESIZED:
        return migration is not None and migration.was is Status.ACTIVE
    return instance.status in {Status.ACTIVE, Status.RESCUED}


def has_leftover(host: str, migration: Migration) -> bool:
    """Return whether a host must destroy the guest that a move has left on it."""
    return migration.stage in _LEFTOVER_STAGES and migration.turn == host


def is_concerned(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Return whether an instance is on a host, moves from or to it, or is nowhere.

    An instance that is nowhere (`is_nowhere`) concerns every host, because any agent may delete its
    disks.
    """
    if instance.host == host or is_nowhere(instance):
        return True
    return migration is not None and migration.concerns(host)


def may_have_guest(host: str, instance: Instance, migration: Migration | None) -> bool:
    """Return whether a host may have a guest of an instance."""
    return instance.status is not Status.DELETED and is_concerned(host, instance, migration)


def placed_at(instance: Instance, place: Place) -> Instance:
    """Return an instance with the host, flavor and assignment of one side of a move."""
    return fast_replace(
        instance,
        host=place.host,
        node=place.node,
        flavor=place.flavor,
        assignment=place.assignment,
    )


def is_in_place(migration: Migration) -> bool:
    """Return whether a resize stays on its host."""
    return migration.source.host == migration.destination.host


def ends_off(migration: Migration) -> bool:
    """Return whether an evacuated instance is off afterwards.

    The status changes only when the destination has the guest. If the request for the evacuation
    changed it, a host that was merely cut off would stop its healthy guest.
    """
    return migration.stays_off or migration.was is Status.SHUTOFF
