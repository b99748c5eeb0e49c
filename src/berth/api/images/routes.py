"""The operations of the Image API, also at the paths where compute clients expect images."""

from berth.api.image_records import remove_image
from berth.api.images import handlers
from berth.api.images.handlers import PREFIX
from berth.api.images.schemas import (
    ImagesAnswer,
    ImagesQuery,
    ImageTasksAnswer,
    ImageUsageAnswer,
    ImageVersionsAnswer,
)
from berth.api.routing import ApiOperation, Role

__all__ = ["MIRRORED", "OPERATIONS", "PREFIX"]

_V2 = "/image/v2"
_IMAGE = "/{image_id}"
_JSON = dict[str, object]


def _reading(images: str) -> tuple[ApiOperation, ...]:
    """Return the operations that list the images at a path and show one of them under it."""
    return (
        ApiOperation("GET", images, handlers.list_images, query=ImagesQuery, answers=ImagesAnswer),
        ApiOperation("GET", images + _IMAGE, handlers.show_image, answers=_JSON),
    )


def _refusing(images: str) -> tuple[ApiOperation, ...]:
    """Return the operations that create, change or download images, which are all refused."""
    change = handlers.refuse_image_change
    return (
        ApiOperation("POST", images, change, 403),
        ApiOperation("PATCH", images + _IMAGE, change, 403),
        ApiOperation("GET", images + _IMAGE + "/file", handlers.show_image_data, 403),
        ApiOperation("PUT", images + _IMAGE + "/file", change, 403),
    )


# As in Glance, the list of versions at the root has the status 300.
_VERSIONS = tuple(
    ApiOperation(
        "GET",
        path,
        handlers.list_image_versions,
        status,
        role=Role.PUBLIC,
        answers=ImageVersionsAnswer,
    )
    for path, status in ((PREFIX, 300), (f"{PREFIX}/", 300), (_V2, 200), (f"{_V2}/", 200))
)

OPERATIONS = (
    *_VERSIONS,
    *_reading(f"{_V2}/images"),
    ApiOperation("DELETE", f"{_V2}/images{_IMAGE}", remove_image, 204),
    ApiOperation(
        "GET",
        f"{_V2}/images{_IMAGE}/tasks",
        handlers.list_image_tasks,
        answers=ImageTasksAnswer,
    ),
    *_refusing(f"{_V2}/images"),
    ApiOperation("GET", f"{_V2}/info/usage", handlers.show_image_usage, answers=ImageUsageAnswer),
    ApiOperation("GET", f"{_V2}/schemas/image", handlers.show_image_schema, answers=_JSON),
    ApiOperation("GET", f"{_V2}/schemas/images", handlers.show_images_schema, answers=_JSON),
)

MIRRORED = _reading("/v2.1/v2/images")
"""The operations that read images, where novaclient looks for them: under the compute API's URL."""
