"""The creation of an instance: in its own record, until it is launched a second time."""

from collections.abc import Iterable
from typing import Final

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Action

_CREATE: Final = "create"
_FAILED: Final = "Error"


def is_kept(instance: Instance, actions: Iterable[Action]) -> bool:
    """Tell whether the creation is among the actions that are kept of an instance."""
    return any(one.request_id == instance.request_id for one in actions)


def creation_of(instance: Instance) -> Action:
    """Return the creation as an action like others; it ended when the instance was launched."""
    is_building = instance.status is Status.BUILD and instance.task in {
        Task.SCHEDULING,
        Task.SPAWNING,
    }
    fault = instance.fault if instance.launched_at_s is None else None
    at_s = instance.launched_at_s or (fault.created_at_s if fault else None)
    return Action(
        instance.uuid,
        instance.request_id,
        _CREATE,
        instance.project_id,
        instance.user_id,
        instance.created_at_s,
        ended_at_s=None if is_building else at_s,
        message="" if fault is None or is_building else _FAILED,
    )
