"""Handlers for resource providers, their usages and their aggregates."""

from typing import Any
from uuid import UUID

from berth.api.placement.actions import PlacementCall, PlacementReply, json_reply
from berth.api.placement.errors import (
    AGAIN,
    Code,
    PlacementError,
    concurrent,
    no_provider,
    no_provider_found,
    told,
)
from berth.api.placement.finding import newest_of, provider_of
from berth.api.placement.queries import provider_query
from berth.api.placement.views.inventories import usages_view
from berth.api.placement.views.providers import changed_s, root_uuid_of
from berth.domain.inventory.provider import Provider
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule
from berth.services.providers.resource_providers import UNSET

CHANGED = (
    "Resource provider's generation already changed. Please update the generation and try again."
)
# Microversion that added the generation to aggregates.
_COUNTS_SINCE = 19
_SEEN = "resource_provider_generation"

# Microversions that added the provider to the response of POST, and moves between trees.
_TELLS_PROVIDER = 20
_MAY_MOVE = 37
_PARENT = "parent_provider_uuid"

# Placement's texts. The one for a missing parent says "create" even if an update names the parent.
_REASONS = {
    RefusalRule.NO_NAME: ("create", "name is required"),
    RefusalRule.OWN_PARENT: (
        "create",
        (
            "parent provider UUID cannot be same as UUID. Please set parent provider UUID to "
            "None if there is no parent."
        ),
    ),
    RefusalRule.NO_PARENT: ("create", "parent provider UUID does not exist."),
    RefusalRule.MOVES: ("update", "re-parenting a provider is not currently allowed."),
    RefusalRule.BECOMES_ROOT: ("update", "un-parenting a provider is not currently allowed."),
    RefusalRule.LOOP: ("update", "creating loop in the provider tree is not allowed."),
}


async def list_providers(ask: PlacementCall) -> PlacementReply:
    """List the providers that match all query parameters.

    Raises:
        PlacementError: 400 when a parameter is malformed.
    """
    query = provider_query(ask.query, ask.minor)
    table = (await newest_of(ask)).table
    try:
        rows = ask.parts.providers.matching(query)
    except ProviderRefusedError as error:
        raise _unknown(error) from error
    writer = ask.parts.writer
    newest_s = writer.newest_s(table, rows, ask.minor)
    return PlacementReply(200, writer.listed(table, rows, ask.minor), modified_s=newest_s)


async def create_provider(ask: PlacementCall) -> PlacementReply:
    """Create a provider; from microversion 1.20 on the response body shows it."""
    data: dict[str, Any] = ask.data
    uuid = str(UUID(data["uuid"])) if data.get("uuid") else ask.parts.ids.uuid()
    try:
        provider = await ask.parts.providers.create(data["name"], uuid, data.get(_PARENT))
    except ProviderRefusedError as error:
        raise _not_created(error, data["name"], uuid) from error
    location = ask.location(f"/resource_providers/{uuid}")
    if ask.minor < _TELLS_PROVIDER:
        return PlacementReply(201, headers=(location,))
    reply = await _shown(ask, provider)
    return reply._replace(headers=(location,))


async def show_provider(ask: PlacementCall) -> PlacementReply:
    """Show a provider.

    Raises:
        PlacementError: 404 when the provider is unknown.
    """
    return await _shown(ask, await provider_of(ask))


async def update_provider(ask: PlacementCall) -> PlacementReply:
    """Set the name of a provider, and its parent if the body contains that field."""
    data: dict[str, Any] = ask.data
    uuid = ask.key("uuid")
    try:
        provider = await ask.parts.providers.change(
            uuid,
            name=data["name"],
            # Without the field the parent stays unchanged; null makes the provider a root.
            parent=data.get(_PARENT, UNSET),
            may_move=ask.minor >= _MAY_MOVE,
        )
    except ProviderRefusedError as error:
        raise _not_saved(error, data["name"], uuid) from error
    return await _shown(ask, provider)


