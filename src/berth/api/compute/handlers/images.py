"""Handlers of the image proxy: the images in the configuration, in the compute API's own form.

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
    ImagesQuery,
    ImageView,
)
from berth.api.errors import HttpError
from berth.api.links import Link, limit_of, linker_of, next_page, page_of, quoted
from berth.api.routing import Answer, Call
from berth.domain.compute.flavor import Image
from berth.domain.errors import NotFoundError

_PROPERTY = "property-"
_ACTIVE = "active"
_TYPE = "application/vnd.openstack.image"
_DISK_CONFIG = "auto_disk_config"


async def list_images(call: Call) -> Answer:
    """List the id, name and links of the images that match the filters, sorted by name."""
    page, links = _page(call)
    lines = [ImageLine(id=one.image_id, name=_name(one), links=_links(call, one)) for one in page]
    return Answer(ImageLinesAnswer(images=lines, images_links=links))


async def list_images_in_detail(call: Call) -> Answer:
    """List all fields of the images that match the filters, sorted by name."""
    page, links = _page(call)
    return Answer(ImagesAnswer(images=[_view(call, one) for one in page], images_links=links))


async def show_image(call: Call) -> Answer:
    """Show an image.

    Raises:
        NotFoundError: there is no such image.
    """
    return Answer(ImageAnswer(image=_view(call, _image(call))))


async def refuse_to_delete(call: Call) -> Answer:
    """Refuse to delete an image.

    Raises:
        NotFoundError: there is no such image.
        HttpError: 403 otherwise.
    """
    key = _image(call).image_id
    raise HttpError(
        403, f"Image {key} cannot be deleted here; change the file that api.images names."
    )


async def list_image_metadata(call: Call) -> Answer:
    """List the properties of an image.

    Raises:
        NotFoundError: there is no such image.
    """
    return Answer(ImageMetadataAnswer(metadata=_image(call).properties))


async def show_image_metadata_item(call: Call) -> Answer:
    """Show one property of an image.

    Raises:
        NotFoundError: there is no such image, or it does not have the property.
    """
    key, properties = call.key("key"), _image(call).properties
    if key not in properties:
        raise NotFoundError("metadata item", key)
    return Answer(ImageMetadataItemAnswer(meta={key: properties[key]}))


def _image(call: Call) -> Image:
    key = call.key("image_id")
    image = call.parts.images.get(key)
    if image is None:
        raise NotFoundError("image", key)
    return image


def _page(call: Call) -> tuple[Sequence[Image], tuple[Link, ...] | UnsetType]:
    asked = call.query(ImagesQuery)
    images = sorted(call.parts.images.values(), key=lambda image: (image.name, image.image_id))
    found = [image for image in images if all(_tests(call, asked, image))]
    limit = limit_of(call, asked.limit)
    page = page_of(found, [image.image_id for image in found], asked.marker, limit)
    has_more = bool(page) and page[-1] is not found[-1]
    return page, next_page(call, page[-1].image_id, limit) if has_more else UNSET


def _tests(call: Call, asked: ImagesQuery, image: Image) -> Iterator[bool]:
    """Yield whether an image passes each filter; all images are active."""
    yield asked.name is None or asked.name == _name(image)
    yield asked.status is None or asked.status.lower() == _ACTIVE
    yield asked.min_memory_mb is None or asked.min_memory_mb == str(image.min_memory_mb)
    yield asked.min_disk_gb is None or asked.min_disk_gb == str(image.min_disk_gb)
    for name, value in call.query_items():
        if name.startswith(_PROPERTY):
            yield image.properties.get(name.removeprefix(_PROPERTY)) == value


def _name(image: Image) -> str:
    return image.name or image.image_id


def _links(call: Call, image: Image) -> tuple[ImageLink, ...]:
    linker = linker_of(call)
    own = [ImageLink(rel=one.rel, href=one.href) for one in linker.of("images", image.image_id)]
    href = f"{linker.root}/image/v2/images/{quoted(image.image_id)}"
    return (*own, ImageLink(rel="alternate", href=href, type=_TYPE))


def _view(call: Call, image: Image) -> ImageView:
    chosen = "AUTO" if is_partitioned(image) else "MANUAL"
    return ImageView(
        id=image.image_id,
        name=_name(image),
        links=_links(call, image),
        metadata=image.properties,
        min_memory_mb=image.min_memory_mb,
        min_disk_gb=image.min_disk_gb,
        disk_config=chosen if _DISK_CONFIG in image.properties else UNSET,
    )
