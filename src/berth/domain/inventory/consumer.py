"""Consumers: who holds allocations, and all that one of them holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
class Holding:
    """A consumer with what it holds, by provider and class, in the unit of the class."""

    consumer: Consumer
    allocations: Mapping[str, Mapping[str, int]]
