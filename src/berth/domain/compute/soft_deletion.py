"""Soft deletion: a deleted instance is powered off, but its disks are kept until it is reclaimed.

Until then, it can be restored. As in Nova, it keeps its allocations, does not count against the
quota, and is hidden from lists.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute.instance import Instance, Status, Task

# The key in `Instance.extra` of the Unix time of the request for the soft deletion.
_AT: Final = "soft_deleted_at_s"


def is_soft_deleted(instance: Instance) -> bool:
    """Return whether an instance is soft-deleted, or is about to be, and is not being restored."""
    if instance.task is Task.SOFT_DELETING:
        return True
    return instance.status is Status.SOFT_DELETED and instance.task is not Task.RESTORING


def is_reclaimable(instance: Instance, before_s: float) -> bool:
    """Return whether an instance was soft-deleted at or before a Unix time and may be reclaimed.

    An instance that is being restored may not. One whose final deletion has begun may, because its
    host may have died since: repeating the deletion then frees the capacity. If the host is up,
    the repetition changes nothing.
    """
    if instance.status is not Status.SOFT_DELETED or instance.task not in {None, Task.DELETING}:
        return False
    at_s = instance.extra.get(_AT)
    return isinstance(at_s, int | float) and at_s <= before_s


def soft_deleted_at(instance: Instance, now_s: float) -> Instance:
    """Return an instance with `now_s`, in Unix seconds, as the time of its soft deletion."""
    return replace(instance, extra={**instance.extra, _AT: now_s})


def without_soft_deletion(instance: Instance) -> Mapping[str, object]:
    """Return an instance's `extra` without the time of its soft deletion."""
    return {key: value for key, value in instance.extra.items() if key != _AT}
