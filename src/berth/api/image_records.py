"""The images that a caller sees: those in the configuration, and those of its project's servers."""

from typing import NamedTuple

from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.compute.flavor import Image
from berth.domain.compute.server_image import ServerImage
from berth.domain.uuids import canonical_uuid


class ShownImage(NamedTuple):
    """An image, with its record if it was made from a server."""

    image: Image
    record: ServerImage | None = None

    @property
    def name(self) -> str:
        """The name of the image, or its id if it has no name."""
        return self.image.name or self.image.image_id


async def images_of(call: Call) -> list[ShownImage]:
    """Return all images that the caller sees, sorted by name and id."""
    found = [ShownImage(one) for one in call.parts.images.values()]
    of_servers = await call.parts.server_images.visible(call.project_id)
    found += [ShownImage(one.image, one) for one in of_servers]
    return sorted(found, key=lambda one: (one.image.name, one.image.image_id))


async def image_of(call: Call) -> ShownImage:
    """Return the image that the path names.

    Raises:
        NotFoundError: the caller sees no such image.
    """
    key = call.key("image_id")
    if (image := call.parts.images.get(key)) is not None:
        return ShownImage(image)
    record = await call.parts.server_images.get(canonical_uuid(key), call.project_id)
    return ShownImage(record.image, record)


async def remove_image(call: Call) -> Answer:
    """Delete the image of a server that the path names.

    Raises:
        NotFoundError: the caller sees no such image.
        HttpError: 403 for an image in the configuration.
        ConflictError: see `ServerImages.delete`.
    """
    key = call.key("image_id")
    if key in call.parts.images:
        reason = "change the file that the setting api.images names"
        raise HttpError(403, f"Image {key} cannot be deleted here; {reason}.")
    await call.parts.server_images.delete(canonical_uuid(key), call.project_id)
    return Answer()
