"""Query and response bodies of the Image API."""

from berth.api.codec import Model, View
from berth.api.links import Link
from berth.api.values import Limit


class ImagesQuery(Model):
    """Filters and page of an image list.

    `in:a,b` matches several values of `id`, `name`, `status` and the formats. Every other field or
    property of an image can also be a filter; an image matches if it has the given value.
    """

    id: str | None = None
    name: str | None = None
    visibility: str | None = None
    status: str | None = None
    disk_format: str | None = None
    container_format: str | None = None
    os_hidden: str | None = None
    owner: str | None = None
    tag: str | None = None
    limit: Limit | None = None
    marker: str | None = None
    sort: str | None = None


class ImageVersion(View):
    """A version of the Image API."""

    id: str
    status: str
    links: list[Link]


class ImageVersionsAnswer(View):
    """The response with all versions of the Image API."""

    versions: list[ImageVersion]


class ImageTasksAnswer(View):
    """The response with the tasks of an image."""

    tasks: list[dict[str, object]]


class ImageLimit(View):
    """A limit, and how much of it is used; -1 means no limit."""

    limit: int
    usage: int


class ImageUsageAnswer(View):
    """The response with the limits on images; sizes are in MiB."""

    usage: dict[str, ImageLimit]


class ImagesAnswer(View):
    """The response with the last page of images; `first` is the path of the first page."""

    images: list[dict[str, object]]
    first: str
    schema: str


class ImagesPageAnswer(ImagesAnswer):
    """The response with any other page of images; `next` is the path of the next page."""

    next: str
