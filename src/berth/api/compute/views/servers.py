"""Converts instances to servers of the compute API, as the microversion and the caller require."""

import hashlib
from collections.abc import Container, Mapping
from typing import Final, Literal, TypedDict, cast

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.schemas.server_views import (
    SecurityGroupView,
    ServerFault,
    ServerFlavor,
    ServerImage,
    ServerLine,
    ServerView,
)
from berth.api.fleet import zone_of
from berth.api.links import Linker, linker_of
from berth.api.microversion import Version
from berth.api.refusals import fault_for
from berth.api.routing import Call
from berth.api.values import isotime, naive_time
from berth.domain.compute.instance import Instance, Status, hostname_of
from berth.domain.compute.lifecycle import status_shown
from berth.domain.compute.request import without_mark
from berth.services.requests.permissions import LOCKED, vm_state

# The microversions that add or change fields of servers. 2.3 adds attributes for administrators;
# 2.47 replaces the link to the flavor with the fields of the flavor.
EXTENDED = (2, 3)
_LOCKED = (2, 9)
_HOST_STATUS = (2, 16)
_DESCRIPTION = (2, 19)
_TAGS = (2, 26)
_FLAVOR_EMBEDDED = (2, 47)
_CERTIFICATES = (2, 63)
_GROUPS = (2, 71)
_LOCKED_REASON = (2, 73)
_ALL_IN_CHANGES = (2, 75)
_HOSTNAME = (2, 90)
_PINNED_ZONE = (2, 96)
_IMAGE_PROPERTIES = (2, 98)
_HINTS = (2, 100)

# Nova's codes for power states: 0 no state, 1 running, 3 paused, 4 shut down.
_NO_STATE = 0
_POWER_STATES = {
    Status.ACTIVE: 1,
    Status.RESIZED: 1,
    Status.RESCUED: 1,
    Status.PAUSED: 3,
    Status.SHUTOFF: 4,
    Status.SOFT_DELETED: 4,
    Status.SUSPENDED: 4,
    Status.SHELVED: 4,
    Status.SHELVED_OFFLOADED: 4,
}
# As in Nova, only servers in these statuses have a progress or a fault, respectively.
_WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})
_WITH_FAULT = frozenset({Status.ERROR, Status.DELETED})
# The fields that 2.75 adds to the responses to updates and rebuilds.
_ADDED_TO_CHANGES = (
    "task_state",
    "vm_state",
    "power_state",
    "availability_zone",
    "launched_at",
    "terminated_at",
    "config_drive",
    "key_name",
    "security_groups",
    "volumes_attached",
    "host",
    "hypervisor_hostname",
    "instance_name",
    "hostname",
    "reservation_id",
    "launch_index",
    "user_data",
    "kernel_id",
    "ramdisk_id",
    "root_device_name",
    "host_status",
)
AUTO_NETWORK: Final = "auto_allocated_network"
"""The name that Neutron gives to the network it allocates for servers with the networks `auto`."""
_DEFAULT_GROUPS = [SecurityGroupView(name="default")]
_SERVER_ERROR = 500


def power_state(status: Status) -> int:
    """Return Nova's code for the power state of an instance with the given status."""
    return _POWER_STATES.get(status, _NO_STATE)


class InjectedFile(TypedDict):
    """A file on a server's config drive, with its contents in base64."""

    path: str
    contents: str


class Extra(TypedDict, total=False):
    """The fields of `Instance.extra` that clients set; no rule reads them."""

    description: str | None
    key_name: str | None
    key_type: str
    key_data: str
    user_data: str | None
    files: list[InjectedFile]
    config_drive: bool
    has_config_drive: bool
    tags: list[str]
    security_groups: list[str]
    hostname: str
    trusted_image_certificates: list[str] | None
    access_ipv4: str
    access_ipv6: str
    disk_config: str
    networks: Literal["none"]
    """Present only if the server was created with the networks `none`."""


class _Later(TypedDict, total=False):
    """The fields that a later microversion added, or that only administrators see."""

    host: str | None
    hypervisor_hostname: str | None
    instance_name: str
    hostname: str
    reservation_id: str
    launch_index: int
    user_data: str | None
    kernel_id: str
    ramdisk_id: str
    root_device_name: str | None
    locked: bool
    host_status: str
    description: str | None
    tags: list[str]
    trusted_image_certificates: list[str] | None
    locked_reason: str | None
    pinned_availability_zone: str | None
    scheduler_hints: Mapping[str, list[str]]
    server_groups: list[str]


