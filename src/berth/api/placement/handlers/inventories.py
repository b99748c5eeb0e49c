"""Handlers for a provider's inventories, all together and per resource class."""

from collections.abc import Iterable, Mapping
from typing import Any

from berth.api.placement.actions import PlacementCall, PlacementReply, json_reply
from berth.api.placement.errors import (
    AGAIN,
    Code,
    PlacementError,
    concurrent,
    no_provider_found,
    told,
)
from berth.api.placement.finding import provider_of
from berth.api.placement.views.inventories import inventories_view, inventory_view
from berth.api.placement.views.providers import changed_s
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule

# From 1.26 on `reserved` may equal `total`.
_MAY_RESERVE_ALL = 26
_UNIT_MAX = 2_147_483_647
_SEEN = "resource_provider_generation"
_FIELDS = ("total", "reserved", "min_unit", "step_size", "allocation_ratio")


async def list_inventories(ask: PlacementCall) -> PlacementReply:
    """Show all inventories of a provider.

    Raises:
        PlacementError: 404 when the provider is unknown.
    """
    provider = await provider_of(ask, no_provider_found(ask.key("uuid"), " : "))
    return json_reply(inventories_view(provider), modified_s=changed_s(provider) or None)


async def show_inventory(ask: PlacementCall) -> PlacementReply:
    """Show the inventory of one resource class.

    Raises:
        PlacementError: 404 when the provider is unknown or has no such inventory.
    """
    uuid, name = ask.key("uuid"), ask.key("resource_class")
    provider = await provider_of(ask, no_provider_found(uuid, " : "))
    if name not in provider.inventories:
        raise PlacementError(404, f"No inventory of class {name} for {uuid}")
    return _one(provider, name)


async def create_inventory(ask: PlacementCall) -> PlacementReply:
    """Add an inventory of a resource class that the provider does not have yet.

    Raises:
        PlacementError: 404 when the provider is unknown; 400 when the class is unknown or too much
            is reserved; 409 when the provider already has the inventory, or every attempt lost a
            race against another change.
    """
    uuid, name = (await provider_of(ask)).uuid, str(ask.data["resource_class"])
    unable = f"Unable to create inventory for resource provider {uuid}: "
    inventory = inventory_of(ask.data)
    _check(ask, uuid, {name: inventory}, unable)
    try:
        provider = await ask.parts.inventories.add(uuid, name, inventory)
    except ProviderRefusedError as error:
        there = f"Update conflict: inventory of class {name} already exists; change it with PUT"
        raise told(
            error,
            {
                RefusalRule.NO_CLASS: PlacementError(
                    400, f"{unable}No such resource class {name}."
                ),
                RefusalRule.INVENTORY_EXISTS: concurrent(there),
                RefusalRule.CONTENDED: concurrent(f"Update conflict: {AGAIN}"),
            },
        ) from error
    location = ask.location(f"/resource_providers/{uuid}/inventories/{name}")
    return _one(provider, name)._replace(status=201, headers=(location,))


async def update_inventories(ask: PlacementCall) -> PlacementReply:
    """Replace all inventories of a provider.

    Raises:
        PlacementError: 404 when the provider is unknown; 400 when a class is unknown or too much is
            reserved; 409 when the generation is outdated or a removed inventory is in use.
    """
    # The order of the checks is Placement's: provider, generation, capacity, then class names.
    seen = await _seen_provider(ask)
    uuid = seen.uuid
    inventories = {name: inventory_of(one) for name, one in ask.data["inventories"].items()}
    _check(ask, uuid, inventories, f"Unable to update inventory for resource provider {uuid}: ")
    try:
        provider = await ask.parts.inventories.set_all(uuid, inventories, ask.data[_SEEN])
    except ProviderRefusedError as error:
        unknown = f"Unknown resource class in inventory for resource provider {uuid}: "
        used = f"update conflict: {_in_use(ask, uuid, error.names)}"
        raise told(
            error,
            {
                RefusalRule.NO_CLASS: PlacementError(
                    400, f"{unknown}No such resource class {error.subject}."
                ),
                RefusalRule.INVENTORY_IN_USE: PlacementError(409, used, Code.INVENTORY_IN_USE),
                **_RACES,
            },
        ) from error
    return json_reply(inventories_view(provider), modified_s=changed_s(provider) or None)


