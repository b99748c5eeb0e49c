"""Allocation ratios: the factors by which the capacity of hosts is overcommitted.

Source: nova-behaviour.md 3.

Only this module resolves ratios. The first source that sets one wins: the lowest ratio of the
host's aggregates, the settings of its agent, an operator at run time, the host's own report, the
ratio at registration, and the default of the resource class. A source whose ratio is 0 or missing
is skipped. The classes of `NEVER` always have the ratio 1.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, RATIO_MAX, VCPU

CLASS_DEFAULT: Final = 1.0
"""Ratio of classes without a configured default, whose capacity is not overcommitted."""

_NO_DEFAULTS: Final[Mapping[str, float]] = MappingProxyType({})
# Nova's names of these classes in metadata keys; other classes use their own name in lower case.
_NOVA_NAMES: Final = MappingProxyType({VCPU: "cpu", MEMORY_MB: "ram", DISK_GB: "disk"})

NEVER: Final = frozenset({"PCPU", "VGPU", "PCI_DEVICE"})
"""Classes that are never overcommitted, because their units are assigned individually."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """An effective ratio, and a description of its origin for operators."""

    value: float
    origin: str


def ratio_key(resource_class: str) -> str:
    """Return the aggregate metadata key of a class's ratio (`cpu_allocation_ratio`)."""
    return f"{_NOVA_NAMES.get(resource_class, resource_class.lower())}_allocation_ratio"


def resolve_ratio(
    resource_class: str,
    host: Host,
    *,
    aggregates: Iterable[Aggregate] = (),
    defaults: Mapping[str, float] = _NO_DEFAULTS,
) -> Ratio:
    """Return the effective allocation ratio of one resource class of a host.

    Args:
        resource_class: the class.
        host: the record of the host.
        aggregates: the aggregates that the host belongs to.
        defaults: configured default ratios by class.
    """
    if resource_class in NEVER:
        return Ratio(1.0, "never overcommitted")
    found = [(value, one.name) for one in aggregates if (value := _of(one, resource_class))]
    if found:
        # The lowest ratio wins, as in Nova's aggregate filters.
        lowest = min(value for value, _ in found)
        names = sorted(name for _, name in found)
        minimum = "minimum of aggregates" if len(names) > 1 else "aggregate"
        return Ratio(lowest, f"{minimum} {', '.join(names)}")
    sources = (
        (host.forced_ratios, "the agent's settings"),
        (host.operator_ratios, "set by an operator"),
        (host.allocation_ratios, "the host's own"),
        (host.initial_ratios, "initial, at registration"),
    )
    for values, origin in sources:
        value = values.get(resource_class, 0.0)
        # 0 means "not set", never "no capacity" (nova-behaviour.md 3).
        if value:
            return Ratio(value, origin)
    return Ratio(defaults.get(resource_class) or CLASS_DEFAULT, "default of the class")


def _of(aggregate: Aggregate, resource_class: str) -> float | None:
    """Return the ratio that an aggregate sets; None if missing, 0, invalid or out of range."""
    try:
        value = float(aggregate.metadata.get(ratio_key(resource_class), ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value <= RATIO_MAX else None
