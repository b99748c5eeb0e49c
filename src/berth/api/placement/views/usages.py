"""Usages of a project as JSON: sums of what its consumers hold, in all or by their types."""

from collections.abc import Callable, Iterable
from typing import Any

from berth.api.placement.views.allocations import type_of
from berth.domain.inventory.allocation import ConsumerAllocations

ALL_TYPES = "all"

_COUNT = "consumer_count"
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
