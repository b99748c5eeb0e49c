"""Resource providers: the nodes of inventory trees."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.inventory.resources import Inventory
from berth.domain.uuids import named_uuid


@dataclass(frozen=True, slots=True)
class Provider:
    """A node of an inventory tree, with its inventories, its usage and its traits.

    `used` is the sum of all allocations by class; only the ledger changes it. The provider of a
    host is a root: its `parent_uuid` is None.

    `aggregates` are UUIDs in the order in which they were given. A provider with the sharing trait
    shares its inventory with all providers that have an aggregate in common with it.
    `owned_traits`, `owned_classes` and `owned_parent_uuid` are what the host's agent last reported:
    its next report replaces these and keeps what clients of the Placement API added or changed. The
    first two are None in records that predate the distinction; the agent then owns all traits and
    classes. Times are Unix seconds; 0 means unknown.
    """

    uuid: str
    name: str
    parent_uuid: str | None = None
    generation: int = 0
    inventories: Mapping[str, Inventory] = field(default_factory=dict[str, Inventory])
    used: Mapping[str, int] = field(default_factory=dict[str, int])
    traits: frozenset[str] = frozenset()
    aggregates: tuple[str, ...] = ()
    owned_traits: frozenset[str] | None = None
    owned_classes: frozenset[str] | None = None
    owned_parent_uuid: str | None = None
    created_at_s: float = 0.0
    updated_at_s: float = 0.0


def child_uuid(root_uuid: str, name: str) -> str:
    """Return the UUID of a child provider, derived from its root and the agent's name for it."""
    # The UUID is derived so that an agent that restarts or reports twice names the same provider.
    return named_uuid(f"provider:{root_uuid}/{name}")
