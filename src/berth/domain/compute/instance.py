"""Instances: their status, task, host and record."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance_action import Action, ActionEvent
from berth.domain.hardware.assignment import Assignment
from berth.domain.open_name import OpenName


class Status(OpenName):
    """The lifecycle status of an instance, as clients see it while no task is in progress."""

    # `Enum.__hash__` is a Python function; statuses are dictionary keys on hot paths.
    __hash__ = str.__hash__

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    SUSPENDED = "SUSPENDED"
    SHUTOFF = "SHUTOFF"
    RESIZED = "VERIFY_RESIZE"
    """Running on another host or in another size, until the owner confirms or reverts the resize.
    """
    SHELVED = "SHELVED"
    SHELVED_OFFLOADED = "SHELVED_OFFLOADED"
    """Shelved, and removed from its host."""
    RESCUED = "RESCUE"
    """Running from a rescue image, with its own disks attached (`rescue.py`)."""
    SOFT_DELETED = "SOFT_DELETED"
    """Deleted by its owner and off, but kept until it is reclaimed (`soft_deletion.py`)."""
    ERROR = "ERROR"
    DELETED = "DELETED"


class Task(OpenName):
    """The task in progress on an instance, which a scheduler or an agent carries out.

    The task is the command (docs/adr/0004-commands-are-states.md): it is cleared only by the unit
    that records its outcome, so a process that dies loses nothing.
    """

    # `Enum.__hash__` is a Python function; tasks are dictionary keys on hot paths.
    __hash__ = str.__hash__

    SCHEDULING = "scheduling"
    SPAWNING = "spawning"
    DELETING = "deleting"
    POWERING_ON = "powering-on"
    POWERING_OFF = "powering-off"
    REBOOTING = "rebooting"
    REBOOTING_HARD = "rebooting_hard"
    PAUSING = "pausing"
    UNPAUSING = "unpausing"
    SUSPENDING = "suspending"
    RESUMING = "resuming"
    REBUILDING = "rebuilding"
    """The guest is being recreated, on its host or, during an evacuation, on another one."""
    RESIZE_PREP = "resize_prep"
    """A scheduler is choosing the destination."""
    RESIZE_MIGRATING = "resize_migrating"
    RESIZE_MIGRATED = "resize_migrated"
    RESIZE_REVERTING = "resize_reverting"
    MIGRATING = "migrating"
    SHELVING = "shelving"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    SOFT_DELETING = "soft-deleting"
    RESTORING = "restoring"
    IMAGE_SNAPSHOT = "image_snapshot"
    IMAGE_BACKUP = "image_backup"


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why an operation on an instance failed.

    `code` is an HTTP status, `message` is safe to show to the owner, and `details` are for
    administrators. `created_at_s` is Unix seconds. If the message gives the reasons for a refusal,
    owners who may not see them get `summary` and `hints` instead (see `Refusal`).
    """

    code: int
    message: str
    created_at_s: float
    details: str = ""
    summary: str = ""
    hints: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance: the request that it came from, its state and its host.

    The ledger increments `revision` at every save and rejects a save with an outdated one, so two
    writers never overwrite each other. `host` and `node` are None until a claim is committed. Times
    are Unix seconds; `launched_at_s` is None until the first launch, `terminated_at_s` until the
    instance is deleted.
    """

    uuid: str
    name: str
    project_id: str
    user_id: str
    request_id: str
    reservation_id: str
    flavor: Flavor
    image: Image | None = None
    launch_index: int = 0
    status: Status = Status.BUILD
    task: Task | None = Task.SCHEDULING
    host: str | None = None
    node: str | None = None
    assignment: Assignment | None = None
    """Hardware and child providers that the host gives the instance besides the amounts of its root
    provider; None if there are none."""
    requested_zone: str | None = None
    """The availability zone that the owner requested; None for any."""
    forced: bool = False
    """Whether the request forced the host; if so, a failed build is not retried elsewhere."""
    retried: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs on which the build has failed."""
    alternates: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs to try in this order if the build fails."""
    group_uuid: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """Client attributes that no rule reads (description, key_name, tags)."""
    fault: Fault | None = None
    action: Action | None = None
    """The action in progress; None if there is none, and during creation and deletion."""
    migration_uuid: str | None = None
    """The migration in progress, or the one that waits for the owner's confirmation; else None."""
    counts_as: tuple[int, int] | None = None
    """(virtual CPUs, MiB of memory) charged to the project's quota; None for those of the flavor.

    From the request for a resize until the resize is confirmed, reverted or failed, these are the
    larger of both sizes (docs/adr/0024-quotas.md).
    """
    disks: str | None = None
    """Address of the stored disks while the instance is shelved and on no host; else None."""
    decision_id: str | None = None
    """Request id of the latest decision about the instance; after a failed build, that of the
    retry."""
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    launched_at_s: float | None = None
    terminated_at_s: float | None = None
    revision: int = 0


_CREATE: Final = "create"
# Nova's name of the step that chooses a host.
_PLACING: Final = "conductor_schedule_and_build_instances"

# The maximum length of a DNS label.
_HOSTNAME_MAX: Final = 63

HAS_CONFIG_DRIVE: Final = "has_config_drive"
"""The field of `Instance.extra` that says whether the guest has a config drive.

It is stored, because a guest that was built without one must not get one on the way to another
host: both sides of a live migration need the same disks.
"""

# Nova's message for a failed action.
_FAILED: Final = "Error"


def hostname_of(instance: Instance) -> str:
    """Return the requested host name, or one derived from the instance's name or uuid."""
    given = instance.extra.get("hostname")
    if given:
        return str(given)
    allowed = "".join(
        char if char.isascii() and char.isalnum() else "-" for char in instance.name.lower()
    )
    return allowed.strip("-")[:_HOSTNAME_MAX] or f"server-{instance.uuid}"


def order_id_of(instance: Instance) -> str | None:
    """Return the id of the request on whose behalf a host works on an instance, or None.

    It is the id of the action in progress or else that of the latest decision.
    """
    return instance.decision_id if instance.action is None else instance.action.request_id


def has_creation(instance: Instance, actions: Iterable[Action]) -> bool:
    """Return whether the stored actions of an instance include its creation.

    Args:
        instance: the instance.
        actions: the stored actions of the instance.
    """
    # Only the creation has the request id of the instance; every other action has one of its own.
    return any(one.request_id == instance.request_id for one in actions)


def creation_of(instance: Instance) -> Action:
    """Return the creation of an instance as an action.

    The action ends with the first launch, or with the fault that prevented it. Until a
    second launch the creation is not stored as an action, but derived from the instance.
    """
    is_building = instance.status is Status.BUILD and instance.task in {
        Task.SCHEDULING,
        Task.SPAWNING,
    }
    # A fault recorded after the launch belongs to a later action, not to the creation.
    fault = instance.fault if instance.launched_at_s is None else None
    at_s = instance.launched_at_s or (fault.created_at_s if fault else None)
    # The builds of an instance with a host have events of their own. This event is for an instance
    # that got no host.
    events: tuple[ActionEvent, ...] = ()
    if fault is not None and at_s is not None and instance.host is None and not is_building:
        told = fault.details or fault.message
        events = (ActionEvent(_PLACING, "", instance.created_at_s, at_s, told),)
    return Action(
        instance.uuid,
        instance.request_id,
        _CREATE,
        instance.project_id,
        instance.user_id,
        instance.created_at_s,
        ended_at_s=None if is_building else at_s,
        message="" if fault is None or is_building else _FAILED,
        events=events,
    )
