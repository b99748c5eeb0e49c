"""Instances: what runs, or is to run, on a host."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance_action import Action
from berth.domain.hardware.assignment import Assignment
from berth.domain.open_name import OpenName


class Status(OpenName):
    """Life of an instance, as clients see it while no task goes on."""

    __hash__ = str.__hash__  # that of `Enum` is a call in Python

    BUILD = "BUILD"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    SUSPENDED = "SUSPENDED"
    SHUTOFF = "SHUTOFF"
    RESIZED = "VERIFY_RESIZE"
    """It runs on another host, or in another size, and its owner is to confirm or revert that."""
    SHELVED = "SHELVED"
    SHELVED_OFFLOADED = "SHELVED_OFFLOADED"
    """Shelved, and on no host any more."""
    ERROR = "ERROR"
    DELETED = "DELETED"


class Task(OpenName):
    """What is being done to an instance; the desired state that its agents work towards."""

    __hash__ = str.__hash__  # that of `Enum` is a call in Python

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
    """Its guest is made anew, here or, when it is evacuated, elsewhere."""
    RESIZE_PREP = "resize_prep"
    """A host is looked for."""
    RESIZE_MIGRATING = "resize_migrating"
    RESIZE_MIGRATED = "resize_migrated"
    RESIZE_REVERTING = "resize_reverting"
    MIGRATING = "migrating"
    SHELVING = "shelving"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an instance is in ERROR. `message` is safe to show to its owner."""

    code: int
    message: str
    created_at_s: float
    details: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance, its request and its whereabouts.

    `revision` is raised by the ledger at every save; a save with an old one is refused, so two
    writers never overwrite each other. `host` and `node` are None until a claim is committed.
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
    """What it has of its host beyond the amounts that its flavor asks for."""
    requested_zone: str | None = None
    """The availability zone that the owner asked for; the host's own may change."""
    forced: bool = False
    """The host was named by force, so a failed build is not tried elsewhere."""
    retried: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs where building it has failed."""
    alternates: tuple[tuple[str, str], ...] = ()
    """(host, node) pairs to try first, in order, should its build fail."""
    group_uuid: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    """What clients set and read back but no rule uses (description, key_name, tags)."""
    fault: Fault | None = None
    action: Action | None = None
    """What somebody asked for and is not done yet; None while it is created or deleted."""
    migration_uuid: str | None = None
    """The move that it is in the midst of, or that its owner is to confirm."""
    counts_as: tuple[int, int] | None = None
    """Virtual CPUs and MiB of memory that its project has of it; None: those of its flavor.

    From when a resize is asked for to its very end: the larger of both sizes.
    """
    disks: str | None = None
    """Where agents find its disks while it is shelved and on no host."""
    decision_id: str | None = None
    """The request id of the newest decision about it: after a failed build that of the retry."""
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    launched_at_s: float | None = None
    terminated_at_s: float | None = None
    revision: int = 0


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