def extra_of(instance: Instance) -> Extra:
    """Return an instance's `extra` as a typed dictionary of the fields that clients set."""
    return cast("Extra", instance.extra)


class ServerWriter:
    """Converts the servers of one response; looks up the availability zones of a host only once."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._version = call.version
        self._linker: Linker = linker_of(call)
        self._zones: dict[str, str] = {}

    def line(self, instance: Instance) -> ServerLine:
        """Return a server with id, name and links."""
        links = self._linker.of("servers", instance.uuid)
        return ServerLine(id=instance.uuid, name=instance.name, links=links)

    def view(self, instance: Instance, *, alone: bool = False) -> ServerView:
        """Return a server with all fields that the caller may see.

        With `alone`, the result includes the server groups from microversion 2.71 on; servers in
        lists omit them.
        """
        extra = extra_of(instance)
        status, fault = instance.status, instance.fault
        shown = status_shown(status, instance.task)
        terminated_at_s = instance.terminated_at_s
        return ServerView(
            id=instance.uuid,
            name=instance.name,
            status=shown,
            tenant_id=instance.project_id,
            user_id=instance.user_id,
            created=isotime(instance.created_at_s),
            updated=isotime(instance.updated_at_s),
            # A parent zone gets no digest. It knows the project, so it could test guessed names of
            # hosts against the digest, and it could count this zone's hosts.
            host_id=host_id(self._call, instance.project_id, instance.host),
            flavor=self._flavor(instance),
            image=self._image(instance),
            metadata=instance.metadata,
            links=self._linker.of("servers", instance.uuid),
            task_state=None if instance.task is None else instance.task.value,
            vm_state=vm_state(status),
            power_state=power_state(status),
            availability_zone=self.zone(instance),
            launched_at=None
            if instance.launched_at_s is None
            else naive_time(instance.launched_at_s),
            terminated_at=None if terminated_at_s is None else naive_time(terminated_at_s),
            config_drive="True" if extra.get("config_drive") else "",
            key_name=extra.get("key_name"),
            security_groups=_security_groups(extra),
            access_ipv4=extra.get("access_ipv4", ""),
            access_ipv6=extra.get("access_ipv6", ""),
            addresses=addresses_of(instance),
            disk_config=disk_config(extra),
            progress=0 if shown in _WITH_PROGRESS else UNSET,
            fault=self._fault(instance) if fault and status in _WITH_FAULT else UNSET,
            **self._later(instance, extra, alone=alone),
        )

    def _later(self, instance: Instance, extra: Extra, *, alone: bool) -> _Later:
        version = self._version
        # As in Nova, fields of newer microversions are absent rather than null.
        later: _Later = {}
        if self._call.identity.is_admin:
            _add_attributes(later, instance, extra, version)
            if version >= _HOST_STATUS:
                later["host_status"] = self._host_status(instance)
        if version >= _LOCKED:
            later["locked"] = LOCKED in instance.extra
        if version >= _DESCRIPTION:
            later["description"] = extra.get("description")
        if version >= _TAGS:
            later["tags"] = extra.get("tags", [])
        if version >= _CERTIFICATES:
            later["trusted_image_certificates"] = extra.get("trusted_image_certificates")
        if version >= _GROUPS and alone:
            later["server_groups"] = self._groups(instance)
        if version >= _LOCKED_REASON:
            later["locked_reason"] = cast("str", instance.extra.get(LOCKED, "")) or None
        if version >= _HOSTNAME:
            later["hostname"] = hostname_of(instance)
        if version >= _PINNED_ZONE:
            later["pinned_availability_zone"] = instance.requested_zone
        if version >= _HINTS:
            later["scheduler_hints"] = {
                key: list(map(without_mark, texts)) for key, texts in instance.hints.items()
            }
        return later

    def _host_status(self, instance: Instance) -> str:
        """Return Nova's `host_status`, the state of the host's compute service; empty if none."""
        parts = self._call.parts
        service = parts.replica.hosts.services.get(instance.host or "")
        if service is None:
            return ""
        if service.forced_down:
            return "DOWN"
        if service.disabled:
            return "MAINTENANCE"
        is_up = service.is_up(parts.clock.now_s(), parts.service_down_time_s)
        return "UP" if is_up else "UNKNOWN"

    def _groups(self, instance: Instance) -> list[str]:
        """Return a list with the uuid of the instance's group; empty if no such group exists."""
        group = instance.group_uuid
        return [group] if group in self._call.parts.replica.hosts.server_groups else []

    def zone(self, instance: Instance) -> str:
        """Return the availability zones of an instance's host, joined by commas.

        For an instance without a host, the result is its requested zone or, if none, an empty
        string.
        """
        host = instance.host
        if host is None:
            return instance.requested_zone or ""
        zone = self._zones.get(host)
        if zone is None:
            zone = self._zones[host] = zone_of(self._call.parts, host)
        return zone

    def _flavor(self, instance: Instance) -> ServerFlavor:
        flavor = instance.flavor
        if self._version < _FLAVOR_EMBEDDED:
            links = self._linker.bookmark("flavors", flavor.flavor_id)
            return ServerFlavor(id=flavor.flavor_id, links=links)
        return ServerFlavor(
            original_name=flavor.name,
            vcpus=flavor.vcpus,
            ram=flavor.memory_mb,
            disk=flavor.root_gb,
            ephemeral=flavor.ephemeral_gb,
            swap=flavor.swap_mb,
            extra_specs=flavor.extra_specs,
        )

    def _image(self, instance: Instance) -> ServerImage | str:
        image = instance.image
        if image is None:
            return ""
        return ServerImage(
            id=image.image_id,
            links=self._linker.bookmark("images", image.image_id),
            properties=image.properties if self._version >= _IMAGE_PROPERTIES else UNSET,
        )

    def _fault(self, instance: Instance) -> ServerFault | UnsetType:
        fault = instance.fault
        if fault is None:
            return UNSET
        identity = self._call.identity
        # The details of a server error may name hosts, so only administrators see them, as in Nova.
        # A parent zone gets none.
        is_abroad = identity.parent is not None
        may_see = identity.is_admin or fault.code != _SERVER_ERROR
        shown = fault.details and may_see and not is_abroad
        return ServerFault(
            code=fault.code,
            message=fault_for(self._call, fault).message,
            created=isotime(fault.created_at_s),
            details=fault.details if shown else UNSET,
        )


