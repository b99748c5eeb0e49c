"""Images of servers: the copies of root disks that `createImage` and `createBackup` make.

The record is in the ledger; the data is in the storage that hosts share, under the image's id
(docs/adr/0039-images-of-servers.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Task
from berth.domain.errors import InvalidInputError
from berth.domain.open_name import OpenName

IMAGE_TASKS: Final = frozenset({Task.IMAGE_SNAPSHOT, Task.IMAGE_BACKUP})
"""The tasks during which an agent makes an image."""

IMAGE_TYPE: Final = "image_type"
"""The property that says how an image was made."""
SNAPSHOT: Final = "snapshot"
BACKUP: Final = "backup"
# Nova's `non_inheritable_image_properties`, and those that belong to the data of one image.
_NOT_INHERITED: Final = frozenset(
    {
        "cache_in_nova",
        "bittorrent",
        "img_signature",
        "img_signature_certificate_uuid",
        "img_signature_hash_method",
        "img_signature_key_type",
        "backup_type",
    }
)
# The key in `Instance.extra` of the id of the image that is being made.
_IN_PROGRESS: Final = "new_image"
_BYTES_MAX: Final = 2**63 - 1

DELETED_KEPT_S: Final = 30 * 86_400.0
"""The record of a deleted image is kept for this many seconds, even if its data is gone."""
UNCLEARED_KEPT_S: Final = 365 * 86_400.0
"""It is kept for this many seconds while no host has reported that the data is gone."""


@dataclass(frozen=True, slots=True)
class ImageSize:
    """The size of an image's data in the storage, and of the disk as a guest sees it, in bytes."""

    size_bytes: int
    virtual_bytes: int

    def __post_init__(self) -> None:
        """Reject sizes outside 0 to 2**63 - 1; they come from hosts.

        Raises:
            InvalidInputError: a size is out of range; the error names the field.
        """
        for name in ("size_bytes", "virtual_bytes"):
            value = getattr(self, name)
            if not 0 <= value <= _BYTES_MAX:
                raise InvalidInputError(name, f"{value} must be between 0 and {_BYTES_MAX}")


class ImageStatus(OpenName):
    """The status of an image of a server, as the Image API names it."""

    QUEUED = "queued"
    """The agent of the server's host has yet to complete the image."""
    ACTIVE = "active"
    DELETED = "deleted"
    """The image is gone, and its data may be deleted from the storage."""


@dataclass(frozen=True, slots=True)
class ServerImage:
    """An image of a server's root disk, which the project that requested it can boot.

    `project_id` is the only project that sees the image, and `user_id` the user that requested it.
    `min_memory_mb` (MiB) and `min_disk_gb` (GiB) are those of `Image`. `size_bytes` is the size of
    the data in the storage, and `virtual_bytes` that of the disk; both are 0 until the image is
    active. `rotation` is the number of backups of the same type that may exist after this one; None
    if the image is not a backup. A deleted image is cleared (`is_cleared`) once a host has reported
    that nothing of it remains in the storage. Times are Unix seconds.
    """

    image_id: str
    name: str
    project_id: str
    user_id: str
    instance_uuid: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    min_memory_mb: int = 0
    min_disk_gb: int = 0
    status: ImageStatus = ImageStatus.QUEUED
    size_bytes: int = 0
    virtual_bytes: int = 0
    backup_type: str = ""
    rotation: int | None = None
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    is_cleared: bool = False

    @property
    def image(self) -> Image:
        """The image from which servers boot."""
        return Image(
            self.image_id, self.name, self.properties, self.min_memory_mb, self.min_disk_gb
        )


def image_in_progress(instance: Instance) -> str:
    """Return the id of the image that an agent is making from an instance; empty if none."""
    named = instance.extra.get(_IN_PROGRESS)
    return named if instance.task in IMAGE_TASKS and isinstance(named, str) else ""


def with_image_in_progress(instance: Instance, image_id: str) -> Mapping[str, object]:
    """Return an instance's `extra` with the id of the image that is made next; empty for none."""
    rest = {key: value for key, value in instance.extra.items() if key != _IN_PROGRESS}
    return {**rest, _IN_PROGRESS: image_id} if image_id else rest


def of_instance(image: ServerImage, instance: Instance, now_s: float) -> ServerImage:
    """Return the record of a new image of an instance.

    As in Nova, the image inherits the properties of the image from which the instance was created,
    and the caller's properties take precedence over all others. Its `min_disk_gb` is at least the
    flavor's root disk.

    Args:
        image: the record, with the caller's properties.
        instance: the instance.
        now_s: Unix seconds.
    """
    base = Image("") if instance.image is None else instance.image
    inherited = {key: one for key, one in base.properties.items() if key not in _NOT_INHERITED}
    properties = {
        **inherited,
        "base_image_ref": base.image_id,
        "instance_uuid": instance.uuid,
        "user_id": image.user_id,
        "owner_id": instance.project_id,
        "image_location": SNAPSHOT,
        "image_state": "available",
        IMAGE_TYPE: SNAPSHOT if image.rotation is None else BACKUP,
        **({} if image.rotation is None else {"backup_type": image.backup_type}),
        **image.properties,
    }
    return replace(
        image,
        properties=properties,
        min_memory_mb=base.min_memory_mb,
        min_disk_gb=max(base.min_disk_gb, instance.flavor.root_gb),
        created_at_s=now_s,
        updated_at_s=now_s,
    )


def deleted(image: ServerImage, now_s: float, *, is_cleared: bool = False) -> ServerImage:
    """Return the record of a deleted image; see `is_forgotten` for how long it is kept.

    Without it, a host that has data of an image could not tell a deleted image from one that its
    ledger has never known, for example because another deployment uses the same storage.

    Args:
        image: the image's record.
        now_s: Unix seconds.
        is_cleared: whether a host has reported that nothing of the image is in the storage.
    """
    return replace(image, status=ImageStatus.DELETED, updated_at_s=now_s, is_cleared=is_cleared)


def is_forgotten(image: ServerImage, now_s: float) -> bool:
    """Return whether the record of a deleted image has been kept long enough.

    Until a host has reported that the data is gone, the storage may be unavailable and come back
    with the data, so the record is kept for much longer then.
    """
    kept_s = DELETED_KEPT_S if image.is_cleared else UNCLEARED_KEPT_S
    return image.status is ImageStatus.DELETED and now_s - image.updated_at_s > kept_s


def excess_backups(image: ServerImage, others: list[ServerImage]) -> list[ServerImage]:
    """Return the backups to delete now that a backup is complete, oldest first.

    As in Nova, the backups of the server with the same type count, whatever their names; but those
    of another project, such as an administrator's, do not.

    Args:
        image: the new backup, which may itself be in excess if its rotation is 0.
        others: other images.
    """
    if image.rotation is None:
        return []
    alike = [
        one
        for one in others
        if one.instance_uuid == image.instance_uuid
        and one.project_id == image.project_id
        and one.rotation is not None
        and one.backup_type == image.backup_type
        and one.status is ImageStatus.ACTIVE
        and one.image_id != image.image_id
    ]
    alike.sort(key=lambda one: (one.created_at_s, one.image_id))
    alike.append(image)
    return alike[: max(0, len(alike) - image.rotation)]
