"""Host aggregates: named sets of hosts with metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field

AZ_KEY = "availability_zone"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set of hosts, by host name, with the metadata that rules read."""

    aggregate_id: int
    uuid: str
    name: str
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    created_at_s: float = 0.0
    updated_at_s: float | None = None

    @property
    def availability_zones(self) -> frozenset[str]:
        """The availability zones that this aggregate puts its hosts in (comma list)."""
        names = self.metadata.get(AZ_KEY, "").split(",")
        return frozenset(name.strip() for name in names if name.strip())