async def update_inventory(ask: PlacementCall) -> PlacementReply:
    """Replace the inventory of a resource class that the provider has.

    Raises:
        PlacementError: 404 when the provider or the class is unknown; 400 when the provider has no
            such inventory or too much is reserved; 409 when the generation is outdated.
    """
    seen = await _seen_provider(ask)
    uuid, name = seen.uuid, ask.key("resource_class")
    inventory = inventory_of(ask.data)
    _check(
        ask, uuid, {name: inventory}, f"Unable to update inventory for resource provider {uuid}: "
    )
    try:
        provider = await ask.parts.inventories.set_one(uuid, name, inventory, ask.data[_SEEN])
    except ProviderRefusedError as error:
        none = f"No inventory record with resource class for resource provider {uuid}: "
        raise told(
            error,
            {
                RefusalRule.NO_CLASS: PlacementError(404, f"No such resource class {name}."),
                RefusalRule.NO_INVENTORY: PlacementError(
                    400, f"{none}No inventory of class {name} found."
                ),
                **_RACES,
            },
        ) from error
    return _one(provider, name)


async def delete_inventories(ask: PlacementCall) -> PlacementReply:
    """Remove all inventories of a provider."""
    uuid = ask.key("uuid")
    try:
        # DELETE carries no generation, so the service itself retries lost races; CONTENDED means
        # that it gave up.
        await ask.parts.inventories.set_all(uuid, {}, None)
    except ProviderRefusedError as error:
        race = (
            f"Unable to delete inventory for resource provider {uuid} because the inventory was "
            "updated by another process. Please retry your request."
        )
        used = PlacementError(409, _in_use(ask, uuid, error.names), Code.INVENTORY_IN_USE)
        raise told(
            error, {RefusalRule.INVENTORY_IN_USE: used, RefusalRule.CONTENDED: concurrent(race)}
        ) from error
    return PlacementReply(204)


async def delete_inventory(ask: PlacementCall) -> PlacementReply:
    """Remove the inventory of one resource class."""
    uuid, name = ask.key("uuid"), ask.key("resource_class")
    try:
        await ask.parts.inventories.remove_one(uuid, name)
    except ProviderRefusedError as error:
        none = f"No inventory of class {name} found for delete"
        unable = f"Unable to delete inventory of class {name}: "
        raise told(
            error,
            {
                RefusalRule.NO_CLASS: PlacementError(
                    404, f"{none}: No such resource class {name}."
                ),
                RefusalRule.NO_INVENTORY: PlacementError(404, f"{none}: {none}"),
                RefusalRule.INVENTORY_IN_USE: concurrent(unable + _in_use(ask, uuid, (name,))),
                RefusalRule.CONTENDED: concurrent(unable + AGAIN),
            },
        ) from error
    return PlacementReply(204)


_OTHERS_FASTER = f"update conflict: {AGAIN}"
_CHANGED = "resource provider generation conflict"
_RACES = {
    RefusalRule.GENERATION: concurrent(_OTHERS_FASTER),
    RefusalRule.CONTENDED: concurrent(_OTHERS_FASTER),
}


def inventory_of(data: Mapping[str, Any]) -> Inventory:
    """Parse an inventory from a validated body."""
    given = {field: data[field] for field in _FIELDS if field in data}
    return Inventory(max_unit=data.get("max_unit", _UNIT_MAX), **given)


def check_capacity(name: str, inventory: Inventory, uuid: str, minor: int) -> str | None:
    """Return the error text for an inventory with too little capacity, or None if it has enough.

    Args:
        name: the resource class.
        inventory: the new inventory.
        uuid: the provider, for the text.
        minor: the microversion; from 1.26 on, all of the total may be reserved.
    """
    # Both texts are Placement's.
    may_be_nothing = minor >= _MAY_RESERVE_ALL
    if inventory.capacity > 0 or (may_be_nothing and inventory.capacity == 0):
        return None
    problem = "greater than" if may_be_nothing else "greater than or equal to"
    return (
        f"Invalid inventory for '{name}' on resource provider '{uuid}'. "
        f"The reserved value is {problem} total."
    )


async def _seen_provider(ask: PlacementCall) -> Provider:
    """Return the provider of the path if the body contains its current generation.

    Raises:
        PlacementError: 404, the provider is unknown; 409, the generation is outdated.
    """
    # The generation is checked here and again by the write: Placement reports an outdated one
    # before it looks at the inventories.
    provider = await provider_of(ask)
    if ask.data[_SEEN] != provider.generation:
        raise concurrent(_CHANGED)
    return provider


def _check(
    ask: PlacementCall, uuid: str, inventories: Mapping[str, Inventory], unable: str
) -> None:
    for name, inventory in inventories.items():
        problem = check_capacity(name, inventory, uuid, ask.minor)
        if problem is not None:
            raise PlacementError(400, unable + problem)


def _in_use(ask: PlacementCall, uuid: str, names: Iterable[str]) -> str:
    classes = ", ".join(ask.parts.replica.vocabulary.classes.in_order(names))
    return f"Inventory for '{classes}' on resource provider '{uuid}' in use."


def _one(provider: Provider, name: str) -> PlacementReply:
    view = inventory_view(provider.inventories[name], provider.generation)
    return json_reply(view, modified_s=changed_s(provider) or None)
