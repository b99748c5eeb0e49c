"""Handlers for allocations, usages and the reshaper."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from berth.api.placement.actions import PlacementCall, PlacementReply, json_reply
from berth.api.placement.errors import (
    AGAIN,
    Code,
    PlacementError,
    concurrent,
    no_provider_found,
    told,
)
from berth.api.placement.finding import newest_of, provider_of
from berth.api.placement.handlers.inventories import inventory_of
from berth.api.placement.shapes import is_uuid
from berth.api.placement.views.allocations import consumer_view, provider_allocations_view
from berth.api.placement.views.inventories import usages_by_type, usages_of_project
from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.ledger.write import ConsumerUpdate
from berth.services.providers.allocations import AllocationRefusedError, AllocationRule
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule
from berth.services.providers.reshape import GenerationError
from berth.tables.provider.providers import ProviderTable

_BY_TYPE = 38
_SEEN = "resource_provider_generation"
_MALFORMED = "malformed reshaper data: "
_CONFLICT = "update conflict: "

# Microversions that keyed allocations by provider, and added consumer generations and types.
_BY_PROVIDER = 12
_TELLS_GENERATION = 28
_TELLS_TYPE = 38

# Project and user of consumers that are created before 1.8, where requests have neither. Placement
# has the same defaults, `incomplete_consumer_project_id` and `incomplete_consumer_user_id`.
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"

# Maximum attempts to read allocations and generations consistently while other processes write.
_READS_MAX = 8
_NOT_CREATED = "Unable to create allocation"
_WOULD = "The requested amount would"


async def show_allocations(ask: PlacementCall) -> PlacementReply:
    """Show a consumer's allocations; an unknown consumer has none.

    Raises:
        PlacementError: 409 when other processes changed the allocations during every attempt to
            read them.
    """
    holding, seen = await _held(ask, consumer_key(ask.key("consumer_uuid")))
    modified_s = None if holding is None else holding.consumer.updated_at_s
    return json_reply(consumer_view(holding, seen, ask.minor), modified_s=modified_s or None)


async def list_provider_allocations(ask: PlacementCall) -> PlacementReply:
    """List the allocations against a provider, keyed by consumer.

    Raises:
        PlacementError: 404 when the provider is unknown.
    """
    uuid = ask.key("uuid")
    twice = no_provider_found(uuid)
    sentence = twice.message.rpartition(": ")[2]
    missing = PlacementError(404, f"Resource provider '{uuid}' not found: {sentence}")
    provider = await provider_of(ask, missing)
    holdings = await ask.parts.ledger.provider_consumers(uuid)
    view = provider_allocations_view(holdings, uuid, provider.generation, ask.minor)
    newest_s = max((one.consumer.updated_at_s for one in holdings), default=0.0)
    return json_reply(view, modified_s=newest_s or None)


async def update_allocations(ask: PlacementCall) -> PlacementReply:
    """Replace the allocations of one consumer.

    Raises:
        PlacementError: the uuid of the consumer is malformed, or an allocation names an unknown
            provider or class (400); or the generation is outdated, or an amount does not fit (409).
    """
    text = ask.key("consumer_uuid")
    if not is_uuid(text):
        raise PlacementError(400, f"Malformed consumer_uuid: {text}")
    uuid = str(UUID(text))
    try:
        await ask.parts.allocation_service.put((share_of(ask, uuid, ask.data),))
    except AllocationRefusedError as error:
        raise not_allocated(error, f"Unable to allocate inventory for consumer {uuid}: ") from error
    return PlacementReply(204)


async def manage_allocations(ask: PlacementCall) -> PlacementReply:
    """Replace the allocations of several consumers, all or none.

    Raises:
        PlacementError: 400 when a consumer occurs twice, or an allocation names an unknown provider
            or class; 409 when a generation is outdated, or an amount does not fit.
    """
    try:
        await ask.parts.allocation_service.put(shares_of(ask, ask.data))
    except AllocationRefusedError as error:
        raise not_allocated(error, "Unable to allocate inventory ") from error
    return PlacementReply(204)


async def delete_allocations(ask: PlacementCall) -> PlacementReply:
    """Delete all allocations of a consumer.

    Raises:
        PlacementError: 404 when the consumer has no allocations.
    """
    text = ask.key("consumer_uuid")
    try:
        await ask.parts.allocation_service.release(consumer_key(text))
    except AllocationRefusedError as error:
        raise PlacementError(404, f"No allocations for consumer '{text}'") from error
    return PlacementReply(204)


def consumer_key(text: str) -> str:
    """Return a consumer's uuid in its stored form (lower case with dashes).

    Other strings are returned unchanged; they match no consumer.
    """
    return str(UUID(text)) if is_uuid(text) else text


def shares_of(
    ask: PlacementCall, data: Mapping[str, Mapping[str, Any]]
) -> tuple[ConsumerUpdate, ...]:
    """Parse the new allocations of several consumers, keyed by uuid.

    Raises:
        PlacementError: 400, a consumer occurs twice.
    """
    # JSON keys are distinct, but two of them may be forms of the same uuid. The result of the
    # update would then depend on their order.
    shares = tuple(share_of(ask, consumer_key(uuid), one) for uuid, one in data.items())
    if len({share.consumer.uuid for share in shares}) < len(shares):
        raise PlacementError(
            400, "The body contains a consumer twice, under two forms of its uuid; use one of them"
        )
    return shares


def share_of(ask: PlacementCall, uuid: str, data: Mapping[str, Any]) -> ConsumerUpdate:
    """Parse the new allocations of one consumer, in the format of the request's microversion."""
    minor = ask.minor
    now_s = ask.parts.clock.now_s()
    return ConsumerUpdate(
        Consumer(
            uuid,
            project_id=data.get("project_id", _NOBODY),
            user_id=data.get("user_id", _NOBODY),
            consumer_type=data.get("consumer_type"),
            created_at_s=now_s,
            updated_at_s=now_s,
        ),
        allocations=_allocations(data["allocations"], minor),
        seen=data.get("consumer_generation"),
        # Older clients send no generation, so none is checked, and no type, so the type is kept.
        is_checked=minor >= _TELLS_GENERATION,
        keeps_type=minor < _TELLS_TYPE,
    )


