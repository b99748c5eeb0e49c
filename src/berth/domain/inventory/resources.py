"""Resource classes, amounts and inventories.

An amount is an integer in the unit of its class: VCPU counts, MEMORY_MB is in MiB, DISK_GB in
GiB, a custom class in whatever its name says.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from berth.domain.errors import InvalidInputError

VCPU = "VCPU"
PCPU = "PCPU"
MEMORY_MB = "MEMORY_MB"
DISK_GB = "DISK_GB"

AMOUNT_MAX = 2**53 - 1
"""Largest amount taken: what a JSON number carries without loss."""

RATIO_MAX = 10_000.0
"""Largest allocation ratio that the agent of a host, or an aggregate, may set."""

RATIO_BOUND = 3.40282e38
"""What no allocation ratio is beyond, above 0 or below: the limit of the Placement API."""

_NAME = re.compile(r"[A-Z0-9_]{1,255}")


def check_name(name: str, field: str) -> str:
    """Return `name` when it is a resource class or trait name, as Placement spells them.

    Raises:
        InvalidInputError: it holds anything but A-Z, 0-9 and `_`, or is longer than 255.
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(field, f"{name[:80]!r} must be 1 to 255 of A-Z, 0-9 and _")
    return name


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much of one resource class a provider has, and how it may be asked for.

    Units are those of the class. `allocation_ratio` multiplies what is left after `reserved`.
    A single request may never ask for more than `max_unit`, whatever the ratio: a host does not
    overcommit against itself (0 means the total, as no one request can get more than there is).

    The Placement API takes inventories that have nothing to give: more may be reserved than there
    is, and the ratio may be 0 or negative. What agents report is checked by `check_reported`.
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 0
    step_size: int = 1
    allocation_ratio: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what could not be an inventory.

        Raises:
            InvalidInputError: a negative amount, a unit below 1, or a ratio that is no number.
        """
        for field in ("total", "reserved", "min_unit", "max_unit", "step_size"):
            value = getattr(self, field)
            if not 0 <= value <= AMOUNT_MAX:
                raise InvalidInputError(field, f"{value} must be between 0 and {AMOUNT_MAX}")
        if self.min_unit < 1 or self.step_size < 1:
            raise InvalidInputError("min_unit, step_size", "must be at least 1")
        ratio = self.allocation_ratio
        if not abs(ratio) <= RATIO_BOUND:  # which a NaN is not, either
            raise InvalidInputError(
                "allocation_ratio", f"{ratio} must be between -{RATIO_BOUND:g} and {RATIO_BOUND:g}"
            )

    @property
    def capacity(self) -> int:
        """What all allocations together may use: (total - reserved) x ratio, without a fraction.

        It may be negative. It is between -AMOUNT_MAX and AMOUNT_MAX, so that sums of it stay
        exact everywhere.
        """
        capacity = int((self.total - self.reserved) * self.allocation_ratio)
        return max(-AMOUNT_MAX, min(capacity, AMOUNT_MAX))

    @property
    def unit_max(self) -> int:
        """The most that one allocation may ask for, in the unit of the class."""
        return self.max_unit or self.total


def check_reported(inventory: Inventory) -> None:
    """Check what the agent of a host says of itself.

    Raises:
        InvalidInputError: reserved above the total, or a ratio that is not above 0 or too high.
    """
    if inventory.reserved > inventory.total:
        raise InvalidInputError(
            "reserved", f"{inventory.reserved} is above the total {inventory.total}"
        )
    ratio = inventory.allocation_ratio
    if not 0 < ratio <= RATIO_MAX:
        raise InvalidInputError(
            "allocation_ratio", f"{ratio} must be above 0 and at most {RATIO_MAX}"
        )


def add_amounts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Sum two amounts class by class."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


@dataclass(frozen=True, slots=True)
class ResourceClass:
    """A resource class that somebody made; standard ones need no record.

    `number` tells the order in which classes were made. Times are Unix seconds; 0 is unknown.
    """

    name: str
    number: int
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait that somebody made; standard ones need no record.

    `number` tells the order in which traits were made. Times are Unix seconds; 0 is unknown.
    """

    name: str
    number: int
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StandardNames:
    """The names that all of OpenStack knows, in the order that lists of them have."""

    classes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
