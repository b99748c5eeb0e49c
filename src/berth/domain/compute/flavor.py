"""Flavors and images: the size of an instance and what it boots from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX


@dataclass(frozen=True, slots=True)
class Flavor:
    """A named size with extra specs, as in the compute API.

    Memory and swap are in MiB, disks in GiB. `disabled` and `rxtx_factor` are kept for clients; no
    rule reads them.
    """

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
        """Reject sizes that are negative or above AMOUNT_MAX.

        Raises:
            InvalidInputError: a size is out of range; the error names the field.
        """
        for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"):
            value = getattr(self, name)
            if not 0 <= value <= AMOUNT_MAX:
                raise InvalidInputError(name, f"{value} must be between 0 and {AMOUNT_MAX}")


@dataclass(frozen=True, slots=True)
class Image:
    """The id of an image and the properties that rules read (`hw_architecture`, `trait:...`).

    `min_memory_mb` (MiB) and `min_disk_gb` (GiB) are the smallest memory and root disk of a flavor
    with which the image can be used; 0 means no limit.
    """

    image_id: str
    name: str = ""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    min_memory_mb: int = 0
    min_disk_gb: int = 0

    @property
    def traits(self) -> dict[str, str]:
        """The `trait:NAME` properties, in the syntax of flavor extra specs."""
        return {k: v for k, v in self.properties.items() if k.startswith("trait:")}
