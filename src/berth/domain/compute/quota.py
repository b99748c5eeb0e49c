"""Quotas: how much of each thing a project may have, and what an instance counts for."""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

from berth.domain.compute.footprint import UNLIMITED, Footprint
from berth.domain.compute.instance import Instance, Status

CLASS_DEFAULT: Final = "class:default"
"""The key of the quota that counts for every project, where the project's own says nothing."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a project may have at most; None where it says nothing, -1 where there is no limit.

    `project_id` is the project's, or `CLASS_DEFAULT`.
    """

    project_id: str
    instances: int | None = None
    vcpus: int | None = None
    memory_mb: int | None = None
    server_groups: int | None = None
    group_members: int | None = None
    """Instances in one server group."""


LIMITED: Final = tuple(field.name for field in fields(Quota) if field.name != "project_id")
"""What a quota may limit."""


class Limits(NamedTuple):
    """What a project may have at most, when all has been said; -1 is no limit."""

    instances: int = UNLIMITED
    vcpus: int = UNLIMITED
    memory_mb: int = UNLIMITED
    server_groups: int = UNLIMITED
    group_members: int = UNLIMITED

    @property
    def footprint(self) -> Footprint:
        """The limits that all instances of a project have in common."""
        return Footprint(self.instances, self.vcpus, self.memory_mb)

    def but_for(self, quota: Quota | None) -> Self:
        """Return the limits with what a quota says in their place."""
        if quota is None:
            return self
        said = {name: getattr(quota, name) for name in LIMITED}
        return self._replace(**{name: limit for name, limit in said.items() if limit is not None})


def footprint_of(instance: Instance) -> Footprint | None:
    """Return what an instance counts for, from when it is accepted; None once it is deleted.

    While it is resized it counts for the larger of both sizes, so that neither end of the resize
    can be refused.
    """
    if instance.status is Status.DELETED:
        return None
    flavor = instance.flavor
    return Footprint(1, *(instance.counts_as or (flavor.vcpus, flavor.memory_mb)))
