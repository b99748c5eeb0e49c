"""Resource classes, traits, amounts and inventories.

An amount is an integer in the unit of its class: VCPU and PCPU count CPUs, MEMORY_MB is in MiB,
DISK_GB in GiB, and the unit of a custom class follows from its name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from berth.domain.errors import InvalidInputError

VCPU = "VCPU"
"""Virtual CPUs that float over the shared CPUs of a host."""
PCPU = "PCPU"
"""CPUs of a host that are dedicated to one guest each."""
MEMORY_MB = "MEMORY_MB"
"""Memory in MiB."""
DISK_GB = "DISK_GB"
"""Disk space in GiB."""

AMOUNT_MAX = 2**53 - 1
"""Largest amount of any class: the largest integer that a JSON number carries without loss."""

RATIO_MAX = 10_000.0
"""Largest allocation ratio that a host or an aggregate may have."""

RATIO_BOUND = 3.40282e38
"""Largest absolute value of an allocation ratio that the Placement API accepts."""

_NAME = re.compile(r"[A-Z0-9_]{1,255}")


def check_name(name: str, field: str) -> str:
    """Return `name` if it is a valid resource class or trait name, as in Placement.

    Raises:
        InvalidInputError: the name is empty, has more than 255 characters, or contains characters
            other than A-Z, 0-9 and `_`.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            field, f"{name[:80]!r} must consist of 1 to 255 characters from A-Z, 0-9 and _"
        )
    return name


@dataclass(frozen=True, slots=True)
class Inventory:
    """The capacity of one resource class on a provider, and the valid sizes of an allocation.

    All amounts are in the unit of the class. `allocation_ratio` multiplies what remains after
    `reserved`. A single allocation never exceeds `max_unit`, whatever the ratio, because a host
    does not overcommit against a single guest. A `max_unit` of 0 means `total`.

    The Placement API accepts inventories without capacity: `reserved` may exceed `total`, and the
    ratio may be 0 or negative. Inventories reported by agents are subject to `check_reported`.
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 0
    step_size: int = 1
    allocation_ratio: float = 1.0

    def __post_init__(self) -> None:
        """Reject amounts, units and ratios that are out of range.

        Raises:
            InvalidInputError: an amount is negative or above AMOUNT_MAX, `min_unit` or `step_size`
                is below 1, or the ratio is not finite or beyond ±RATIO_BOUND.
        """
        for field in ("total", "reserved", "min_unit", "max_unit", "step_size"):
            value = getattr(self, field)
            if not 0 <= value <= AMOUNT_MAX:
                raise InvalidInputError(field, f"{value} must be between 0 and {AMOUNT_MAX}")
        if self.min_unit < 1 or self.step_size < 1:
            reason = f"{self.min_unit} and {self.step_size} must both be at least 1"
            raise InvalidInputError("min_unit, step_size", reason)
        ratio = self.allocation_ratio
        # The comparison is negated so that NaN, for which every comparison is false, is rejected.
        if not abs(ratio) <= RATIO_BOUND:
            raise InvalidInputError(
                "allocation_ratio", f"{ratio} must be between -{RATIO_BOUND:g} and {RATIO_BOUND:g}"
            )

    @property
    def capacity(self) -> int:
        """The limit on the sum of all allocations: (total - reserved) * ratio, rounded towards 0.

        The limit may be negative. It is clamped to ±AMOUNT_MAX so that sums stay exact in JSON, SQL
        and NumPy.
        """
        capacity = int((self.total - self.reserved) * self.allocation_ratio)
        return max(-AMOUNT_MAX, min(capacity, AMOUNT_MAX))

    @property
    def unit_max(self) -> int:
        """The largest amount that one allocation may have, in the unit of the class."""
        return self.max_unit or self.total


def check_reported(inventory: Inventory) -> None:
    """Reject an inventory that an agent must not report.

    Raises:
        InvalidInputError: `reserved` exceeds `total`, or the ratio is not in (0, RATIO_MAX].
    """
    if inventory.reserved > inventory.total:
        raise InvalidInputError(
            "reserved", f"{inventory.reserved} must be at most the total {inventory.total}"
        )
    ratio = inventory.allocation_ratio
    if not 0 < ratio <= RATIO_MAX:
        raise InvalidInputError(
            "allocation_ratio", f"{ratio} must be above 0 and at most {RATIO_MAX}"
        )


def add_amounts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of two sets of amounts, class by class."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


@dataclass(frozen=True, slots=True)
class ResourceClass:
    """A custom resource class; standard classes need no record.

    `number` orders custom classes by their creation. `created_at_s` is Unix seconds; 0 is unknown.
    """

    name: str
    number: int
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trait:
    """A custom trait; standard traits need no record.

    `number` orders custom traits by their creation. `created_at_s` is Unix seconds; 0 is unknown.
    """

    name: str
    number: int
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StandardNames:
    """The standard resource classes and traits of OpenStack, in the order of the API's lists."""

    classes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