async def delete_provider(ask: PlacementCall) -> PlacementReply:
    """Remove a provider and its inventories.

    Raises:
        PlacementError: 404 when the provider is unknown; 409 when it has allocations or children.
        ConflictError: the provider belongs to a host.
    """
    uuid = ask.key("uuid")
    try:
        await ask.parts.providers.remove(uuid)
    except ProviderRefusedError as error:
        used = f"Unable to delete resource provider {uuid}: Resource provider has allocations."
        above = (
            f"Unable to delete parent resource provider {uuid}: It has child resource providers."
        )
        raise told(
            error,
            {
                RefusalRule.NO_PROVIDER: no_provider(uuid, "found for delete"),
                RefusalRule.HAS_ALLOCATIONS: PlacementError(409, used, Code.PROVIDER_IN_USE),
                RefusalRule.HAS_CHILDREN: PlacementError(409, above, Code.PROVIDER_IS_PARENT),
            },
        ) from error
    return PlacementReply(204)


async def show_provider_usages(ask: PlacementCall) -> PlacementReply:
    """Show the used amount of every resource class of a provider.

    Raises:
        PlacementError: 404 when the provider is unknown.
    """
    provider = await provider_of(ask, no_provider_found(ask.key("uuid")))
    return json_reply(usages_view(provider.used, provider.generation))


async def _shown(ask: PlacementCall, provider: Provider) -> PlacementReply:
    """Return the reply that shows a provider.

    `provider` is the record just read or written; the table supplies only the uuid of its root.
    """
    table = (await newest_of(ask)).table
    body = ask.parts.writer.shown(provider, root_uuid_of(table, provider), ask.minor)
    return PlacementReply(200, body, modified_s=changed_s(provider) or None)


def _unknown(error: ProviderRefusedError) -> PlacementError:
    name = error.subject
    of_class = f"Invalid resource class in resources parameter: No such resource class {name}."
    of_trait = f'Invalid trait(s) in "required" parameter: No such trait(s): {name}.'
    return told(
        error,
        {
            RefusalRule.NO_CLASS: PlacementError(400, of_class),
            RefusalRule.NO_TRAIT: PlacementError(400, of_trait),
        },
    )


def _not_created(error: ProviderRefusedError, name: str, uuid: str) -> PlacementError:
    if error.why in _REASONS:
        reason = _reason(error.why)
        return PlacementError(400, f'Unable to create resource provider "{name}", {uuid}: {reason}')
    duplicate = {RefusalRule.UUID_TAKEN: f"uuid: {uuid}", RefusalRule.NAME_TAKEN: f"name: {name}"}
    return told(
        error,
        {
            why: PlacementError(
                409, f"Conflicting resource provider {what} already exists.", Code.DUPLICATE_NAME
            )
            for why, what in duplicate.items()
        },
    )


def _not_saved(error: ProviderRefusedError, name: str, uuid: str) -> PlacementError:
    if error.why in _REASONS:
        reason = _reason(error.why)
        return PlacementError(400, f"Unable to save resource provider {uuid}: {reason}")
    taken = f"Conflicting resource provider {name} already exists."
    return told(error, {RefusalRule.NAME_TAKEN: PlacementError(409, taken, Code.DUPLICATE_NAME)})


def _reason(why: RefusalRule) -> str:
    action, reason = _REASONS[why]
    return f"Object action {action} failed because: {reason}"


async def list_aggregates(ask: PlacementCall) -> PlacementReply:
    """List the aggregates of a provider.

    Raises:
        PlacementError: 404 when the provider is unknown.
    """
    return _aggregates_reply(ask, await provider_of(ask))


async def update_aggregates(ask: PlacementCall) -> PlacementReply:
    """Replace a provider's aggregates; before microversion 1.19 no generation is checked.

    Raises:
        PlacementError: 404 when the provider is unknown; 409 when the generation is outdated, or
            every attempt lost a race against another change.
    """
    data: Any = ask.data
    uuid = ask.key("uuid")
    counts = ask.minor >= _COUNTS_SINCE
    # Before 1.19 the body is the list itself.
    uuids: list[str] = data["aggregates"] if counts else data
    generation = data[_SEEN] if counts else None
    try:
        provider = await ask.parts.associations.set_aggregates(uuid, uuids, generation)
    except ProviderRefusedError as error:
        raise told(
            error,
            {
                RefusalRule.GENERATION: concurrent(CHANGED),
                RefusalRule.CONTENDED: concurrent(f"Update conflict: {AGAIN}"),
            },
        ) from error
    return _aggregates_reply(ask, provider)


def _aggregates_reply(ask: PlacementCall, provider: Provider) -> PlacementReply:
    view: dict[str, Any] = {"aggregates": provider.aggregates}
    if ask.minor >= _COUNTS_SINCE:
        view[_SEEN] = provider.generation
    return json_reply(view)
