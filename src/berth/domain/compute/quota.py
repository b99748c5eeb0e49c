"""Quotas: how much of each thing a project may have, and what an instance counts for."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import BerthError

UNLIMITED: Final = -1
"""A limit that does not limit, as clients write it."""


CLASS_DEFAULT: Final = "class:default"
"""The key of the quota that counts for every project, where the project's own says nothing."""


_CLIENT_NAMES: Final = {
    "instances": "instances",
    "vcpus": "cores",
    "memory_mb": "ram",
    "server_groups": "server_groups",
    "group_members": "server_group_members",
}
"""What clients call what a quota limits."""


class Footprint(NamedTuple):
    """What instances come to, or may come to: their number, virtual CPUs, memory in MiB."""

    instances: int = 0
    vcpus: int = 0
    memory_mb: int = 0

    def plus(self, other: "Footprint", times: int = 1) -> "Footprint":
        """Return the sum with so many times another."""
        return Footprint(
            self.instances + times * other.instances,
            self.vcpus + times * other.vcpus,
            self.memory_mb + times * other.memory_mb,
        )


NO_FOOTPRINT: Final = Footprint()


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

    def overridden_by(self, quota: Quota | None) -> Self:
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


class Excess(NamedTuple):
    """A thing of which a project would have more than it may.

    `name` is a field of `Footprint`. `asked` comes on top of `used`; `used` may be above `limit`.
    """

    name: str
    asked: int
    used: int
    limit: int

    def fitting(self, count: int) -> int:
        """Return how many would fit, of the `count` alike that were asked for together."""
        each = self.asked // count
        return max(0, self.limit - self.used) // each if each else count


def sum_of(footprints: Iterable[Footprint]) -> Footprint:
    """Return what all of them come to."""
    total = NO_FOOTPRINT
    for one in footprints:
        total = total.plus(one)
    return total


def excess_of(before: Footprint, after: Footprint, limits: Footprint) -> tuple[Excess, ...]:
    """Return what is too much of what is there, among that of which there is more than before.

    So whoever is above a limit that was lowered may still do what asks for no more.
    """
    rows = zip(Footprint._fields, before, after, limits, strict=True)
    return tuple(
        Excess(name, now - was, was, limit)
        for name, was, now, limit in rows
        if now > was and now > limit != UNLIMITED
    )


class QuotaExceededError(BerthError):
    """A project would have more than it may; nothing was kept.

    Args:
        excess: of what, and by how much.
    """

    def __init__(self, excess: tuple[Excess, ...]) -> None:
        # The words that clients know from Nova, in its order.
        rows = sorted(excess, key=lambda one: _CLIENT_NAMES[one.name])
        names = ", ".join(_CLIENT_NAMES[one.name] for one in rows)
        asked, used, limits = (", ".join(str(one[column]) for one in rows) for column in (1, 2, 3))
        super().__init__(
            f"Quota exceeded for {names}: Requested {asked}, but already used {used} of {limits} "
            f"{names}"
        )
        self.excess = excess
