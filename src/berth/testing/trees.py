"""Child providers for the host of a `Box`, for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory

GPU_MILLI = "CUSTOM_GPU_MILLI"
"""Resource class counted in thousandths of one GPU."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child provider; `under` is the name of its parent, or empty if that is the root."""

    name: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict[str, Inventory])
    used: Mapping[str, int] = field(default_factory=dict[str, int])
    traits: frozenset[str] = frozenset()
    under: str = ""


def child_uuid(root_uuid: str, name: str) -> str:
    """Return the uuid of the child with the given name under the given root."""
    return f"{root_uuid}/{name}"


def children_of(root_uuid: str, children: Sequence[Child]) -> tuple[Provider, ...]:
    """Return the children of a root as providers."""
    return tuple(
        Provider(
            uuid=child_uuid(root_uuid, child.name),
            name=child.name,
            parent_uuid=child_uuid(root_uuid, child.under) if child.under else root_uuid,
            inventories=child.inventories,
            used=child.used,
            traits=child.traits,
        )
        for child in children
    )


def gpus(*free_milli: int, traits: frozenset[str] = frozenset()) -> tuple[Child, ...]:
    """Return GPUs named `GPU 0`, `GPU 1`, ...; each argument is the free thousandths of one."""
    return tuple(
        Child(
            f"GPU {number}",
            {GPU_MILLI: Inventory(1000)},
            {GPU_MILLI: 1000 - free} if free < 1000 else {},  # noqa: PLR2004 - one whole GPU
            traits,
        )
        for number, free in enumerate(free_milli)
    )
