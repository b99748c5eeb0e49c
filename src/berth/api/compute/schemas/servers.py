"""Request bodies and queries for servers."""

from typing import Annotated, Literal, cast

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType
from berth.api.values import Flag, Limit, Text, Whole

MetadataKey = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[a-zA-Z0-9_:. -]+$")]
MetadataValue = Annotated[str, Meta(max_length=255)]
Metadata = dict[MetadataKey, MetadataValue]
METADATA_MAX = 128
"""The number of metadata items that a server can have; as in Nova, the schema does not limit it."""
Description = Annotated[str, Meta(max_length=255)]
Tag = Annotated[str, Meta(min_length=1, max_length=60, pattern="^[^,/]*$")]
ShortText = Annotated[str, Meta(max_length=255)]
HintTexts = Annotated[list[ShortText], Meta(max_length=128)]
# The schema accepts more types than hints may have, so that the error for a wrong one can name the
# hint.
Hints = Annotated[
    dict[ShortText, ShortText | HintTexts | int | float | bool | dict[str, object] | None],
    Meta(max_length=64),
]
ITEMS_MAX = 64
DiskConfig = Literal["AUTO", "MANUAL"]
"""The partitioning of the guest's disk; stored and shown, but no driver acts on it."""


class SecurityGroup(Model):
    """The name of a security group; Berth stores the name, but it has no effect."""

    name: Name


class Network(Model):
    """A network to attach a server to; Berth refuses it if it names a network, port or address."""

    uuid: ShortText | UnsetType = UNSET
    port: ShortText | UnsetType | None = UNSET
    fixed_ip: ShortText | UnsetType = UNSET
    tag: Tag | UnsetType = UNSET


class LegacyBlockDevice(Model):
    """A block device in the API's first format; Berth refuses volumes."""

    virtual_name: ShortText | None = None
    volume_id: ShortText | None = None
    snapshot_id: ShortText | None = None
    volume_size: Whole | None = None
    device_name: ShortText | None = None
    delete_on_termination: Flag | None = None
    no_device: object = None
    connection_info: ShortText | None = None


class BlockDevice(LegacyBlockDevice):
    """A block device; an image with `boot_index` 0 stands in for a missing `imageRef`."""

    source_type: ShortText | None = None
    uuid: ShortText | None = None
    image_id: ShortText | None = None
    destination_type: ShortText | None = None
    guest_format: ShortText | None = None
    device_type: ShortText | None = None
    disk_bus: ShortText | None = None
    boot_index: int | Annotated[str, Meta(pattern="^-?[0-9]+$", max_length=10)] | None = None
    tag: Tag | None = None
    volume_type: ShortText | None = None


class File(Model):
    """A file to inject into the server, before microversion 2.57."""

    path: Text
    contents: Text


class NewServer(
    Model,
    rename={
        "flavor_ref": "flavorRef",
        "image_ref": "imageRef",
        "admin_pass": "adminPass",
        "disk_config": "OS-DCF:diskConfig",
        "access_ipv4": "accessIPv4",
        "access_ipv6": "accessIPv6",
    },
):
    """The servers to create; a field is refused before the microversion that added it."""

    name: Name
    flavor_ref: Name | Annotated[int, Meta(ge=0, le=2**53 - 1)]
    image_ref: Annotated[str, Meta(max_length=2048)] | UnsetType = UNSET
    min_count: Whole | UnsetType = UNSET
    max_count: Whole | UnsetType = UNSET
    availability_zone: ShortText | UnsetType = UNSET
    return_reservation_id: Flag | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    key_name: Name | UnsetType | None = UNSET
    user_data: Text | UnsetType | None = UNSET
    config_drive: Flag | UnsetType = UNSET
    security_groups: Annotated[list[SecurityGroup], Meta(max_length=ITEMS_MAX)] | UnsetType = UNSET
    networks: Annotated[list[Network], Meta(max_length=ITEMS_MAX)] | ShortText | UnsetType = UNSET
    block_device_mapping: (
        Annotated[list[LegacyBlockDevice], Meta(max_length=ITEMS_MAX)] | UnsetType
    ) = UNSET
    block_device_mapping_v2: (
        Annotated[list[BlockDevice], Meta(max_length=ITEMS_MAX)] | UnsetType
    ) = UNSET
    admin_pass: ShortText | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = UNSET
    access_ipv4: ShortText | UnsetType = UNSET
    access_ipv6: ShortText | UnsetType = UNSET
    personality: Annotated[list[File], Meta(max_length=ITEMS_MAX)] | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    tags: Annotated[list[Tag], Meta(max_length=50)] | UnsetType = UNSET
    trusted_image_certificates: (
        Annotated[list[ShortText], Meta(max_length=50)] | UnsetType | None
    ) = UNSET
    host: Name | UnsetType = UNSET
    hypervisor_hostname: Name | UnsetType = UNSET
    hostname: Name | UnsetType = UNSET


class NewServerBody(
    Model, rename={"hints": "os:scheduler_hints", "other_hints": "OS-SCH-HNT:scheduler_hints"}
):
    """Body of POST /servers; scheduler hints are accepted under both names."""

    server: NewServer
    hints: Hints | UnsetType = UNSET
    other_hints: Hints | UnsetType = UNSET


class ServerChange(
    Model,
    rename={
        "disk_config": "OS-DCF:diskConfig",
        "access_ipv4": "accessIPv4",
        "access_ipv6": "accessIPv6",
        "pinned_zone": "pinned_availability_zone",
    },
):
    """The fields of a server to update."""

    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    hostname: Name | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = UNSET
    access_ipv4: ShortText | UnsetType = UNSET
    access_ipv6: ShortText | UnsetType = UNSET
    pinned_zone: Name | UnsetType | None = UNSET


class ServerChangeBody(Model):
    """Body of PUT /servers/{server_id}."""

    server: ServerChange


class ServersQuery(
    Model,
    rename={
        "changes_since": "changes-since",
        "changes_before": "changes-before",
        "tags_any": "tags-any",
        "not_tags": "not-tags",
        "not_tags_any": "not-tags-any",
    },
):
    """Filters, order and page of a server list; the filters by tags take comma-separated lists."""

    limit: Limit | None = None
    marker: str | None = None
    name: str | None = None
    # The parameter may be repeated; the handler reads all its values from the raw query.
    status: str | None = None
    reservation_id: str | None = None
    image: str | None = None
    flavor: str | None = None
    changes_since: str | None = None
    changes_before: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    power_state: Annotated[int, Meta(ge=0, le=7)] | None = None
    locked: str | None = None
    availability_zone: str | None = None
    key_name: str | None = None
    uuid: str | None = None
    all_tenants: str | None = None
    project_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    host: str | None = None
    deleted: str | None = None
    tags: str | None = None
    tags_any: str | None = None
    not_tags: str | None = None
    not_tags_any: str | None = None
    sort_key: str | None = None
    sort_dir: str | None = None


class MetadataBody(Model):
    """The metadata items to set on a server."""

    metadata: Metadata


class MetadataItemBody(Model):
    """The metadata item to set on a server, under its key."""

    meta: Annotated[dict[MetadataKey, MetadataValue], Meta(min_length=1, max_length=1)]


# The arguments are untyped, because they depend on the action and on the microversion.
ServerAction = cast(
    "type[dict[str, object]]", Annotated[dict[str, object], Meta(min_length=1, max_length=1)]
)
"""Body of POST /servers/{server_id}/action: the arguments under the name of the action."""
