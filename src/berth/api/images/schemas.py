"""Images as clients of the Image API see them."""

from berth.api.codec import Model, View
from berth.api.links import Link
from berth.api.values import Limit


class ImagesQuery(Model):
    """Which images to list: `id` and `name` may be `in:` and several, joined by commas.

    Any other field of an image may be named, too, and must have that value.
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
    """One version of the API."""

    id: str
    status: str
    links: list[Link]


class ImageVersionsAnswer(View):
    """All versions of the API."""

    versions: list[ImageVersion]


class ImagesAnswer(View):
    """Images by name; `next` is the path of the next page."""

    images: list[dict[str, object]]
    first: str
    schema: str


class ImagesPageAnswer(ImagesAnswer):
    """A page that others follow."""

    next: str
