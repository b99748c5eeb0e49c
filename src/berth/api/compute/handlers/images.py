"""Handlers of the image proxy, which shows images in the compute API's own form.

Nova passes these requests on to Glance. Microversion 2.36 removes them, and 2.39 those on metadata.
"""

from collections.abc import Iterator, Sequence

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.servers.server_values import is_partitioned
from berth.api.compute.schemas.images import (
    ImageAnswer,
    ImageLine,
    ImageLinesAnswer,
    ImageLink,
    ImageMetadataAnswer,
    ImageMetadataItemAnswer,
    ImagesAnswer,
    ImageServer,
    ImagesQuery,
    ImageView,
)
from berth.api.image_records import ShownImage, image_of, images_of
from berth.api.links import Link, image_link, limit_of, linker_of, next_page, page_of
from berth.api.routing import Answer, Call
from berth.api.values import isotime
from berth.domain.compute.flavor import Image
from berth.domain.compute.server_image import IMAGE_TYPE, ImageStatus, ServerImage
from berth.domain.errors import NotFoundError

_PROPERTY = "property-"
# As in Nova, the progress follows from the status.
_PROGRESS = {"SAVING": 25, "ACTIVE": 100}
_TYPE = "application/vnd.openstack.image"
_DISK_CONFIG = "auto_disk_config"


async def list_images(call: Call) -> Answer:
    """List the id, name and links of the images that match the filters, sorted by name."""
    page, links = await _page(call)
    lines = [
        ImageLine(id=one.image.image_id, name=one.name, links=_links(call, one.image))
        for one in page
    ]
    return Answer(ImageLinesAnswer(images=lines, images_links=links))


async def list_images_in_detail(call: Call) -> Answer:
    """List all fields of the images that match the filters, sorted by name."""
    page, links = await _page(call)
    return Answer(ImagesAnswer(images=[_view(call, one) for one in page], images_links=links))


async def show_image(call: Call) -> Answer:
    """Show an image.

    Raises:
        NotFoundError: the caller sees no such image.
    """
    return Answer(ImageAnswer(image=_view(call, await image_of(call))))


async def list_image_metadata(call: Call) -> Answer:
    """List the properties of an image.

    Raises:
        NotFoundError: the caller sees no such image.
    """
    return Answer(ImageMetadataAnswer(metadata=(await image_of(call)).image.properties))


async def show_image_metadata_item(call: Call) -> Answer:
    """Show one property of an image.

    Raises:
        NotFoundError: the caller sees no such image, or it does not have the property.
    """
    key, properties = call.key("key"), (await image_of(call)).image.properties
    if key not in properties:
        raise NotFoundError("metadata item", key)
    return Answer(ImageMetadataItemAnswer(meta={key: properties[key]}))


async def _page(call: Call) -> tuple[Sequence[ShownImage], tuple[Link, ...] | UnsetType]:
    asked = call.query(ImagesQuery)
    found = [image for image in await images_of(call) if all(_tests(call, asked, image))]
    limit = limit_of(call, asked.limit)
    page = page_of(found, [one.image.image_id for one in found], asked.marker, limit)
    has_more = bool(page) and page[-1] is not found[-1]
    return page, next_page(call, page[-1].image.image_id, limit) if has_more else UNSET


def _tests(call: Call, asked: ImagesQuery, shown: ShownImage) -> Iterator[bool]:
    """Yield whether an image passes each filter."""
    image = shown.image
    yield asked.name is None or asked.name == shown.name
    yield asked.status is None or asked.status.upper() == _status(shown)
    yield asked.kind is None or asked.kind == image.properties.get(IMAGE_TYPE)
    yield asked.min_memory_mb is None or asked.min_memory_mb == str(image.min_memory_mb)
    yield asked.min_disk_gb is None or asked.min_disk_gb == str(image.min_disk_gb)
    for name, value in call.query_items():
        if name.startswith(_PROPERTY):
            yield image.properties.get(name.removeprefix(_PROPERTY)) == value


def _status(shown: ShownImage) -> str:
    """Return the status of an image; as in Nova, one that is not complete is being saved."""
    is_saving = shown.record is not None and shown.record.status is ImageStatus.QUEUED
    return "SAVING" if is_saving else "ACTIVE"


def _links(call: Call, image: Image) -> tuple[ImageLink, ...]:
    linker = linker_of(call)
    own = [ImageLink(rel=one.rel, href=one.href) for one in linker.of("images", image.image_id)]
    href = image_link(call, image.image_id)
    return (*own, ImageLink(rel="alternate", href=href, type=_TYPE))


def _view(call: Call, shown: ShownImage) -> ImageView:
    image, record = shown.image, shown.record
    chosen = "AUTO" if is_partitioned(image) else "MANUAL"
    status = _status(shown)
    return ImageView(
        id=image.image_id,
        name=shown.name,
        links=_links(call, image),
        created=isotime(0.0 if record is None else record.created_at_s),
        updated=isotime(0.0 if record is None else record.updated_at_s),
        status=status,
        progress=_PROGRESS[status],
        size_bytes=0 if record is None else record.size_bytes,
        server=UNSET if record is None else _server(call, record),
        metadata=image.properties,
        min_memory_mb=image.min_memory_mb,
        min_disk_gb=image.min_disk_gb,
        disk_config=chosen if _DISK_CONFIG in image.properties else UNSET,
    )


def _server(call: Call, record: ServerImage) -> ImageServer:
    uuid = record.instance_uuid
    return ImageServer(id=uuid, links=linker_of(call).of("servers", uuid))
