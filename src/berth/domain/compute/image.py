"""Images, as far as a placement depends on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
