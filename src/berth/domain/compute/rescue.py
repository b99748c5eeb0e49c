"""Rescue: a guest that boots from another image, with its own disks attached.

The instance's record determines the boot disk, so every start of the guest, even after a crash of
the guest or its host, agrees with the instance's status
(docs/adr/0037-rescued-and-soft-deleted-servers.md).
"""

from collections.abc import Mapping
from typing import Final

from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status, Task

# The key in `Instance.extra` of the rescue image's id; absent if it is the instance's own image.
_IMAGE: Final = "rescue_image"


def rescue_image_of(instance: Instance) -> str:
    """Return the id of the image from which the guest of a rescued instance boots.

    The result is empty if the guest boots from its own disks, because the instance is neither
    rescued nor being rescued.
    """
    is_rescued = instance.status is Status.RESCUED and instance.task is not Task.UNRESCUING
    if not is_rescued and instance.task is not Task.RESCUING:
        return ""
    named = instance.extra.get(_IMAGE)
    if isinstance(named, str):
        return named
    return "" if instance.image is None else instance.image.image_id


def with_rescue_image(instance: Instance, image: Image | None) -> Mapping[str, object]:
    """Return an instance's `extra` with a rescue image; None stands for its own image."""
    rest = {key: value for key, value in instance.extra.items() if key != _IMAGE}
    return rest if image is None else {**rest, _IMAGE: image.image_id}
