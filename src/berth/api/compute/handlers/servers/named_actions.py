"""Translates actions that name a flavor or an image, for the zone that has the server.

Each zone has its own flavors and images, so one id may mean different things in two zones. The zone
that receives the tenant's request replaces the id with the whole flavor or image, as it does for
builds, and the zone with the server uses that. A zone accepts such actions from parents only.
"""

from typing import Final, TypeVar, cast

import msgspec

from berth.api.codec import encode
from berth.api.compute.handlers.servers.action_arguments import read
from berth.api.compute.handlers.servers.server_keys import STATED_KEY, key_called, stated_key
from berth.api.compute.handlers.servers.server_orders import image_called
from berth.api.compute.offers.orders import FLAVOR_ID, NAME, check_form
from berth.api.compute.schemas.server_actions import Rebuild, Rescue, Resize
from berth.api.compute.schemas.servers import ServerAction
from berth.api.errors import HttpError
from berth.api.routing import Call
from berth.domain.compute import lifecycle
from berth.domain.compute.flavor import (
    Flavor,
    Image,
    check_received_flavor,
    check_received_image,
)
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.services.zoning.children.host_names_in_requests import host_naming_field

T = TypeVar("T")

_RESIZE: Final = "resize"
_REBUILD: Final = "rebuild"
_RESCUE: Final = "rescue"
_RESCUE_IMAGE: Final = "rescue_image_ref"
_FLAVOR: Final = "flavor"
_IMAGE: Final = "image"


async def flavor_called(call: Call, args: object) -> Flavor:
    """Return the flavor of this zone that the arguments of `resize` name.

    Raises:
        InvalidInputError: the flavor does not exist, or it is private and the caller has no
            access; or the arguments are malformed.
    """
    key = str(read(args, Resize, _RESIZE).flavor_ref)
    try:
        flavor = await call.parts.flavors.get(key)
    except NotFoundError:
        flavor = None
    # A private flavor is refused like a missing one, so that the response does not reveal that it
    # exists.
    if flavor is None or not await call.parts.flavors.may_use(flavor, call.project_id):
        raise InvalidInputError("resize.flavorRef", f"flavor {key[:80]!r} could not be found")
    return flavor


async def resized_to(call: Call) -> Flavor | None:
    """Return the new flavor if a request resizes a server in a child zone, otherwise None.

    Raises:
        InvalidInputError: as in `flavor_called` or, in a parent's request, as in `stated_flavor`.
    """
    name, args = _action(call)
    if name != _RESIZE:
        return None
    return await flavor_called(call, args) if call.identity.parent is None else stated_flavor(args)


def action_asked(call: Call) -> str | None:
    """Return the name of the requested action, or None if the request is not for an action."""
    return _action(call)[0]


def _action(call: Call) -> tuple[str | None, object]:
    if call.operation.body is not ServerAction:
        return None, None
    ((name, args),) = call.body(ServerAction).items()
    return name, args


def stated_flavor(args: object) -> Flavor:
    """Return the new flavor in a parent's `resize`.

    Raises:
        InvalidInputError: the arguments contain no valid flavor or are malformed, or the flavor
            exceeds the limits that apply to clients or selects hosts by an attribute that names
            them.
    """
    flavor, rest = _stated(args, _FLAVOR, Flavor, _RESIZE)
    check_received_flavor(flavor)
    # The other arguments are validated with the schema for tenants, which requires `flavorRef`.
    read({**rest, "flavorRef": flavor.flavor_id or "-"}, Resize, _RESIZE)
    check_form(FLAVOR_ID, flavor.flavor_id or "-", "resize.flavor.flavor_id")
    _check_names_no_hosts(flavor, "resize.flavor")
    return flavor


def stated_image(args: object) -> tuple[Image, dict[str, object]]:
    """Return the image in a parent's `rebuild`, and the arguments with its id as `imageRef`.

    Raises:
        InvalidInputError: the arguments contain no valid image, or the image exceeds the limits
            that apply to clients.
    """
    image, rest = _stated(args, _IMAGE, Image, _REBUILD)
    check_received_image(image)
    check_form(NAME, image.image_id, "rebuild.image.image_id")
    return image, {**rest, "imageRef": image.image_id}