def not_allocated(error: AllocationRefusedError, unknown: str) -> PlacementError:
    """Return the error response for refused allocations.

    Args:
        error: the refusal.
        unknown: the start of the route's message about an unknown resource class.
    """
    where = f"'{', '.join(error.names)}' on resource provider '{error.subject}'"
    match error.rule:
        case AllocationRule.CONSUMER_GENERATION:
            actual = "null" if error.actual is None else error.actual
            problem = f"expected {actual} but got {error.seen}"
            return concurrent(f"consumer generation conflict - {problem}")
        case AllocationRule.NO_PROVIDER:
            text = f"Allocation for resource provider '{error.subject}' that does not exist."
            return PlacementError(400, text)
        case AllocationRule.NO_CLASS:
            return PlacementError(400, f"{unknown}No such resource class {error.names[0]}.")
        case AllocationRule.NO_INVENTORY:
            text = f"Inventory for {where} invalid."
        case AllocationRule.UNITS:
            text = f"{_NOT_CREATED} for {where}. {_WOULD} violate inventory constraints."
        case _:
            text = f"{_NOT_CREATED} for {where}. {_WOULD} exceed the capacity."
    return PlacementError(409, f"Unable to allocate inventory: {text}")


def _allocations(data: Any, minor: int) -> dict[str, Mapping[str, int]]:  # noqa: ANN401 - JSON
    if minor < _BY_PROVIDER:
        return {one["resource_provider"]["uuid"]: one["resources"] for one in data}
    return {uuid: one["resources"] for uuid, one in data.items()}


async def _held(ask: PlacementCall, uuid: str) -> tuple[ConsumerAllocations | None, dict[str, int]]:
    """Return a consumer's allocations, or None, and provider generations that are no newer.

    The generations are keyed by provider uuid. A client that writes with an old generation is
    refused, whereas one with a new generation and old allocations would undo a change that it has
    not seen.

    Raises:
        PlacementError: 409, other processes changed the allocations during every attempt.
    """
    # Allocations come from the ledger, generations from the table. If the table did not change
    # during the read, both are of the same version.
    parts = ask.parts
    await parts.follower.catch_up()
    version = parts.follower.version
    holding = await parts.ledger.consumer_allocations(uuid)
    for _ in range(_READS_MAX):
        held = () if holding is None else holding.allocations.keys()
        seen = _generations(parts.replica.table, held)
        if parts.follower.version == version and len(seen) == len(held):
            return holding, seen
        # Another process has written meanwhile. Now the generations are taken first: allocations
        # that are read afterwards are no older than the table.
        await parts.follower.catch_up()
        seen = _generations(parts.replica.table, held)
        holding = await parts.ledger.consumer_allocations(uuid)
        if holding is None or holding.allocations.keys() <= seen.keys():
            return holding, seen
    raise concurrent()


def _generations(table: ProviderTable, uuids: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for uuid in uuids:
        row = table.row_of(uuid)
        if row is not None:
            found[uuid] = table.generations.item(row)
        # A provider whose parent is unknown has no row, but consumers may have allocations on it.
        elif uuid in table.unattached:
            found[uuid] = table.unattached[uuid].generation
    return found


async def show_usages(ask: PlacementCall) -> PlacementReply:
    """Show the usage of a project or of one of its users, from microversion 1.38 on by type."""
    order = (await newest_of(ask)).vocabulary.classes.in_order
    project = ask.last("project_id") or ""
    holdings = await ask.parts.ledger.project_consumers(project, ask.last("user_id"))
    if ask.minor < _BY_TYPE:
        return json_reply(usages_of_project(holdings, order))
    return json_reply(usages_by_type(holdings, ask.last("consumer_type"), order))


async def reshape(ask: PlacementCall) -> PlacementReply:
    """Replace all inventories of providers and all allocations of consumers, or change nothing.

    Raises:
        PlacementError: 400 when a consumer occurs twice, or an unknown provider or class is named;
            409 when a generation is outdated, an amount does not fit, or a removed inventory is in
            use.
    """
    data: dict[str, Any] = ask.data
    inventories = {
        uuid: (one[_SEEN], {name: inventory_of(it) for name, it in one["inventories"].items()})
        for uuid, one in data["inventories"].items()
    }
    try:
        await ask.parts.reshape_service.reshape(inventories, shares_of(ask, data["allocations"]))
    except GenerationError as error:
        about = f"provider {error.provider_uuid}: actual: {error.actual}, given: {error.seen}"
        raise concurrent(f"resource provider generation conflict for {about}") from error
    except AllocationRefusedError as error:
        raise not_allocated(error, _MALFORMED) from error
    except ProviderRefusedError as error:
        raise _not_reshaped(ask, error) from error
    return PlacementReply(204)


def _not_reshaped(ask: PlacementCall, error: ProviderRefusedError) -> PlacementError:
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
