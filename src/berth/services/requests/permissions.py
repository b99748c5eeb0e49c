"""Checks whether an action on an instance is allowed now, and the locks of instances."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.lifecycle import Transition
from berth.domain.compute.observed import check_not_observed
from berth.domain.errors import (
    ConflictError,
    InstanceLockedError,
    InstanceStateError,
    InvalidInputError,
)

# The key in `Instance.extra` of a lock's reason; absent while the instance is not locked.
LOCKED: Final = "locked"
# The key in `Instance.extra` that records whether the `owner` or an `admin` locked the instance.
LOCKED_BY: Final = "locked_by"

_OWNER: Final = "owner"
_ADMIN: Final = "admin"
_VM_STATES: Final[Mapping[Status, str]] = {
    Status.BUILD: "building",
    Status.SHUTOFF: "stopped",
    Status.RESIZED: "resized",
    Status.RESCUED: "rescued",
    Status.SOFT_DELETED: "soft-delete",
}


def vm_state(status: Status) -> str:
    """Return the `vm_state` that the compute API shows for a status."""
    return _VM_STATES.get(status) or status.value.lower()


def check_lock(instance: Instance, caller: Caller) -> None:
    """Reject changes of observed instances, and of locked ones by others than administrators.

    Raises:
        ObservedServerError: another cloud runs the instance.
        InstanceLockedError: the instance is locked, and the caller is not an administrator.
    """
    check_not_observed(instance)
    if LOCKED in instance.extra and not caller.is_admin:
        raise InstanceLockedError(instance.uuid)


def check_resize(instance: Instance, flavor: Flavor) -> None:
    """Reject a flavor that an instance already has or cannot be resized to.

    Raises:
        InvalidInputError: the instance already has the flavor, a disk would have to shrink, or the
            flavor is too small for the image.
    """
    if instance.flavor.flavor_id == flavor.flavor_id:
        raise InvalidInputError(
            "flavorRef", "the instance already has this flavor; choose another one"
        )
    had = instance.flavor
    if flavor.root_gb < had.root_gb or flavor.ephemeral_gb < had.ephemeral_gb:
        raise InvalidInputError(
            "flavorRef",
            f"the flavor's disks ({flavor.root_gb} GB root, {flavor.ephemeral_gb} GB ephemeral) "
            "must not be smaller than the current ones "
            f"({had.root_gb} GB root, {had.ephemeral_gb} GB ephemeral)",
        )
    if instance.image is not None:
        check_size(flavor, instance.image)


def check_state(
    instance: Instance, step: Transition, caller: Caller, *, any_task: bool = False
) -> None:
    """Reject an action that the state of an instance does not allow.

    Args:
        instance: the current record.
        step: the requested transition.
        caller: the caller of the action.
        any_task: whether the action may interrupt any task other than a delete.

    Raises:
        ObservedServerError: another cloud runs the instance.
        InstanceLockedError: the instance is locked, and the caller is not an administrator.
        InstanceStateError: the status or the task of the instance does not allow the action.
        ConflictError: the instance has no host, whose agent would have to carry out the action.
    """
    check_not_observed(instance)
    if step not in lifecycle.IGNORING_LOCKS:
        check_lock(instance, caller)
    if instance.status not in step.begins:
        raise InstanceStateError(step.action, instance.uuid, "vm_state", vm_state(instance.status))
    # A delete is never interrupted, because what it has destroyed cannot be restored.
    is_busy = instance.task is not None and not any_task
    if is_busy or instance.task is Task.DELETING:
        raise InstanceStateError(step.action, instance.uuid, "task_state", str(instance.task))
    # An unshelve starts without a host. Every other step is carried out by the host's agent.
    if instance.host is None and step is not lifecycle.UNSHELVE:
        raise ConflictError(f"Instance {instance.uuid} is not ready")


def check_size(flavor: Flavor, image: Image) -> None:
    """Reject a flavor that is too small for an image.

    Raises:
        InvalidInputError: the flavor has too little memory or disk.
    """
    if flavor.memory_mb < image.min_memory_mb:
        raise InvalidInputError(
            "flavorRef",
            f"the flavor's memory ({flavor.memory_mb} MB) is too small for the image, which needs "
            f"{image.min_memory_mb} MB; choose a larger flavor",
        )
    # A root disk of 0 GB means the size of the image, as in Nova.
    if flavor.root_gb and flavor.root_gb < image.min_disk_gb:
        raise InvalidInputError(
            "flavorRef",
            f"the flavor's disk ({flavor.root_gb} GB) is too small for the image, which needs "
            f"{image.min_disk_gb} GB; choose a larger flavor",
        )


def with_lock(instance: Instance, reason: str | None, caller: Caller) -> Instance:
    """Return an instance with a lock, so that only administrators may change it.

    An owner's lock does not replace an existing lock.
    """
    is_owner = caller.project_id == instance.project_id
    # An owner must not replace an administrator's lock, because the owner could remove the new one.
    if is_owner and LOCKED in instance.extra:
        return instance
    who = _OWNER if is_owner else _ADMIN
    return replace(instance, extra={**instance.extra, LOCKED: reason or "", LOCKED_BY: who})


def without_lock(instance: Instance) -> Instance:
    """Return an instance without its lock."""
    rest = {key: kept for key, kept in instance.extra.items() if key not in {LOCKED, LOCKED_BY}}
    return replace(instance, extra=rest)


def may_unlock(instance: Instance, caller: Caller) -> bool:
    """Return whether a caller may remove a lock.

    Only administrators may remove an administrator's lock.
    """
    return caller.is_admin or instance.extra.get(LOCKED_BY) != _ADMIN