def host_id(call: Call, project_id: str, host: str | None) -> str:
    """Return a digest of project and host; empty for an instance without a host.

    Two servers of a project are on the same host if their digests are equal and not empty. Because
    the digest depends on the project, servers of different projects cannot be compared. In a tree
    of zones it depends on the zone too, because zones may have hosts of the same name.
    """
    if host is None:
        return ""
    zone = "" if call.parts.zones is None else f"{call.parts.zones.name}\n"
    return hashlib.sha224(f"{zone}{project_id}{host}".encode()).hexdigest()


def addresses_of(instance: Instance) -> dict[str, list[str]]:
    """Return the networks of an instance, each with an empty list of addresses.

    The guest has no network interface, because Berth has no networks. openstacksdk, and with it
    Ansible, deletes a new server that becomes active without a network, but keeps one whose network
    has no addresses. A launched instance therefore shows the network that Neutron allocates for the
    networks `auto`, unless it was created with the networks `none`.
    """
    if instance.launched_at_s is None or "networks" in instance.extra:
        return {}
    return {AUTO_NETWORK: []}


def _add_attributes(later: _Later, instance: Instance, extra: Extra, version: Version) -> None:
    """Add the fields that only administrators see to `later`."""
    later["host"] = instance.host
    later["hypervisor_hostname"] = instance.node
    later["instance_name"] = f"instance-{instance.uuid[:8]}"
    if version >= EXTENDED:
        later["hostname"] = hostname_of(instance)
        later["reservation_id"] = instance.reservation_id
        later["launch_index"] = instance.launch_index
        later["user_data"] = extra.get("user_data")
        later["kernel_id"] = later["ramdisk_id"] = ""
        later["root_device_name"] = None


def disk_config(extra: Extra) -> str:
    """Return the disk configuration of a server: AUTO, or MANUAL, which is the default."""
    return extra.get("disk_config", "MANUAL")


def reduced(view: ServerView, version: Version, kept: Container[str] = ()) -> ServerView:
    """Remove the fields that the response to an update or rebuild lacks before 2.75.

    Args:
        view: the server with all fields, which is changed.
        version: the microversion of the request.
        kept: fields, among those of 2.75, that the response has nevertheless.
    """
    if version < _ALL_IN_CHANGES:
        for name in _ADDED_TO_CHANGES:
            if name not in kept:
                setattr(view, name, UNSET)
    return view


def _security_groups(extra: Extra) -> list[SecurityGroupView]:
    names = extra.get("security_groups")
    return [SecurityGroupView(name=name) for name in names] if names else _DEFAULT_GROUPS
