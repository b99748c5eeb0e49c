"""Zones: children of this deployment that requests are passed on to, and what is passed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from berth.domain.compute.quota import Footprint
from berth.domain.errors import InvalidInputError

NAME_MAX = 64
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@dataclass(frozen=True, slots=True)
class Zone:
    """A child zone, as the ledger of its parent knows it.

    `name` is what the child calls itself: offers and statements are bound to it. `sealed_password`
    can be read with the keys of this zone alone, and is never shown. What a child's weight counts
    here is `weight_offset + weight_scale * weight`. One that is disabled is
    not asked for room; what it has of this zone's tenants stays theirs. One that `is_removed` is no
    child any more, and its record keeps its number for when it is added again: errands and groups
    know it by that.
    """

    zone_id: int
    name: str
    api_url: str
    username: str = ""
    sealed_password: str = ""
    weight_offset: float = 0.0
    weight_scale: float = 1.0
    is_enabled: bool = True
    is_removed: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not be asked or compared.

        Raises:
            InvalidInputError: naming the field.
        """
        check_zone_name(self.name, "name")
        for name in ("weight_offset", "weight_scale"):
            value = getattr(self, name)
            if not isfinite(value) or abs(value) > 1e9:  # noqa: PLR2004
                raise InvalidInputError(name, f"{value} must be a number of at most 1e9 either way")
        if not self.weight_scale > 0:
            raise InvalidInputError(
                "weight_scale",
                f"{self.weight_scale} must be above 0, or the worst would come first",
            )


def check_zone_name(name: str, field_name: str) -> str:
    """Return a name that a zone may have.

    Raises:
        InvalidInputError: it is empty, too long, or has other characters.
    """
    if not 0 < len(name) <= NAME_MAX or not _NAME_CHARACTERS.issuperset(name):
        reason = f"must be 1 to {NAME_MAX} of a-z, 0-9, '-', '_' and '.'"
        raise InvalidInputError(field_name, reason)
    return name


@dataclass(frozen=True, slots=True)
class ZoneInfo:
    """What a zone tells its parents of itself.

    `capabilities` has the values that its settings name; `ranges` the least and the greatest
    value of what its hosts report, of those names only that its settings let out.
    """

    name: str
    capabilities: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )


class RemoteInstanceStage(StrEnum):
    """How far an instance has come that was sent to a child zone."""

    SENDING = "sending"
    """The child was asked to build it, and whether it does is not known."""
    THERE = "there"
    """The child has said that it builds it."""
    WITHDRAWING = "withdrawing"
    """It is to go elsewhere, or nowhere, once the child has said that it does not have it."""


@dataclass(frozen=True, slots=True)
class RemoteInstance:
    """An instance that a child zone has, or may have; requests about it go there.

    `sent_ms` is when it was sent from the zone that was asked, in milliseconds of Unix time.
    `counts_as` are the virtual CPUs and MiB of memory that it counts for in its project, from when
    no record of the instance stands here any more. While it is resized that is the larger of two
    sizes, and `resize` has the one before and the one after; until `asking_until_s`, in Unix time,
    the child is being asked for one, or for its end. `group_uuid` is its server group,
    empty without one; None is of before this was noted.
    """

    instance_uuid: str
    zone_id: int
    stage: RemoteInstanceStage
    project_id: str
    user_id: str
    reservation_id: str
    request_id: str
    sent_ms: int = 0
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    counts_as: tuple[int, int] | None = None
    resize: tuple[tuple[int, int], tuple[int, int]] | None = None
    group_uuid: str | None = None
    asking_until_s: float = 0.0


def remote_footprint(errand: RemoteInstance) -> Footprint | None:
    """Return what an instance counts for that a child zone has; None while it is taken back."""
    if errand.counts_as is None or errand.stage is RemoteInstanceStage.WITHDRAWING:
        return None
    return Footprint(1, *errand.counts_as)
