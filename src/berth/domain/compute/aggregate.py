"""Host aggregates: named sets of hosts with metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field

AZ_KEY = "availability_zone"
"""Metadata key with the availability zones of an aggregate, separated by commas."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A named set of hosts, by host name, with metadata that filters and weighers read.

    Times are Unix seconds; `created_at_s` is 0 if unknown, and `updated_at_s` is None if the
    aggregate has never been changed.
    """

    aggregate_id: int
    uuid: str
    name: str
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    created_at_s: float = 0.0
    updated_at_s: float | None = None

    @property
    def availability_zones(self) -> frozenset[str]:
        """The availability zones that the metadata names; empty if it names none."""
        names = self.metadata.get(AZ_KEY, "").split(",")
        return frozenset(name.strip() for name in names if name.strip())
