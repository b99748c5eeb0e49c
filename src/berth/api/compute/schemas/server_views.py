"""Response bodies for servers."""

from collections.abc import Mapping

from berth.api.codec import UNSET, UnsetType, View
from berth.api.links import Link


class SecurityGroupView(View):
    """The name of a security group."""

    name: str


class CreatedServer(View, rename={"disk_config": "OS-DCF:diskConfig", "admin_pass": "adminPass"}):
    """The first server of an accepted request."""

    id: str
    links: tuple[Link, ...]
    security_groups: list[SecurityGroupView]
    disk_config: str
    admin_pass: str | UnsetType = UNSET


class CreatedAnswer(View):
    """The response with the first created server or, if requested, the reservation id of all."""

    server: CreatedServer | UnsetType = UNSET
    reservation_id: str | UnsetType = UNSET


class ServerLine(View):
    """A server in a list without details."""

    id: str
    name: str
    links: tuple[Link, ...]


class ServerFlavor(View):
    """The flavor of a server: a link before microversion 2.47, its fields from then on."""

    id: str | UnsetType = UNSET
    links: tuple[Link, ...] | UnsetType = UNSET
    original_name: str | UnsetType = UNSET
    vcpus: int | UnsetType = UNSET
    ram: int | UnsetType = UNSET
    disk: int | UnsetType = UNSET
    ephemeral: int | UnsetType = UNSET
    swap: int | UnsetType = UNSET
    extra_specs: Mapping[str, str] | UnsetType = UNSET


class ServerImage(View):
    """The image of a server, with its properties from microversion 2.98 on."""

    id: str
    links: tuple[Link, ...]
    properties: Mapping[str, str] | UnsetType = UNSET


class ServerFault(View):
    """The reason for a server's ERROR status."""

    code: int
    message: str
    created: str
    details: str | UnsetType = UNSET


class ServerView(
    View,
    rename={
        "host_id": "hostId",
        "access_ipv4": "accessIPv4",
        "access_ipv6": "accessIPv6",
        "admin_pass": "adminPass",
        "disk_config": "OS-DCF:diskConfig",
        "task_state": "OS-EXT-STS:task_state",
        "vm_state": "OS-EXT-STS:vm_state",
        "power_state": "OS-EXT-STS:power_state",
        "availability_zone": "OS-EXT-AZ:availability_zone",
        "launched_at": "OS-SRV-USG:launched_at",
        "terminated_at": "OS-SRV-USG:terminated_at",
        "volumes_attached": "os-extended-volumes:volumes_attached",
        "host": "OS-EXT-SRV-ATTR:host",
        "hypervisor_hostname": "OS-EXT-SRV-ATTR:hypervisor_hostname",
        "instance_name": "OS-EXT-SRV-ATTR:instance_name",
        "hostname": "OS-EXT-SRV-ATTR:hostname",
        "reservation_id": "OS-EXT-SRV-ATTR:reservation_id",
        "launch_index": "OS-EXT-SRV-ATTR:launch_index",
        "user_data": "OS-EXT-SRV-ATTR:user_data",
        "rebuilt_with": "user_data",
        "kernel_id": "OS-EXT-SRV-ATTR:kernel_id",
        "ramdisk_id": "OS-EXT-SRV-ATTR:ramdisk_id",
        "root_device_name": "OS-EXT-SRV-ATTR:root_device_name",
    },
):
    """A server with all fields that the microversion has and the caller may see.

    Before 2.75, the responses to updates and rebuilds lack the fields that `reduced` names.
    """

    id: str
    name: str
    status: str
    tenant_id: str
    user_id: str
    created: str
    updated: str
    host_id: str
    flavor: ServerFlavor
    image: ServerImage | str
    metadata: Mapping[str, str]
    links: tuple[Link, ...]
    access_ipv4: str
    access_ipv6: str
    disk_config: str
    addresses: dict[str, list[str]]
    task_state: str | UnsetType | None = UNSET
    vm_state: str | UnsetType = UNSET
    power_state: int | UnsetType = UNSET
    availability_zone: str | UnsetType = UNSET
    launched_at: str | UnsetType | None = UNSET
    terminated_at: str | UnsetType | None = UNSET
    config_drive: str | UnsetType = UNSET
    key_name: str | UnsetType | None = UNSET
    security_groups: list[SecurityGroupView] | UnsetType = UNSET
    volumes_attached: tuple[str, ...] | UnsetType = ()
    progress: int | UnsetType = UNSET
    fault: ServerFault | UnsetType = UNSET
    host: str | UnsetType | None = UNSET
    hypervisor_hostname: str | UnsetType | None = UNSET
    instance_name: str | UnsetType = UNSET
    hostname: str | UnsetType = UNSET
    reservation_id: str | UnsetType = UNSET
    launch_index: int | UnsetType = UNSET
    user_data: str | UnsetType | None = UNSET
    rebuilt_with: str | UnsetType | None = UNSET
    """The user data, named `user_data` in JSON; only the response to a rebuild has this field."""
    admin_pass: str | UnsetType = UNSET
    """Only the response to a rebuild has this field."""
    kernel_id: str | UnsetType = UNSET
    ramdisk_id: str | UnsetType = UNSET
    root_device_name: str | UnsetType | None = UNSET
    locked: bool | UnsetType = UNSET
    host_status: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    trusted_image_certificates: list[str] | UnsetType | None = UNSET
    server_groups: list[str] | UnsetType = UNSET
    locked_reason: str | UnsetType | None = UNSET
    pinned_availability_zone: str | UnsetType | None = UNSET
    scheduler_hints: Mapping[str, list[str]] | UnsetType = UNSET


class ServerAnswer(View):
    """The response with one server."""

    server: ServerView


class ServerLinesAnswer(View):
    """The response with a page of servers without details."""

    servers: list[ServerLine]
    servers_links: tuple[Link, ...] | UnsetType = UNSET


class ServersAnswer(View):
    """The response with a page of servers with all fields."""

    servers: list[ServerView]
    servers_links: tuple[Link, ...] | UnsetType = UNSET


class MetadataAnswer(View):
    """The response with the metadata of a server."""

    metadata: Mapping[str, str]


class MetadataItemAnswer(View):
    """The response with one metadata item of a server."""

    meta: Mapping[str, str]
