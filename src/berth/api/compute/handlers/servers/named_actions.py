"""Actions that name a flavor or an image, passed on to the zone that has the server.

Each zone has flavors and images of its own, and one name may mean another thing in each. So the
zone that a tenant has asked says what it means by the name, as it does when it has servers built,
and the one that has the server takes what it is told. It believes that of a parent alone.
"""

import re
from typing import Final, TypeVar, cast

import msgspec

from berth.api.codec import encode
from berth.api.compute.handlers.servers.action_arguments import read
from berth.api.compute.handlers.servers.server_orders import image_called
from berth.api.compute.offers.orders import FLAVOR_ID, NAME
from berth.api.compute.schemas.server_actions import Rebuild, Resize
from berth.api.compute.schemas.servers import ServerAction
from berth.api.routing import Call
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.services.zoning.children.host_names_in_requests import host_naming_field

T = TypeVar("T")

_RESIZE: Final = "resize"
_REBUILD: Final = "rebuild"
_FLAVOR: Final = "flavor"
_IMAGE: Final = "image"


async def flavor_called(call: Call, args: object) -> Flavor:
    """Return the flavor of this zone that the arguments of `resize` name.

    Raises:
        InvalidInputError: there is none that the caller may use.
    """
    key = str(read(args, Resize, _RESIZE).flavor_ref)
    try:
        flavor = await call.parts.flavors.get(key)
    except NotFoundError:
        flavor = None
    if flavor is None or not (flavor.is_public or call.identity.is_admin):
        raise InvalidInputError("resize.flavorRef", f"flavor {key[:80]!r} could not be found")
    return flavor


async def resized_to(call: Call) -> Flavor | None:
    """Return the flavor that a request for a server of a child is to have it resized to.

    Raises:
        InvalidInputError: as `body_below` does.
    """
    name, args = _action(call)
    if name != _RESIZE:
        return None
    return await flavor_called(call, args) if call.identity.parent is None else stated_flavor(args)


def action_asked(call: Call) -> str | None:
    """Return the name of the action that is asked for; None where it is something else."""
    return _action(call)[0]


def _action(call: Call) -> tuple[str | None, object]:
    if call.operation.body is not ServerAction:
        return None, None
    ((name, args),) = call.body(ServerAction).items()
    return name, args


def stated_flavor(args: object) -> Flavor:
    """Return the flavor that a parent says a server is to have.

    Raises:
        InvalidInputError: it names one instead, or it asks for hosts by what names them.
    """
    flavor, rest = _stated(args, _FLAVOR, Flavor, _RESIZE)
    read({**rest, "flavorRef": flavor.flavor_id or "-"}, Resize, _RESIZE)
    _check(FLAVOR_ID, flavor.flavor_id or "-", "resize.flavor.flavor_id")
    _check_names_no_hosts(flavor, "resize.flavor")
    return flavor


def stated_image(args: object) -> tuple[Image, dict[str, object]]:
    """Return the image that a parent says a server is made anew of, and all arguments.

    Raises:
        InvalidInputError: it names one instead.
    """
    image, rest = _stated(args, _IMAGE, Image, _REBUILD)
    _check(NAME, image.image_id, "rebuild.image.image_id")
    return image, {**rest, "imageRef": image.image_id}


async def body_below(call: Call) -> bytes:
    """Return the body of a request for the child that has the server.

    Raises:
        InvalidInputError: it names a flavor or an image that is not there, or that asks for hosts
            by what names them.
    """
    name, args = _action(call)
    if name is None:
        return call.raw_body
    if call.identity.parent is not None:
        if name == _RESIZE:
            stated_flavor(args)
        elif name == _REBUILD:
            stated_image(args)
        return call.raw_body
    if name == _RESIZE:
        flavor = await flavor_called(call, args)
        _check_names_no_hosts(flavor, "resize.flavorRef")
        return _body(name, args, "flavorRef", _FLAVOR, flavor)
    if name == _REBUILD:
        image = image_called(call, read(args, Rebuild, name).image_ref, "rebuild.imageRef")
        return _body(name, args, "imageRef", _IMAGE, image)
    return call.raw_body


def _body(name: str, args: object, named: str, field: str, meant: object) -> bytes:
    """Return an action with what a name means in the place of the name."""
    rest = {key: one for key, one in cast("dict[str, object]", args).items() if key != named}
    return encode({name: {**rest, field: meant}})


def _stated(args: object, field: str, kind: type[T], action: str) -> tuple[T, dict[str, object]]:
    """Return what a parent says in a field, and the other arguments."""
    if not isinstance(args, dict) or field not in args:
        reason = f"a parent says what the {field} is; that it names here may be another one"
        raise InvalidInputError(f"{action}.{field}", reason)
    rest = dict(cast("dict[str, object]", args))
    try:
        found = msgspec.convert(rest.pop(field), kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{action}.{field}", str(error)) from error
    return found, rest


def _check(pattern: re.Pattern[str], key: str, field: str) -> None:
    if pattern.fullmatch(key) is None:
        raise InvalidInputError(field, f"{key[:80]!r} is none that there could be")


def _check_names_no_hosts(flavor: Flavor, field: str) -> None:
    request = Request("-", ("-",), flavor, project_id="", user_id="")
    if host_naming_field(request) is not None:
        reason = "asks for hosts by what names them, which no zone answers another"
        raise InvalidInputError(field, reason)
