"""Claims, the allocations they create, and the consumers that hold allocations."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Allocation:
    """The amounts that a consumer, such as an instance, holds on a provider, by resource class."""

    consumer_uuid: str
    provider_uuid: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """Allocations that the ledger must create together or not at all.

    `key` makes a claim idempotent: if the key was committed before, the ledger returns the first
    outcome and allocates nothing.
    """

    key: str
    allocations: tuple[Allocation, ...]


class ShortageRule(StrEnum):
    """The reason why a provider cannot provide an amount."""

    NO_PROVIDER = "no_provider"
    """The provider does not exist."""
    NO_INVENTORY = "no_inventory"
    """The provider has no inventory of the class."""
    UNITS = "units"
    """The amount is below `min_unit`, above `max_unit`, or not a multiple of `step_size`."""
    CAPACITY = "capacity"
    """The sum of all allocations would exceed the capacity."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """The reason why a claim was rejected: an amount that one provider cannot provide.

    `asked` and `left` are in the unit of the class. `left` is the amount that the provider could
    still allocate, and may be negative.
    """

    provider_uuid: str
    resource_class: str
    asked: int
    left: int
    rule: ShortageRule = ShortageRule.CAPACITY


INSTANCE_TYPE: Final = "INSTANCE"
"""The consumer type of instances."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """The holder of allocations, as clients of the Placement API describe it.

    Instances placed by Berth need no such record: their project, their user and the type `INSTANCE`
    follow from the instance.

    `consumer_type` is None if the client used a microversion without types. `generation` counts the
    replacements of the consumer's allocations; only the ledger changes it. Times are Unix seconds.
    """

    uuid: str
    project_id: str
    user_id: str
    consumer_type: str | None = None
    generation: int = 0
    created_at_s: float = 0.0
    updated_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """A consumer and the amounts that it holds, by provider and class, in the unit of the class."""

    consumer: Consumer
    allocations: Mapping[str, Mapping[str, int]]
