"""JSON views of allocations: by provider for a consumer, by consumer for a provider."""

from collections.abc import Iterable, Mapping
from typing import Any

from berth.domain.inventory.allocation import Consumer, ConsumerAllocations

UNKNOWN_TYPE = "unknown"
"""The type shown for consumers that were created without one."""

# Microversions that added the owner, the generation and the type of a consumer.
_SHOWS_OWNER = 12
_SHOWS_GENERATION = 28
_SHOWS_TYPE = 38


def consumer_view(
    holding: ConsumerAllocations | None, generations: Mapping[str, int], minor: int
) -> dict[str, Any]:
    """Return a consumer's allocations; if there are none, only `allocations`, which is empty.

    Args:
        holding: the allocations, or None.
        generations: generations of the providers by uuid.
        minor: microversion.
    """
    if holding is None:
        return {"allocations": {}}
    allocations = {
        uuid: {"resources": amounts, "generation": generations[uuid]}
        for uuid, amounts in holding.allocations.items()
    }
    return {"allocations": allocations, **_consumer(holding.consumer, minor)}


def provider_allocations_view(
    holdings: Iterable[ConsumerAllocations], uuid: str, generation: int, minor: int
) -> dict[str, Any]:
    """Return the allocations against a provider, keyed by consumer.

    Args:
        holdings: allocations of the consumers that hold something on that provider.
        uuid: uuid of the provider.
        generation: generation of the provider.
        minor: microversion.
    """
    allocations: dict[str, dict[str, Any]] = {}
    for holding in holdings:
        view: dict[str, Any] = {"resources": holding.allocations[uuid]}
        if minor >= _SHOWS_GENERATION:
            view["consumer_generation"] = holding.consumer.generation
        allocations[holding.consumer.uuid] = view
    return {"allocations": allocations, "resource_provider_generation": generation}


def _consumer(consumer: Consumer, minor: int) -> dict[str, Any]:
    view: dict[str, Any] = {}
    if minor >= _SHOWS_OWNER:
        view |= {"project_id": consumer.project_id, "user_id": consumer.user_id}
    if minor >= _SHOWS_GENERATION:
        view["consumer_generation"] = consumer.generation
    if minor >= _SHOWS_TYPE:
        view["consumer_type"] = type_of(consumer)
    return view


def type_of(consumer: Consumer) -> str:
    """Return the type of a consumer as clients see it, `unknown` if it has none."""
    return consumer.consumer_type or UNKNOWN_TYPE
