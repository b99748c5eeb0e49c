"""Arguments of server actions, and request and response bodies for tags."""

from typing import Annotated, Literal

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.compute.schemas.servers import (
    ITEMS_MAX,
    Description,
    DiskConfig,
    File,
    Metadata,
    ShortText,
    Tag,
)
from berth.api.values import Flag, Text


class TagsBody(Model):
    """Body of PUT /servers/{server_id}/tags: the tags that replace all tags of the server."""

    tags: Annotated[list[Tag], Meta(max_length=50)]


class TagsAnswer(View):
    """The response with all tags of a server."""

    tags: list[str]


class Reboot(Model):
    """Arguments of `reboot`."""

    # Nova's schema accepts exactly these spellings.
    type: Literal["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]


class CreateImage(Model):
    """Arguments of `createImage`."""

    name: Name
    metadata: Metadata | UnsetType = UNSET


class CreateBackup(Model):
    """Arguments of `createBackup`: the image's name, its type, and how many of the type to keep."""

    name: Name
    backup_type: ShortText
    rotation: Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern="^[0-9]{1,10}$")]
    metadata: Metadata | UnsetType = UNSET


class ImageIdAnswer(View):
    """The response to `createImage` and `createBackup` from microversion 2.45 on."""

    image_id: str


class Resize(Model, rename={"flavor_ref": "flavorRef", "disk_config": "OS-DCF:diskConfig"}):
    """Arguments of `resize`."""

    flavor_ref: Annotated[str, Meta(min_length=1, max_length=255)] | int
    disk_config: DiskConfig | UnsetType = UNSET


class Migrate(Model):
    """Arguments of `migrate`, from microversion 2.56 on."""

    host: Name | UnsetType | None = UNSET


class MigrateLive(Model):
    """Arguments of `os-migrateLive`."""

    host: Name | None
    block_migration: Flag
    disk_over_commit: Flag | UnsetType = UNSET
    force: Flag | UnsetType = UNSET


class Evacuate(Model, rename={"admin_pass": "adminPass", "on_shared_storage": "onSharedStorage"}):
    """Arguments of `evacuate`."""

    host: Name | UnsetType = UNSET
    admin_pass: ShortText | UnsetType = UNSET
    on_shared_storage: Flag | UnsetType = UNSET
    force: Flag | UnsetType = UNSET


class Rebuild(
    Model,
    rename={
        "image_ref": "imageRef",
        "admin_pass": "adminPass",
        "disk_config": "OS-DCF:diskConfig",
        "access_ipv4": "accessIPv4",
        "access_ipv6": "accessIPv6",
    },
):
    """Arguments of `rebuild`."""

    image_ref: Annotated[str, Meta(min_length=1, max_length=255)]
    name: Name | UnsetType = UNSET
    admin_pass: ShortText | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    key_name: Name | UnsetType | None = UNSET
    user_data: Text | UnsetType | None = UNSET
    hostname: Name | UnsetType = UNSET
    trusted_image_certificates: list[ShortText] | UnsetType | None = UNSET
    preserve_ephemeral: Flag | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = UNSET
    personality: Annotated[list[File], Meta(max_length=ITEMS_MAX)] | UnsetType = UNSET
    access_ipv4: ShortText | UnsetType = UNSET
    access_ipv6: ShortText | UnsetType = UNSET


class Rescue(Model, rename={"admin_pass": "adminPass"}):
    """Arguments of `rescue`."""

    admin_pass: ShortText | UnsetType = UNSET
    rescue_image_ref: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET


class Unshelve(Model):
    """Arguments of `unshelve` from microversion 2.77 on; 2.91 adds `host` and allows null."""

    availability_zone: ShortText | UnsetType | None = UNSET
    host: ShortText | UnsetType = UNSET


class Lock(Model):
    """Arguments of `lock`, from microversion 2.73 on."""

    locked_reason: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET


class ResetState(Model):
    """Arguments of `os-resetState`."""

    state: Literal["active", "error"]
