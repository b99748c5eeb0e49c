"""Handlers for resource classes."""

from typing import Any

from berth.api.placement.actions import PlacementCall, PlacementReply, json_reply
from berth.api.placement.errors import PlacementError, concurrent, told
from berth.api.placement.finding import newest_of
from berth.api.placement.reading import check
from berth.api.placement.schemas.building import CLASS_NAME
from berth.api.placement.views.providers import newest
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule


async def list_classes(ask: PlacementCall) -> PlacementReply:
    """List all known resource classes."""
    vocabulary = (await newest_of(ask)).vocabulary
    names = vocabulary.classes.all()
    view = {"resource_classes": [_view(ask, name) for name in names]}
    records = vocabulary.classes.records
    # Standard classes, and classes that only agents have reported, have no record and thus no
    # time.
    times_s = [records[name].created_at_s if name in records else 0.0 for name in names]
    return json_reply(view, modified_s=newest(times_s))


async def create_class(ask: PlacementCall) -> PlacementReply:
    """Create a resource class."""
    name = str(ask.data["name"])
    try:
        await ask.parts.names.create_class(name)
    except ProviderRefusedError as error:
        exists = PlacementError(409, f"Conflicting resource class already exists: {name}")
        again = concurrent(
            "Max retries of DB transaction exceeded attempting to create resource class: "
            f"{name}, please try again."
        )
        raise told(
            error, {RefusalRule.CLASS_EXISTS: exists, RefusalRule.CONTENDED: again}
        ) from error
    return PlacementReply(201, headers=(_location(ask, name),))


async def show_class(ask: PlacementCall) -> PlacementReply:
    """Show a resource class."""
    name = ask.key("name")
    vocabulary = (await newest_of(ask)).vocabulary
    if not vocabulary.classes.is_known(name):
        raise _no_class(name)
    record = vocabulary.classes.records.get(name)
    return json_reply(_view(ask, name), modified_s=(record and record.created_at_s) or None)


async def rename_class(ask: PlacementCall) -> PlacementReply:
    """Rename a custom resource class that has no allocations, in microversions 1.2 to 1.6."""
    old, new = ask.key("name"), str(ask.data["name"])
    try:
        await ask.parts.names.rename_class(old, new)
    except ProviderRefusedError as error:
        standard = f"Cannot update standard resource class {old}"
        spread = f"Resource class {old} is on too many resource providers to be renamed."
        used = f"Resource class {old} has allocations, so it cannot be renamed."
        raise told(
            error,
            {
                RefusalRule.NO_CLASS: _no_class(old),
                RefusalRule.CLASS_IS_STANDARD: PlacementError(400, standard),
                RefusalRule.CLASS_EXISTS: PlacementError(
                    409, f"Resource class already exists: {new}"
                ),
                RefusalRule.CLASS_IS_SPREAD: PlacementError(409, spread),
                RefusalRule.CLASS_IN_USE: PlacementError(409, used),
            },
        ) from error
    return json_reply(_view(ask, new))


async def ensure_class(ask: PlacementCall) -> PlacementReply:
    """Create a resource class unless it exists, from microversion 1.7 on.

    Raises:
        PlacementError: 400 when the name is invalid; 409 when every attempt lost a race against
            another change.
    """
    # The route has no body; the name in the path is validated with the schema of POST.
    name = ask.key("name")
    check({"name": name}, CLASS_NAME)
    try:
        is_made = await ask.parts.names.ensure_class(name)
    except ProviderRefusedError as error:
        raise told(error, {}) from error
    return PlacementReply(201 if is_made else 204, headers=(_location(ask, name),))


async def delete_class(ask: PlacementCall) -> PlacementReply:
    """Remove a custom resource class that no inventory uses.

    Raises:
        PlacementError: 404 when there is no such class; 400 when it is a standard class; 409 when
            an inventory uses it.
    """
    name = ask.key("name")
    try:
        await ask.parts.names.remove_class(name)
    except ProviderRefusedError as error:
        unable = "Error in delete resource class: Cannot delete "
        used = f"{unable}resource class {name}. Class is in use in inventory."
        raise told(
            error,
            {
                RefusalRule.NO_CLASS: _no_class(name),
                RefusalRule.CLASS_IS_STANDARD: PlacementError(
                    400, f"{unable}standard resource class {name}."
                ),
                RefusalRule.CLASS_IN_USE: PlacementError(409, used),
            },
        ) from error
    return PlacementReply(204)


def _view(ask: PlacementCall, name: str) -> dict[str, Any]:
    url = ask.link(f"/resource_classes/{name}")
    return {"name": name, "links": [{"rel": "self", "href": url}]}


def _location(ask: PlacementCall, name: str) -> tuple[bytes, bytes]:
    return ask.location(f"/resource_classes/{name}")


def _no_class(name: str) -> PlacementError:
    return PlacementError(404, f"No such resource class {name}.")
