"""Settings of instance tracking, for agents and schedulers alike."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from berth.domain.errors import InvalidInputError


class InstanceSource(StrEnum):
    """Where schedulers have it from which instances hosts have."""

    FEED = "feed"
    CASTS = "casts"


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """How schedulers know what instances hosts have; see docs/adr/0020-instance-information.md."""

    track_instance_changes: bool = True
    """Agents tell of instances and schedulers listen; rules about instances load only then."""
    instance_sync_interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 120.0
    """How often each agent tells the whole list of its host; the same everywhere."""
    instance_information: InstanceSource = InstanceSource.FEED
    """`feed` takes instances from the ledger and checks them, `casts` takes what agents tell."""

    def __post_init__(self) -> None:
        """Refuse to rely on what nobody tells.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if self.instance_information is InstanceSource.CASTS and not self.track_instance_changes:
            raise InvalidInputError(
                "tracking.instance_information",
                "casts needs tracking.track_instance_changes; turn that on, or use feed",
            )
