"""Documents of Nova's compute API, with the fields that the import reads.

Source: the API reference of microversion 2.53 and later. Fields of later microversions have
defaults, which mean "this Nova cannot tell".
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field


class VersionInfo(msgspec.Struct):
    """The versions that a compute API serves."""

    version: str


class VersionAnswer(msgspec.Struct):
    """The answer to GET / of a compute API."""

    version: VersionInfo


class ServiceRef(msgspec.Struct):
    """The compute service of a hypervisor."""

    host: str


class HypervisorDocument(msgspec.Struct):
    """One compute node."""

    id: str
    hypervisor_hostname: str
    service: ServiceRef
    hypervisor_type: str | None = None
    hypervisor_version: int | None = None
    host_ip: str | None = None
    cpu_info: Any = None


class HypervisorsAnswer(msgspec.Struct):
    """A page of compute nodes."""

    hypervisors: list[HypervisorDocument]


class ServiceDocument(msgspec.Struct):
    """One Nova service."""

    id: str
    host: str
    binary: str
    status: str
    disabled_reason: str | None = None


class ServicesAnswer(msgspec.Struct):
    """All Nova services."""

    services: list[ServiceDocument]


class AggregateDocument(msgspec.Struct):
    """One host aggregate."""

    id: int
    uuid: str
    name: str
    hosts: list[str]
    metadata: dict[str, str]
    created_at: str | None = None
    updated_at: str | None = None


class AggregatesAnswer(msgspec.Struct):
    """All host aggregates."""

    aggregates: list[AggregateDocument]


class FlavorDocument(msgspec.Struct):
    """One flavor."""

    id: str
    name: str
    vcpus: int
    ram: int
    disk: int
    ephemeral: int = field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    swap: int | str = 0
    is_public: bool = field(name="os-flavor-access:is_public", default=True)
    is_disabled: bool = field(name="OS-FLV-DISABLED:disabled", default=False)
    rxtx_factor: float | str = 1.0
    description: str | None = None
    extra_specs: dict[str, str] | None = None


class FlavorsAnswer(msgspec.Struct):
    """A page of flavors."""

    flavors: list[FlavorDocument]


class AccessDocument(msgspec.Struct):
    """The access of one project to a private flavor."""

    tenant_id: str


class AccessAnswer(msgspec.Struct):
    """The projects with access to a private flavor."""

    flavor_access: list[AccessDocument]


class GroupDocument(msgspec.Struct):
    """One server group."""

    id: str
    name: str
    policy: str
    members: list[str]
    project_id: str | None = None
    user_id: str | None = None
    rules: dict[str, int] = {}


class GroupsAnswer(msgspec.Struct):
    """A page of server groups."""

    server_groups: list[GroupDocument]


class KeyDocument(msgspec.Struct):
    """One key pair."""

    name: str
    public_key: str
    fingerprint: str
    type: str = "ssh"


class KeyAnswer(msgspec.Struct):
    """One item of a list of key pairs."""

    keypair: KeyDocument


class KeysAnswer(msgspec.Struct):
    """A page of the key pairs of a user."""

    keypairs: list[KeyAnswer]


class QuotaSetAnswer(msgspec.Struct):
    """The effective limits of a project, or the defaults."""

    quota_set: dict[str, Any]


class FlavorCopy(msgspec.Struct):
    """The copy of its flavor that a server was booted with."""

    original_name: str
    vcpus: int
    ram: int
    disk: int
    ephemeral: int = 0
    swap: int = 0
    extra_specs: dict[str, str] = {}


class FaultDocument(msgspec.Struct):
    """The fault of a server in ERROR."""

    code: int
    message: str
    created: str
    details: str = ""


class ServerDocument(msgspec.Struct):
    """One server, as administrators see it."""

    id: str
    name: str
    tenant_id: str
    user_id: str
    flavor: FlavorCopy
    created: str
    updated: str
    vm_state: str = field(name="OS-EXT-STS:vm_state")
    task_state: str | None = field(name="OS-EXT-STS:task_state", default=None)
    host: str | None = field(name="OS-EXT-SRV-ATTR:host", default=None)
    node: str | None = field(name="OS-EXT-SRV-ATTR:hypervisor_hostname", default=None)
    hostname: str | None = field(name="OS-EXT-SRV-ATTR:hostname", default=None)
    reservation_id: str | None = field(name="OS-EXT-SRV-ATTR:reservation_id", default=None)
    launch_index: int | None = field(name="OS-EXT-SRV-ATTR:launch_index", default=None)
    user_data: str | None = field(name="OS-EXT-SRV-ATTR:user_data", default=None)
    launched_at: str | None = field(name="OS-SRV-USG:launched_at", default=None)
    disk_config: str = field(name="OS-DCF:diskConfig", default="MANUAL")
    volumes: list[dict[str, Any]] = field(
        name="os-extended-volumes:volumes_attached", default_factory=list[dict[str, Any]]
    )
    image: Any = None
    metadata: dict[str, str] = {}
    tags: list[str] = []
    key_name: str | None = None
    config_drive: str = ""
    locked: bool = False
    locked_reason: str | None = None
    description: str | None = None
    access_ipv4: str = field(name="accessIPv4", default="")
    access_ipv6: str = field(name="accessIPv6", default="")
    addresses: dict[str, Any] = {}
    security_groups: list[dict[str, str]] = []
    trusted_image_certificates: list[str] | None = None
    fault: FaultDocument | None = None
    pinned_zone: str | UnsetType | None = field(name="pinned_availability_zone", default=UNSET)
    hints: dict[str, Any] | UnsetType = field(name="scheduler_hints", default=UNSET)


class ServersAnswer(msgspec.Struct):
    """A page of servers."""

    servers: list[ServerDocument]
