"""Allocation ratios: how far a host's capacity is stretched, and which setting decides.

Source: D2, nova-behaviour.md 3.

The ratio belongs to the host, and is worked out here and nowhere else. The lowest ratio of the
host's aggregates counts; else what the settings of its agent say; else what an operator has set
while it runs; else what the host reports of itself; else the one it got when it was first
registered; else that of the class. Everywhere 0, or nothing, says "inherit".
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
"""Of classes that the defaults do not name: what cannot be shared is not promised twice."""

_NO_DEFAULTS: Final[Mapping[str, float]] = MappingProxyType({})
_NOVA_NAMES: Final = MappingProxyType({VCPU: "cpu", MEMORY_MB: "ram", DISK_GB: "disk"})

NEVER: Final = frozenset({"PCPU", "VGPU", "PCI_DEVICE"})
"""Classes that are never overcommitted: their units are given out one by one."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio in force, with its origin in words for an operator."""

    value: float
    origin: str


def key_of(resource_class: str) -> str:
    """Return the aggregate metadata key of a class's ratio (`cpu_allocation_ratio`)."""
    return f"{_NOVA_NAMES.get(resource_class, resource_class.lower())}_allocation_ratio"


def resolve(
    resource_class: str,
    host: Host,
    *,
    aggregates: Iterable[Aggregate] = (),
    defaults: Mapping[str, float] = _NO_DEFAULTS,
) -> Ratio:
    """Work out the ratio of one class of a host.

    Args:
        resource_class: the class.
        host: what is known of it.
        aggregates: those that the host is in.
        defaults: ratios of classes when nobody says anything.
    """
    if resource_class in NEVER:
        return Ratio(1.0, "never overcommitted")
    found = [(value, one.name) for one in aggregates if (value := _of(one, resource_class))]
    if found:
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
        if value:
            return Ratio(value, origin)
    return Ratio(defaults.get(resource_class) or CLASS_DEFAULT, "default of the class")


def _of(aggregate: Aggregate, resource_class: str) -> float | None:
    """Read an aggregate's ratio; None for one that is no number, 0 or out of range."""
    try:
        value = float(aggregate.metadata.get(key_of(resource_class), ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value <= RATIO_MAX else None
