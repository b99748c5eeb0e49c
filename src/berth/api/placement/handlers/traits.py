"""Handlers for traits and for the traits of a provider."""

from collections.abc import Iterable
from typing import Any

from berth.api.placement.actions import PlacementCall, PlacementReply, json_reply
from berth.api.placement.errors import PlacementError, concurrent, no_provider_found, told
from berth.api.placement.finding import newest_of, provider_of
from berth.api.placement.handlers.resource_providers import CHANGED
from berth.api.placement.reading import check
from berth.api.placement.schemas.building import TRAIT_NAME
from berth.api.placement.views.providers import newest
from berth.domain.inventory.provider import Provider
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule
from berth.tables.vocabulary import Vocabulary

_SEEN = "resource_provider_generation"
_ASSOCIATED = {"true": True, "false": False}


async def list_traits(ask: PlacementCall) -> PlacementReply:
    """List the known traits that match the query.

    Raises:
        PlacementError: 400 when a parameter is invalid.
    """
    among, prefix = _names_asked(ask)
    associated = _association_asked(ask)
    vocabulary = (await newest_of(ask)).vocabulary
    found = vocabulary.find_traits(prefix, among, associated=associated)
    return json_reply({"traits": found}, modified_s=_newest(vocabulary, found))


async def show_trait(ask: PlacementCall) -> PlacementReply:
    """Respond with 204 if a trait is known, or with 404."""
    name = ask.key("name")
    vocabulary = (await newest_of(ask)).vocabulary
    if not vocabulary.traits.is_known(name):
        raise _no_trait(name)
    return PlacementReply(204, modified_s=_newest(vocabulary, (name,)))


async def put_trait(ask: PlacementCall) -> PlacementReply:
    """Create a trait unless it exists.

    Raises:
        PlacementError: 400 when the name is invalid.
        ProviderRefusedError: every attempt lost a race against another change.
    """
    name = ask.key("name")
    _check_name(name)
    is_made = await ask.parts.names.ensure_trait(name)
    vocabulary = (await newest_of(ask)).vocabulary
    location = ask.location(f"/traits/{name}")
    return PlacementReply(201 if is_made else 204, b"", (location,), _newest(vocabulary, (name,)))


async def delete_trait(ask: PlacementCall) -> PlacementReply:
    """Remove a custom trait that no provider has.

    Raises:
        PlacementError: 404 when there is no such trait; 400 when it is a standard trait; 409 when a
            provider has it.
    """
    name = ask.key("name")
    try:
        await ask.parts.names.remove_trait(name)
    except ProviderRefusedError as error:
        raise told(
            error,
            {
                RefusalRule.NO_TRAIT: _no_trait(name),
                RefusalRule.TRAIT_IS_STANDARD: PlacementError(
                    400, f"Cannot delete standard trait {name}."
                ),
                RefusalRule.TRAIT_IN_USE: PlacementError(
                    409, f"The trait {name} is in use by a resource provider."
                ),
            },
        ) from error
    return PlacementReply(204)


async def list_provider_traits(ask: PlacementCall) -> PlacementReply:
    """List the traits of a provider.

    Raises:
        PlacementError: 404 when the provider is unknown.
    """
    return _shown(ask, await provider_of(ask, no_provider_found(ask.key("uuid"))))


async def update_provider_traits(ask: PlacementCall) -> PlacementReply:
    """Replace the traits of a provider.

    Raises:
        PlacementError: 404 when the provider is unknown; 400 when a trait is unknown; 409 when the
            generation is outdated.
    """
    data: dict[str, Any] = ask.data
    try:
        provider = await ask.parts.associations.set_traits(
            ask.key("uuid"), data["traits"], data[_SEEN]
        )
    except ProviderRefusedError as error:
        unknown = PlacementError(400, f"No such trait {', '.join(error.names)}")
        raise told(
            error, {RefusalRule.NO_TRAIT: unknown, RefusalRule.GENERATION: concurrent(CHANGED)}
        ) from error
    return _shown(ask, provider)


async def delete_provider_traits(ask: PlacementCall) -> PlacementReply:
    """Remove all traits from a provider.

    Raises:
        PlacementError: 404 when the provider is unknown; 409 when every attempt lost a race against
            another change.
    """
    # The request has no generation, so the service itself retries lost races.
    try:
        await ask.parts.associations.set_traits(ask.key("uuid"), (), None)
    except ProviderRefusedError as error:
        raise told(error, {}) from error
    return PlacementReply(204)


def _shown(ask: PlacementCall, provider: Provider) -> PlacementReply:
    vocabulary = ask.parts.replica.vocabulary
    names = vocabulary.traits.in_order(provider.traits)
    view = {"traits": names, _SEEN: provider.generation}
    return json_reply(view, modified_s=_newest(vocabulary, names))


def _newest(vocabulary: Vocabulary, names: Iterable[str]) -> float | None:
    """Return the latest creation time of the traits; None if there are none or one is unknown."""
    records = vocabulary.traits.records
    return newest(records[name].created_at_s if name in records else 0.0 for name in names)


def _names_asked(ask: PlacementCall) -> tuple[list[str] | None, str | None]:
    """Return the requested names and the requested prefix; at most one of them is not None.

    Raises:
        PlacementError: 400, the parameter `name` has no operator.
    """
    asked = ask.last("name")
    if asked is None:
        return None, None
    way, colon, value = asked.partition(":")
    if not colon:
        raise PlacementError(
            400,
            "Badly formatted name parameter. Expected name query string parameter in form: "
            f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{asked}"',
        )
    match way:
        case "in":
            return value.split(","), None
        case "startswith":
            return None, value
        case _:
            # Placement ignores unknown operators and lists all traits.
            return None, None


def _association_asked(ask: PlacementCall) -> bool | None:
    asked = ask.last("associated")
    if asked is None:
        return None
    if asked.lower() not in _ASSOCIATED:
        raise PlacementError(400, 'The query parameter "associated" only accepts "true" or "false"')
    return _ASSOCIATED[asked.lower()]


def _check_name(name: str) -> None:
    try:
        check({"name": name}, TRAIT_NAME)
    except PlacementError as error:
        raise PlacementError(
            400,
            "The trait is invalid. A valid trait must be no longer than 255 characters, start "
            'with the prefix "CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"',
        ) from error


def _no_trait(name: str) -> PlacementError:
    return PlacementError(404, f"No such trait(s): {name}.")
