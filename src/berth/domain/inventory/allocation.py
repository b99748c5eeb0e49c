"""Claims and allocations: what is offered to the ledger and what it has committed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one consumer (an instance) uses of one provider, by resource class."""

    consumer_uuid: str
    provider_uuid: str
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """Allocations to be made together or not at all.

    `key` makes a retry harmless: a claim whose key has been committed answers with the first
    outcome and takes nothing more.
    """

    key: str
    allocations: tuple[Allocation, ...]


class ShortageRule(StrEnum):
    """What stood in the way of an amount."""

    NO_PROVIDER = "no_provider"
    NO_INVENTORY = "no_inventory"
    """The provider has nothing of the class."""
    UNITS = "units"
    """Below `min_unit`, above `max_unit`, or no multiple of `step_size`."""
    CAPACITY = "capacity"
    """All allocations together would be more than the capacity."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a claim was refused: one class of one provider has less left than was asked."""

    provider_uuid: str
    resource_class: str
    asked: int
    left: int
    rule: ShortageRule = ShortageRule.CAPACITY


INSTANCE_TYPE: Final = "INSTANCE"
"""Type of consumers that are instances."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who holds allocations, as clients of the Placement API said.

    An instance that Berth placed needs no such record: its project, its user and the type
    `INSTANCE` follow from the instance.

    `consumer_type` is None for one that was made before clients told it. `generation` counts how
    often its allocations were replaced; only the ledger changes it. Times are Unix seconds.
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
    """A consumer with what it holds, by provider and class, in the unit of the class."""

    consumer: Consumer
    allocations: Mapping[str, Mapping[str, int]]
