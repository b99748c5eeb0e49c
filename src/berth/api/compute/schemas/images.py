"""Query and response bodies of the image proxy, which microversion 2.36 removes."""

from collections.abc import Mapping

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.links import Link
from berth.api.values import Limit


class ImagesQuery(
    Model, rename={"min_memory_mb": "minRam", "min_disk_gb": "minDisk", "kind": "type"}
):
    """Filters and page of an image list; parameters `property-...` are read from the raw query."""

    name: str | None = None
    status: str | None = None
    min_memory_mb: str | None = None
    min_disk_gb: str | None = None
    kind: str | None = None
    limit: Limit | None = None
    marker: str | None = None


class ImageLink(Link):
    """A link to an image; the last link leads to the Image API and names its media type."""

    type: str | UnsetType = UNSET


class ImageLine(View):
    """An image in a list without details."""

    id: str
    name: str
    links: tuple[ImageLink, ...]


class ImageServer(View):
    """The server from which an image was made."""

    id: str
    links: tuple[Link, ...]


class ImageView(
    ImageLine,
    rename={
        "min_memory_mb": "minRam",
        "min_disk_gb": "minDisk",
        "size_bytes": "OS-EXT-IMG-SIZE:size",
        "disk_config": "OS-DCF:diskConfig",
    },
):
    """An image with all fields."""

    metadata: Mapping[str, str]
    min_memory_mb: int
    min_disk_gb: int
    # The configuration of images has neither times nor sizes, so both are 0 there.
    created: str
    updated: str
    status: str
    progress: int
    size_bytes: int
    server: ImageServer | UnsetType = UNSET
    disk_config: str | UnsetType = UNSET


class ImageAnswer(View):
    """The response with one image."""

    image: ImageView


class ImageLinesAnswer(View):
    """The response with a page of images without details."""

    images: list[ImageLine]
    images_links: tuple[Link, ...] | UnsetType = UNSET


class ImagesAnswer(View):
    """The response with a page of images with all fields."""

    images: list[ImageView]
    images_links: tuple[Link, ...] | UnsetType = UNSET


class ImageMetadataAnswer(View):
    """The response with the properties of an image."""

    metadata: Mapping[str, str]


class ImageMetadataItemAnswer(View):
    """The response with one property of an image."""

    meta: Mapping[str, str]