def stated_rescue_image(args: object) -> tuple[Image | None, object]:
    """Return the image in a parent's `rescue`, and the arguments with the image's id.

    The image is None if the arguments name none; the server then boots from its own image.

    Raises:
        InvalidInputError: the arguments contain the id of an image without the image, or the image
            is invalid or exceeds the limits that apply to clients.
    """
    if not {_IMAGE, _RESCUE_IMAGE} & _names(args):
        return None, args
    image, rest = _stated(args, _IMAGE, Image, _RESCUE)
    check_received_image(image)
    check_form(NAME, image.image_id, "rescue.image.image_id")
    return image, {**rest, _RESCUE_IMAGE: image.image_id}


async def body_below(call: Call) -> bytes:
    """Return the request's body for the child that has the server.

    Raises:
        InvalidInputError: the arguments are malformed; the flavor or image does not exist, or the
            flavor is private and the caller has no access; or the flavor selects hosts by
            an attribute that names them.
        HttpError: 501 if the action makes an image.
    """
    name, args = _action(call)
    if name is None:
        return call.raw_body
    if name in {lifecycle.CREATE_IMAGE.action, lifecycle.CREATE_BACKUP.action}:
        # The image would be in the child's storage, and no zone above could show or boot it.
        raise HttpError(501, f"The action {name} is not supported for servers in child zones.")
    # A parent has already replaced the id. This zone checks the body as well, so that it forwards
    # nothing that it would refuse for its own servers.
    if call.identity.parent is not None:
        if name == _RESIZE:
            stated_flavor(args)
        elif name == _REBUILD:
            stated_key(stated_image(args)[1])
        elif name == _RESCUE:
            stated_rescue_image(args)
        return call.raw_body
    if name == _RESIZE:
        flavor = await flavor_called(call, args)
        _check_names_no_hosts(flavor, "resize.flavorRef")
        return _body(name, args, "flavorRef", _FLAVOR, flavor)
    if name == _REBUILD:
        arguments = read(args, Rebuild, name)
        image = await image_called(call, arguments.image_ref, "rebuild.imageRef")
        if isinstance(arguments.key_name, str):
            key = await key_called(call, arguments.key_name, "rebuild.key_name")
            args = {**cast("dict[str, object]", args), STATED_KEY: key}
        return _body(name, args, "imageRef", _IMAGE, image)
    if name == _RESCUE and args is not None:
        named = read(args, Rescue, name).rescue_image_ref
        if isinstance(named, str):
            image = await image_called(call, named, "rescue.rescue_image_ref")
            return _body(name, args, _RESCUE_IMAGE, _IMAGE, image)
    return call.raw_body


def _body(name: str, args: object, named: str, field: str, meant: object) -> bytes:
    """Return an action's body, in which `field` with the value `meant` replaces `named`."""
    rest = {key: one for key, one in cast("dict[str, object]", args).items() if key != named}
    return encode({name: {**rest, field: meant}})


def _names(args: object) -> set[str]:
    """Return the names of the arguments; empty if the arguments are not an object."""
    return set(cast("dict[str, object]", args)) if isinstance(args, dict) else set()


def _stated(args: object, field: str, kind: type[T], action: str) -> tuple[T, dict[str, object]]:
    """Return the object in a field of a parent's action, and the other arguments.

    Raises:
        InvalidInputError: the field is missing or malformed.
    """
    if not isinstance(args, dict) or field not in args:
        reason = f"is required from parent zones, as a whole {field}; an id is not enough"
        raise InvalidInputError(f"{action}.{field}", reason)
    rest = dict(cast("dict[str, object]", args))
    try:
        found = msgspec.convert(rest.pop(field), kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{action}.{field}", str(error)) from error
    return found, rest


def _check_names_no_hosts(flavor: Flavor, field: str) -> None:
    # The outcome of the resize would reveal whether the child has a host with that name.
    request = Request("-", ("-",), flavor, project_id="", user_id="")
    if host_naming_field(request) is not None:
        reason = "must not select the hosts of a child zone by name, address or uuid"
        raise InvalidInputError(field, reason)
