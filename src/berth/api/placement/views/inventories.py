"""Inventories, and what is used of them, as JSON."""

from collections.abc import Mapping
from typing import Any

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory

_GENERATION = "resource_provider_generation"


def inventory_view(inventory: Inventory, generation: int = 0) -> dict[str, Any]:
    """Write one inventory; the generation of the provider is told as soon as it is not 0."""
    told: dict[str, Any] = {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.unit_max,
        "step_size": inventory.step_size,
        "allocation_ratio": inventory.allocation_ratio,
    }
    return {**told, _GENERATION: generation} if generation else told


def inventories_view(provider: Provider) -> dict[str, Any]:
    """Write all inventories of a provider."""
    has = {name: inventory_view(one) for name, one in provider.inventories.items()}
    return {_GENERATION: provider.generation, "inventories": has}


def usages_view(used: Mapping[str, int], generation: int) -> dict[str, Any]:
    """Write what is used of a provider, by every class that it has."""
    return {_GENERATION: generation, "usages": used}
