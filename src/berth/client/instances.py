"""Instances: the stored records of servers, and the zones that they are bound to."""

from collections.abc import Mapping
from typing import Final

from msgspec import field

from berth.client.decisions import Assignment
from berth.client.operations import Group, K, operation
from berth.client.requests import FORCE_HEADER, Route, Steps, Value, wait_until


class Flavor(Value, frozen=True):
    """A named size with extra specs; memory and swap in MiB, disks in GiB."""

    flavor_id: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict[str, str])
    is_public: bool = True
    disabled: bool = False
    rxtx_factor: float = 1.0
    description: str | None = None


class Image(Value, frozen=True):
    """The id of an image, its properties, and the smallest flavor for it (MiB and GiB)."""

    image_id: str
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    min_memory_mb: int = 0
    min_disk_gb: int = 0


class Fault(Value, frozen=True):
    """The reason why an operation failed; `details` are for administrators."""

    code: int
    message: str
    created_at_s: float
    details: str = ""
    summary: str = ""
    hints: str = ""


class ActionEvent(Value, frozen=True):
    """One step of an action, and the host that executed it. Times are Unix seconds."""

    name: str
    host: str
    started_at_s: float
    ended_at_s: float
    error: str = ""


class Action(Value, frozen=True):
    """One request to act on an instance; `ended_at_s` is None while it is in progress."""

    instance_uuid: str
    request_id: str
    name: str
    project_id: str
    user_id: str
    started_at_s: float
    ended_at_s: float | None = None
    message: str = ""
    events: tuple[ActionEvent, ...] = ()


class Instance(Value, frozen=True):
    """The stored record of a server. Times are Unix seconds.

    `status` is that of the compute API, and `task` the task in progress or None. Only
    administrators see `host`, `node`, `retried`, `alternates` and `assignment`. `decision_id` is
    the id of the newest decision about the instance.
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
    status: str = "BUILD"
    task: str | None = "scheduling"
    host: str | None = None
    node: str | None = None
    assignment: Assignment | None = None
    requested_zone: str | None = None
    forced: bool = False
    retried: tuple[tuple[str, str], ...] = ()
    alternates: tuple[tuple[str, str], ...] = ()
    group_uuid: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    fault: Fault | None = None
    action: Action | None = None
    migration_uuid: str | None = None
    counts_as: tuple[int, int] | None = None
    disks: str | None = None
    decision_id: str | None = None
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    launched_at_s: float | None = None
    terminated_at_s: float | None = None
    revision: int = 0


class BoundZone(Value, frozen=True):
    """The availability zone that a server is bound to (None for none), and that of its host."""

    instance_uuid: str
    availability_zone: str | None
    host: str | None
    host_availability_zone: str | None


_SHOW: Final = Route("GET", "/berth/v1/instances/{instance_uuid}", Instance)
_ZONE_PATH: Final = "/berth/v1/instances/{instance_uuid}/zone"
_ZONE: Final = Route("GET", _ZONE_PATH, BoundZone)
_BIND: Final = Route(
    "PUT", _ZONE_PATH, BoundZone, body=("availability_zone",), headers=(FORCE_HEADER,)
)


class Instances(Group[K]):
    """Records of servers. To create, list and change servers, use OpenStack's SDK."""

    @operation
    def get(self, instance_uuid: str) -> Steps[Instance]:
        """Return the record of a server, even of a deleted one."""
        return _SHOW.ask(instance_uuid=instance_uuid)

    @operation
    def zone(self, instance_uuid: str) -> Steps[BoundZone]:
        """Return the availability zone that moves of a server obey; for administrators."""
        return _ZONE.ask(instance_uuid=instance_uuid)

    @operation
    def bind_zone(
        self, instance_uuid: str, availability_zone: str | None, *, force: bool = False
    ) -> Steps[BoundZone]:
        """Bind a server to an availability zone, or to none; for administrators.

        Args:
            instance_uuid: the uuid of the server.
            availability_zone: the zone that later moves obey; None for any.
            force: whether the server may be in another zone, or have a task.
        """
        body = {"availability_zone": availability_zone}
        headers = {FORCE_HEADER: "true" if force else None}
        return _BIND.ask(body=body, headers=headers, instance_uuid=instance_uuid)

    @operation
    def wait(self, instance_uuid: str, *, timeout_s: float, poll_s: float = 0.5) -> Steps[Instance]:
        """Wait until a server has no task in progress, and return its record.

        The `status` tells whether the last operation succeeded, and `fault` why it did not.

        Args:
            instance_uuid: the uuid of the server.
            timeout_s: the longest time to wait, in seconds.
            poll_s: the pause between two requests, in seconds.

        Raises:
            DeadlineError: the task did not end in time.
        """
        return wait_until(
            lambda: _SHOW.ask(instance_uuid=instance_uuid),
            lambda found: found.task is None,
            timeout_s=timeout_s,
            poll_s=poll_s,
            what=f"the task of server {instance_uuid}",
        )
