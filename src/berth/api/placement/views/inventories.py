"""JSON views of inventories and usages."""

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
    """Return one inventory, with its provider's `generation` unless that is 0."""
    view: dict[str, Any] = {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.unit_max,
        "step_size": inventory.step_size,
        "allocation_ratio": inventory.allocation_ratio,
    }
    return {**view, _GENERATION: generation} if generation else view


def inventories_view(provider: Provider) -> dict[str, Any]:
    """Return all inventories of a provider."""
    has = {name: inventory_view(one) for name, one in provider.inventories.items()}
    return {_GENERATION: provider.generation, "inventories": has}


def usages_view(used: Mapping[str, int], generation: int) -> dict[str, Any]:
    """Return the usage of a provider by resource class."""
    return {_GENERATION: generation, "usages": used}


_Order = Callable[[Iterable[str]], list[str]]


def usages_of_project(holdings: Iterable[ConsumerAllocations], order: _Order) -> dict[str, Any]:
    """Return the usage of a project by resource class.

    Args:
        holdings: allocations of the project's consumers.
        order: sorts resource classes.
    """
    return {"usages": _sums(holdings, order)}


def usages_by_type(
    holdings: Iterable[ConsumerAllocations], wanted: str | None, order: _Order
) -> dict[str, Any]:
    """Return the usage of a project by consumer type, with the number of consumers.

    Args:
        holdings: allocations of the project's consumers.
        wanted: the only type to include, `unknown` for consumers without a type; `all` sums over
            all types, and None lists each type.
        order: sorts resource classes.
    """
    groups: dict[str, list[ConsumerAllocations]] = {}
    for holding in holdings:
        kind = ALL_TYPES if wanted == ALL_TYPES else type_of(holding.consumer)
        if wanted in (None, kind):
            groups.setdefault(kind, []).append(holding)
    usages = {kind: {**_sums(group, order), _COUNT: len(group)} for kind, group in groups.items()}
    return {"usages": usages}


def _sums(holdings: Iterable[ConsumerAllocations], order: _Order) -> dict[str, int]:
    sums: dict[str, int] = {}
    for holding in holdings:
        for amounts in holding.allocations.values():
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount
    return {name: sums[name] for name in order(sums)}
