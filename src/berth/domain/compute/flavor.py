"""Flavors: what one instance is asked to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX


@dataclass(frozen=True, slots=True)
class Flavor:
    """A named size with extra specs, as the compute API knows it."""

    flavor_id: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict[str, str])
    is_public: bool = True
    disabled: bool = False
    rxtx_factor: float = 1.0
    description: str | None = None

    def __post_init__(self) -> None:
        """Refuse negative or absurd sizes.

        Raises:
            InvalidInputError: naming the field.
        """
        for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"):
            value = getattr(self, name)
            if not 0 <= value <= AMOUNT_MAX:
                raise InvalidInputError(name, f"{value} must be between 0 and {AMOUNT_MAX}")


@dataclass(frozen=True, slots=True)
class Image:
    """An image's id and the properties that rules read (`hw_architecture`, `trait:...`)."""

    image_id: str
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    min_memory_mb: int = 0
    min_disk_gb: int = 0

    @property
    def traits(self) -> dict[str, str]:
        """The `trait:NAME` properties, as flavors write them."""
        return {k: v for k, v in self.properties.items() if k.startswith("trait:")}
