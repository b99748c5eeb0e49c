"""Aggregates that a provider is in."""

from typing import Any

from berth.api.placement.actions import Ask, Reply, json_reply
from berth.api.placement.finding import provider_of
from berth.api.placement.refusing import AGAIN, concurrent, told
from berth.domain.inventory.provider import Provider
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule

CHANGED = (
    "Resource provider's generation already changed. Please update the generation and try again."
)
_COUNTS_SINCE = 19
_SEEN = "resource_provider_generation"


async def list_aggregates(ask: Ask) -> Reply:
    """Show the aggregates that a provider is in."""
    return _shown(ask, await provider_of(ask))


async def update_aggregates(ask: Ask) -> Reply:
    """Replace the aggregates of a provider; before 1.19 without looking at its generation."""
    data: Any = ask.data
    uuid = ask.key("uuid")
    counts = ask.minor >= _COUNTS_SINCE
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
    return _shown(ask, provider)


def _shown(ask: Ask, provider: Provider) -> Reply:
    view: dict[str, Any] = {"aggregates": provider.aggregates}
    if ask.minor >= _COUNTS_SINCE:
        view[_SEEN] = provider.generation
    return json_reply(view)
