"""Zones: child deployments to which requests are passed on, and the instances sent to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from berth.domain.compute.quota import Footprint
from berth.domain.errors import InvalidInputError

NAME_MAX = 64
"""Maximum length of a zone's name."""
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@dataclass(frozen=True, slots=True)
class Zone:
    """A child zone, as the ledger of its parent describes it.

    `name` is the child's own name, to which offers and signed assertions are bound.
    `sealed_password` is readable only with the keys of the parent and is never shown. The child's
    weights are mapped to `weight_offset + weight_scale * weight`. A disabled zone receives no
    requests and keeps the instances that it has. A zone with `is_removed` is no longer a child; its
    record reserves its id, by which remote instances and server groups refer to it, in case the
    zone is added again.
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
        """Reject invalid names and weights.

        Raises:
            InvalidInputError: a value is invalid; the error names the field.
        """
        check_zone_name(self.name, "name")
        for name in ("weight_offset", "weight_scale"):
            value = getattr(self, name)
            # The bound keeps the sum of offset and scaled weight finite, so offers stay comparable.
            if not isfinite(value) or abs(value) > 1e9:  # noqa: PLR2004
                raise InvalidInputError(name, f"{value} must be between -1e9 and 1e9")
        if not self.weight_scale > 0:
            raise InvalidInputError(
                "weight_scale",
                f"{self.weight_scale} must be above 0, so that the best offers come first",
            )


def check_zone_name(name: str, field_name: str) -> str:
    """Return `name` if it is a valid name of a zone.

    Raises:
        InvalidInputError: the name is empty, too long, or contains invalid characters.
    """
    if not 0 < len(name) <= NAME_MAX or not _NAME_CHARACTERS.issuperset(name):
        rule = f"must consist of 1 to {NAME_MAX} characters from a-z, 0-9, '-', '_' and '.'"
        reason = f"{name[:80]!r} {rule}"
        raise InvalidInputError(field_name, reason)
    return name


@dataclass(frozen=True, slots=True)
class ZoneInfo:
    """A zone's description of itself for its parents.

    `capabilities` are values by name from the zone's settings. `ranges` are the minimum and maximum
    of values that its hosts report, for the names that the settings disclose.
    """

    name: str
    capabilities: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ranges: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )


class RemoteInstanceStage(StrEnum):
    """The stage of an instance's transfer to a child zone."""

    SENDING = "sending"
    """The child was asked to build the instance; whether it does is unknown."""
    THERE = "there"
    """The child has confirmed that it builds or has the instance."""
    WITHDRAWING = "withdrawing"
    """The instance is being withdrawn; this ends when the child confirms that it lacks the
    instance."""


@dataclass(frozen=True, slots=True)
class RemoteInstance:
    """An instance that a child zone has or may have; requests about it are forwarded there.

    The record is written before the child is asked, because a build whose answer is lost may have
    succeeded (docs/adr/0025-zones.md). `sent_ms` is the time of sending, in Unix milliseconds by
    the clock of the zone that received the request. `counts_as` (virtual CPUs, MiB of memory) is
    charged to the project's quota, unless this zone has a record of the instance itself, which is
    charged instead; None once the owner has deleted the instance. During a resize it is the larger
    of both sizes, and `resize` contains the sizes before and after. Until `asking_until_s` (Unix
    seconds) a request to resize the instance, or to end a resize, is in progress at the child.
    `group_uuid` is the server group, empty for none, and None in records that predate the field.
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


def remote_footprint(instance: RemoteInstance) -> Footprint | None:
    """Return the quota footprint of a remote instance.

    It is None while the instance is being withdrawn, and once its owner has deleted it.
    """
    if instance.counts_as is None or instance.stage is RemoteInstanceStage.WITHDRAWING:
        return None
    return Footprint(1, *instance.counts_as)
