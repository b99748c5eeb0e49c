"""Quotas: the limits of a project, and the footprint of its instances.

Usage is derived from the instances and never stored (docs/adr/0024-quotas.md).
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final, NamedTuple, Self

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import BerthError

UNLIMITED: Final = -1
"""The value of a limit that permits any amount, as in the compute API."""

CLASS_DEFAULT: Final = "class:default"
"""Key of the quota whose limits apply to every project that has no limit of its own."""

# Names of the quotas in the compute API.
_CLIENT_NAMES: Final = {
    "instances": "instances",
    "vcpus": "cores",
    "memory_mb": "ram",
    "server_groups": "server_groups",
    "group_members": "server_group_members",
    "key_pairs": "key_pairs",
    # Glance's names; the size is in MiB.
    "images": "image_count_total",
    "image_mb": "image_size_total",
}
# Nova's message for a limit whose error names no numbers.
_TEXTS: Final = {"key_pairs": "Quota exceeded, too many key pairs."}
METADATA_ITEMS_MAX: Final = 128
"""Maximum number of metadata items of a server, and the quota by default, as in Nova."""
FILES_MAX: Final = 10
"""Maximum number of files to inject into a server, so that they fit into its config drive."""
FILE_BYTES_MAX: Final = 16_384
"""Maximum size of the content of a file to inject, in bytes of base64."""
PATH_BYTES_MAX: Final = 255
"""Maximum length of the path of a file to inject, in bytes, and the default quota, as in Nova."""
MAXIMA: Final = {
    "metadata_items": METADATA_ITEMS_MAX,
    "injected_files": FILES_MAX,
    "injected_file_content_bytes": FILE_BYTES_MAX,
    "injected_file_path_bytes": PATH_BYTES_MAX,
}
"""Upper bounds of some limits; they apply even if the limit is -1."""
KEY_PAIRS_DEFAULT: Final = 100
"""The number of key pairs that a user may have by default, as in Nova."""
IMAGES_DEFAULT: Final = 200
"""The number of images of servers that a project may have by default."""
IMAGE_GB_DEFAULT: Final = 1000
"""The size in GiB that they may have together by default."""


class Footprint(NamedTuple):
    """The quota usage of some instances: their number, virtual CPUs, and memory in MiB."""

    instances: int = 0
    vcpus: int = 0
    memory_mb: int = 0

    def plus(self, other: "Footprint", times: int = 1) -> "Footprint":
        """Return this footprint plus another one multiplied by `times`."""
        return Footprint(
            self.instances + times * other.instances,
            self.vcpus + times * other.vcpus,
            self.memory_mb + times * other.memory_mb,
        )


NO_FOOTPRINT: Final = Footprint()
"""The footprint of no instances."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one project; None inherits a limit and -1 means unlimited.

    `project_id` is the id of the project, or `CLASS_DEFAULT`. `memory_mb` is in MiB.
    """

    project_id: str
    instances: int | None = None
    vcpus: int | None = None
    memory_mb: int | None = None
    server_groups: int | None = None
    group_members: int | None = None
    """Maximum number of instances in one server group."""
    key_pairs: int | None = None
    """Maximum number of key pairs of one user of the project."""
    metadata_items: int | None = None
    """Maximum number of metadata items of one server."""
    injected_files: int | None = None
    """Maximum number of files to inject into one server."""
    injected_file_content_bytes: int | None = None
    """Maximum size of the content of one such file, in bytes of base64."""
    injected_file_path_bytes: int | None = None
    """Maximum length of the path of one such file, in bytes."""


LIMITED: Final = tuple(field.name for field in fields(Quota) if field.name != "project_id")
"""Names of the limits of a `Quota`."""


class Limits(NamedTuple):
    """The effective limits of a project, after inheritance; -1 means unlimited."""

    instances: int = UNLIMITED
    vcpus: int = UNLIMITED
    memory_mb: int = UNLIMITED
    server_groups: int = UNLIMITED
    group_members: int = UNLIMITED
    key_pairs: int = KEY_PAIRS_DEFAULT
    metadata_items: int = METADATA_ITEMS_MAX
    # The following defaults are Nova's.
    injected_files: int = 5
    injected_file_content_bytes: int = 10_240
    injected_file_path_bytes: int = PATH_BYTES_MAX
    # Images of servers. Quotas of single projects do not have these two, as in Nova.
    images: int = IMAGES_DEFAULT
    image_gb: int = IMAGE_GB_DEFAULT

    def bounded(self, name: str) -> int:
        """Return the effective value of a limit in `MAXIMA`; -1 stands for its upper bound."""
        limit: int = getattr(self, name)
        return MAXIMA[name] if limit == UNLIMITED else min(limit, MAXIMA[name])

    @property
    def footprint(self) -> Footprint:
        """The limits on the sum of all instances of a project."""
        return Footprint(self.instances, self.vcpus, self.memory_mb)

    def overridden_by(self, quota: Quota | None) -> Self:
        """Return these limits overridden by those that a quota sets; None changes nothing."""
        if quota is None:
            return self
        own = {name: getattr(quota, name) for name in LIMITED}
        return self._replace(**{name: limit for name, limit in own.items() if limit is not None})


def footprint_of(instance: Instance) -> Footprint | None:
    """Return the footprint of an instance; None once the instance is deleted or soft-deleted.

    An instance has a footprint from the moment its request is accepted. During a resize the larger
    of both sizes is charged, so neither confirming nor reverting the resize can exceed the quota.
    A soft-deleted instance counts again from the moment its restore is requested.
    """
    if instance.status is Status.DELETED:
        return None
    if instance.status is Status.SOFT_DELETED and instance.task is not Task.RESTORING:
        return None
    flavor = instance.flavor
    return Footprint(1, *(instance.counts_as or (flavor.vcpus, flavor.memory_mb)))


class Excess(NamedTuple):
    """A limit that a project would exceed.

    `name` is a field of `Footprint` or `Quota`, or `images` or `image_mb`. `asked` is the amount
    requested in addition to `used`, which may already be above `limit`.
    """

    name: str
    asked: int
    used: int
    limit: int

    def fitting(self, count: int) -> int:
        """Return the number of instances that fit, if `asked` is the sum of `count` equal ones."""
        each = self.asked // count
        return max(0, self.limit - self.used) // each if each else count


def sum_of(footprints: Iterable[Footprint]) -> Footprint:
    """Return the sum of footprints."""
    total = NO_FOOTPRINT
    for one in footprints:
        total = total.plus(one)
    return total


def excess_of(before: Footprint, after: Footprint, limits: Footprint) -> tuple[Excess, ...]:
    """Return the limits that a change would exceed.

    Only amounts that the change increases are compared, so a project above a lowered limit may
    still delete or shrink its instances.

    Args:
        before: the project's footprint before the change.
        after: its footprint after the change.
        limits: the project's limits.
    """
    rows = zip(Footprint._fields, before, after, limits, strict=True)
    return tuple(
        Excess(name, now - was, was, limit)
        for name, was, now, limit in rows
        if now > was and now > limit != UNLIMITED
    )


class QuotaExceededError(BerthError):
    """A request would exceed the quota of its project; nothing was stored.

    Args:
        excess: the exceeded limits.
    """

    def __init__(self, excess: tuple[Excess, ...]) -> None:
        # Nova's wording, with the names sorted as in Nova: clients show this message to users.
        rows = sorted(excess, key=lambda one: _CLIENT_NAMES[one.name])
        names = ", ".join(_CLIENT_NAMES[one.name] for one in rows)
        asked, used, limits = (", ".join(str(one[column]) for one in rows) for column in (1, 2, 3))
        super().__init__(
            _TEXTS.get(rows[0].name)
            or f"Quota exceeded for {names}: Requested {asked}, but already used {used} of "
            f"{limits} {names}"
        )
        self.excess = excess
