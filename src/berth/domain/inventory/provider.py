"""Resource providers: nodes of an inventory tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.inventory.resources import Inventory
from berth.domain.named_uuid import named_uuid


@dataclass(frozen=True, slots=True)
class Provider:
    """A node of an inventory tree and what of it is used.

    `used` is the sum of all allocations by class; only the ledger changes it. A host's own
    provider is a root: its `parent_uuid` is None.

    `aggregates` are uuids, in the order they were given, of the aggregates that the provider is
    in; a provider with the trait that says so shares what it has with all others that are in
    one of them. `owned_traits` and `owned_classes` are those that the host's agent reported
    last; the others came by the Placement API and are kept when it reports again. None is of
    records of before: all of it is the agent's. `owned_parent_uuid` is the parent that the agent
    reported last, which may have been changed since. Times are Unix seconds; 0 is unknown.
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
    """Return the uuid of the child that the agent of a host calls by that name."""
    return named_uuid(f"provider:{root_uuid}/{name}")
