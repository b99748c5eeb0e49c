"""The reshaper: inventories of some providers and allocations, replaced in one step."""

from typing import Any

from berth.api.placement.actions import Ask, Reply
from berth.api.placement.errors import Code, PlacementError
from berth.api.placement.handlers.allocations import not_allocated, shares_of
from berth.api.placement.handlers.inventories import inventory_of
from berth.api.placement.refusing import AGAIN, concurrent, told
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule
from berth.services.providers.reallocation import AllocationRefusedError
from berth.services.providers.reshape import GenerationError

_SEEN = "resource_provider_generation"
_MALFORMED = "malformed reshaper data: "
_CONFLICT = "update conflict: "


async def reshape(ask: Ask) -> Reply:
    """Replace all inventories of some providers, and what some consumers hold."""
    data: dict[str, Any] = ask.data
    inventories = {
        uuid: (one[_SEEN], {name: inventory_of(it) for name, it in one["inventories"].items()})
        for uuid, one in data["inventories"].items()
    }
    try:
        await ask.parts.reshaping.reshape(inventories, shares_of(ask, data["allocations"]))
    except GenerationError as error:
        about = f"provider {error.provider_uuid}: actual: {error.actual}, given: {error.seen}"
        raise concurrent(f"resource provider generation conflict for {about}") from error
    except AllocationRefusedError as error:
        raise not_allocated(error, _MALFORMED) from error
    except ProviderRefusedError as error:
        raise _not_reshaped(ask, error) from error
    return Reply(204)


def _not_reshaped(ask: Ask, error: ProviderRefusedError) -> PlacementError:
    uuid = error.subject
    unknown = (
        f"Resource provider {uuid} in inventories not found: "
        f"No resource provider with uuid {uuid} found"
    )
    classes = ", ".join(ask.parts.replica.vocabulary.classes.in_order(error.names))
    used = f"{_CONFLICT}Inventory for '{classes}' on resource provider '{uuid}' in use."
    return told(
        error,
        {
            RefusalRule.NO_PROVIDER: PlacementError(400, unknown, Code.PROVIDER_NOT_FOUND),
            RefusalRule.NO_CLASS: PlacementError(
                400, f"{_MALFORMED}No such resource class {uuid}."
            ),
            RefusalRule.INVENTORY_IN_USE: PlacementError(409, used, Code.INVENTORY_IN_USE),
            RefusalRule.GENERATION: concurrent(f"{_CONFLICT}{AGAIN}"),
            RefusalRule.CONTENDED: concurrent(f"{_CONFLICT}{AGAIN}"),
        },
    )
