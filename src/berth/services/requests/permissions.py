"""Permitting: whether something may be done with an instance now, and who has locked it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.lifecycle import Transition
from berth.domain.errors import (
    ConflictError,
    InstanceLockedError,
    InstanceStateError,
    InvalidInputError,
)

LOCKED: Final = "locked"
"""Key of `Instance.extra` that says why an instance is locked; missing when it is not."""
LOCKED_BY: Final = "locked_by"
"""Key of `Instance.extra` that says who has locked an instance: `owner` or `admin`."""

_OWNER: Final = "owner"
_ADMIN: Final = "admin"
_VM_STATES: Final[Mapping[Status, str]] = {
    Status.BUILD: "building",
    Status.SHUTOFF: "stopped",
    Status.RESIZED: "resized",
}


def vm_state(status: Status) -> str:
    """Return a status as the compute API calls it beside the one that clients see."""
    return _VM_STATES.get(status) or status.value.lower()


def check_lock(instance: Instance, caller: Caller) -> None:
    """Refuse whoever is no administrator while an instance is locked.

    Raises:
        InstanceLockedError: it is.
    """
    if LOCKED in instance.extra and not caller.is_admin:
        raise InstanceLockedError(instance.uuid)


def check_resize(instance: Instance, flavor: Flavor) -> None:
    """Refuse a size that an instance has, or cannot have.

    Raises:
        InvalidInputError: it has that flavor already, or a disk would have to shrink.
    """
    if instance.flavor.flavor_id == flavor.flavor_id:
        raise InvalidInputError("flavorRef", "the instance has this flavor already")
    had = instance.flavor
    if flavor.root_gb < had.root_gb or flavor.ephemeral_gb < had.ephemeral_gb:
        raise InvalidInputError("flavorRef", "a disk cannot be made smaller")
    if instance.image is not None:
        check_size(flavor, instance.image)


def check_state(
    instance: Instance, step: Transition, caller: Caller, *, any_task: bool = False
) -> None:
    """Refuse what an instance is in no state for.

    Args:
        instance: as it is.
        step: what is asked.
        caller: who asks.
        any_task: whatever goes on with it may be cut short, other than a delete.

    Raises:
        InstanceLockedError: it is locked, and the caller is no administrator.
        InstanceStateError: it is in no state for that.
        ConflictError: it is on no host that could do it.
    """
    check_lock(instance, caller)
    if instance.status not in step.begins:
        raise InstanceStateError(step.action, instance.uuid, "vm_state", vm_state(instance.status))
    is_busy = instance.task is not None and not any_task
    if is_busy or instance.task is Task.DELETING:
        raise InstanceStateError(step.action, instance.uuid, "task_state", str(instance.task))
    if instance.host is None and step is not lifecycle.UNSHELVE:
        raise ConflictError(f"Instance {instance.uuid} is not ready")


def check_size(flavor: Flavor, image: Image) -> None:
    """Refuse a flavor that is too small for an image.

    Raises:
        InvalidInputError: it has too little memory or disk.
    """
    if flavor.memory_mb < image.min_memory_mb:
        raise InvalidInputError("flavorRef", "the flavor's memory is too small for the image")
    if flavor.root_gb and flavor.root_gb < image.min_disk_gb:
        raise InvalidInputError("flavorRef", "the flavor's disk is too small for the image")


def with_lock(instance: Instance, reason: str | None, caller: Caller) -> Instance:
    """Return an instance that everybody but administrators may not change.

    An owner's lock changes nothing about one that is there already.
    """
    is_owner = caller.project_id == instance.project_id
    if is_owner and LOCKED in instance.extra:
        return instance
    who = _OWNER if is_owner else _ADMIN
    return replace(instance, extra={**instance.extra, LOCKED: reason or "", LOCKED_BY: who})


def without_lock(instance: Instance) -> Instance:
    """Return an instance that its owner may change again."""
    rest = {key: kept for key, kept in instance.extra.items() if key not in {LOCKED, LOCKED_BY}}
    return replace(instance, extra=rest)


def may_unlock(instance: Instance, caller: Caller) -> bool:
    """Tell whether a caller may undo a lock: only administrators undo that of one."""
    return caller.is_admin or instance.extra.get(LOCKED_BY) != _ADMIN
