"""Inventories, and what is used of them, as JSON."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from berth.api.placement.views.allocations import type_of
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory

ALL_TYPES = "all"
_COUNT = "consumer_count"

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


_Order = Callable[[Iterable[str]], list[str]]


def usages_of_project(holdings: Iterable[ConsumerAllocations], order: _Order) -> dict[str, Any]:
    """Write what a project uses, by resource class.

    Args:
        holdings: of its consumers.
        order: puts resource classes in order.
    """
    return {"usages": _sums(holdings, order)}


def usages_by_type(
    holdings: Iterable[ConsumerAllocations], wanted: str | None, order: _Order
) -> dict[str, Any]:
    """Write what a project uses, by type of consumer, with how many there are of each.

    Args:
        holdings: of its consumers.
        wanted: only this type, `unknown` for consumers without one; `all` puts every type
            together, and None tells of each.
        order: puts resource classes in order.
    """
    groups: dict[str, list[ConsumerAllocations]] = {}
    for holding in holdings:
        kind = ALL_TYPES if wanted == ALL_TYPES else type_of(holding.consumer)
        if wanted in (None, kind):
            groups.setdefault(kind, []).append(holding)
    told = {kind: {**_sums(group, order), _COUNT: len(group)} for kind, group in groups.items()}
    return {"usages": told}


def _sums(holdings: Iterable[ConsumerAllocations], order: _Order) -> dict[str, int]:
    sums: dict[str, int] = {}
    for holding in holdings:
        for amounts in holding.allocations.values():
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount
    return {name: sums[name] for name in order(sums)}
