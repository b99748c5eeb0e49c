"""Handlers that list, show and delete images."""

from urllib.parse import urlencode

from berth.api.errors import HttpError
from berth.api.header_fields import root_url
from berth.api.image_records import ShownImage, image_of, images_of
from berth.api.images.schemas import (
    ImageLimit,
    ImagesAnswer,
    ImagesPageAnswer,
    ImagesQuery,
    ImageTasksAnswer,
    ImageUsageAnswer,
    ImageVersion,
    ImageVersionsAnswer,
)
from berth.api.links import Link, limit_of, page_of, quoted
from berth.api.routing import Answer, Call
from berth.api.values import isotime
from berth.domain.compute.flavor import Image
from berth.domain.compute.quota import UNLIMITED

PREFIX = "/image"

_PATH = "/v2/images"
_SCHEMA = "/v2/schemas/image"
_SCHEMAS = "/v2/schemas/images"
# Parameters that do not filter by a field. Sorting is accepted and ignored: lists are sorted by
# name.
_NOT_FIELDS = frozenset({"limit", "marker", "sort", "sort_key", "sort_dir", "member_status"})
_ANY = ("visibility", "all")
# Fields whose filter may list several values after `in:`, as in Glance.
_SEVERAL = frozenset({"id", "name", "status", "disk_format", "container_format"})
_IN = "in:"
_MB_PER_GB = 1024

View = dict[str, object]


async def list_image_versions(call: Call) -> Answer:
    """List the versions of the Image API."""
    link = Link(rel="self", href=f"{root_url(call.scope)}{PREFIX}/v2/")
    version = ImageVersion(id="v2.9", status="CURRENT", links=[link])
    return Answer(ImageVersionsAnswer(versions=[version]))


async def list_images(call: Call) -> Answer:
    """List the images that match the filters, sorted by name.

    Raises:
        InvalidInputError: no item has the marker as its key.
    """
    asked = call.query(ImagesQuery)
    views = [view for view in map(_view, await images_of(call)) if _is_wanted(call, view)]
    limit = limit_of(call, asked.limit)
    # As in Glance, the links are paths, and repeat the filters of the request.
    page = page_of(views, [str(view["id"]) for view in views], asked.marker, limit)
    items = [one for one in call.query_items() if one[0] not in {"marker", "limit"}]
    first = _pathed(items)
    if not page or page[-1] is views[-1]:
        return Answer(ImagesAnswer(images=list(page), first=first, schema=_SCHEMAS))
    after = _pathed([*items, ("limit", str(limit)), ("marker", str(page[-1]["id"]))])
    return Answer(ImagesPageAnswer(images=list(page), first=first, schema=_SCHEMAS, next=after))


async def show_image(call: Call) -> Answer:
    """Show an image.

    Raises:
        NotFoundError: the caller sees no such image.
    """
    return Answer(_view(await image_of(call)))


async def show_image_data(call: Call) -> Answer:
    """Refuse to send the data of an image.

    Raises:
        HttpError: 403 always.
    """
    raise HttpError(
        403, f"The data of image {call.key('image_id')} cannot be downloaded through this API."
    )


async def list_image_tasks(call: Call) -> Answer:
    """List the tasks that import data into an image, of which there are none.

    Raises:
        NotFoundError: the caller sees no such image.
    """
    await image_of(call)
    return Answer(ImageTasksAnswer(tasks=[]))


async def show_image_usage(call: Call) -> Answer:
    """Show the limits of the caller's project on images, and their usage, in Glance's units."""
    project_id, images = call.identity.project_id, call.parts.server_images
    limits, used = images.limits(project_id), await images.usage(project_id)
    size_mb = limits.image_gb if limits.image_gb == UNLIMITED else limits.image_gb * _MB_PER_GB
    return Answer(
        ImageUsageAnswer(
            usage={
                "image_size_total": ImageLimit(limit=size_mb, usage=used.size_mb),
                "image_count_total": ImageLimit(limit=limits.images, usage=used.images),
                "image_stage_total": ImageLimit(limit=UNLIMITED, usage=0),
                "image_count_uploading": ImageLimit(limit=UNLIMITED, usage=used.queued),
            }
        )
    )


async def refuse_image_change(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """Refuse to create or change an image.

    Raises:
        HttpError: 403 always.
    """
    raise HttpError(
        403,
        "This API cannot change images. Create images of servers with the action createImage, and "
        "all others in the file that the setting api.images names.",
    )


async def show_image_schema(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """Show the JSON schema of an image."""
    return Answer(_schema())


async def show_images_schema(call: Call) -> Answer:  # noqa: ARG001 - every handler takes a call
    """Show the JSON schema of a list of images."""
    text = {"type": "string"}
    images = {"type": "array", "items": _schema()}
    properties = {"images": images, "first": text, "next": text, "schema": text}
    return Answer({"name": "images", "properties": properties})


def _view(shown: ShownImage) -> View:
    """Return an image with its properties and its own fields, which take precedence."""
    image, record = shown.image, shown.record
    # A property may replace only the two defaults that precede the properties.
    return {
        "disk_format": "raw" if record is None else "qcow2",
        "container_format": "bare",
        **image.properties,
        "id": image.image_id,
        "name": shown.name,
        "status": "active" if record is None else record.status.value,
        "visibility": "public" if record is None else "private",
        "protected": record is None,
        "os_hidden": False,
        "owner": None if record is None else record.project_id,
        "tags": [],
        "min_ram": image.min_memory_mb,
        "min_disk": image.min_disk_gb,
        "size": None if record is None else record.size_bytes or None,
        "virtual_size": None if record is None else record.virtual_bytes or None,
        "checksum": None,
        "self": f"{_PATH}/{quoted(image.image_id)}",
        "file": f"{_PATH}/{quoted(image.image_id)}/file",
        "schema": _SCHEMA,
        # The configuration has no times.
        "created_at": isotime(0.0 if record is None else record.created_at_s),
        "updated_at": isotime(0.0 if record is None else record.updated_at_s),
    }


def _is_wanted(call: Call, view: View) -> bool:
    return all(
        _has(view, name, value)
        for name, value in call.query_items()
        if name not in _NOT_FIELDS and (name, value) != _ANY
    )


def _has(view: View, name: str, value: str) -> bool:
    if name == "tag":
        return False  # images have no tags
    if name not in view:
        return False
    has = view[name]
    # Booleans are `true` in JSON, but Python clients send `True` in the query.
    if isinstance(has, bool):
        return value.lower() == str(has).lower()
    if name in _SEVERAL and value.startswith(_IN):
        return str(has) in {one.strip('"') for one in value.removeprefix(_IN).split(",")}
    return str(has) == value


def _pathed(items: list[tuple[str, str]]) -> str:
    query = urlencode(items)
    return f"{_PATH}?{query}" if query else _PATH


def _schema() -> View:
    """Return the JSON schema of an image: its own fields, and properties as strings."""
    kinds: dict[type, object] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        list: {"type": "array", "items": {"type": "string"}},
        type(None): {"type": ["null", "string", "integer"]},
    }
    # The schema is derived from an example, so that it cannot differ from the response.
    known = _view(ShownImage(Image("id")))
    properties = {name: kinds[type(value)] for name, value in known.items()}
    return {"name": "image", "properties": properties, "additionalProperties": {"type": "string"}}
