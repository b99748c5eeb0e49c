"""Settings of a zone of zones: what it is called, whom it trusts, and how it asks its children."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from berth.domain.errors import InvalidInputError
from berth.domain.zones.offer import LapsedHoldAction
from berth.domain.zones.zone import check_zone_name

_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_Count = Annotated[int, Meta(ge=1, le=100)]


@dataclass(frozen=True, slots=True)
class ZoneSettings:
    """How this deployment is a zone in a tree of zones; see docs/adr/0025-zones.md."""

    name: Annotated[str, Meta(max_length=64)] = ""
    """What parents and children call this zone; without a name it is no part of a tree."""
    key_file: Path | None = None
    """File of the private keys of this zone; without it `zone-keys` in `ledger.data_dir`."""
    parents_file: Path | None = None
    """File of the parents whose statements count; `zone-parents` in `ledger.data_dir` without."""
    ca_file: Path | None = None
    """File of certificates that children's are checked by; the system's own without it."""
    capabilities: tuple[str, ...] = ()
    """What the zone tells of itself, as `NAME=VALUE;VALUE`, `hypervisor=kvm;qemu` say."""
    told_capabilities: tuple[str, ...] = ()
    """Of which values of hosts the least and the greatest are told, `free.VCPU` say."""
    poll_interval_s: _Seconds = 30.0
    """How often each child is asked how it is."""
    poll_timeout_s: _Seconds = 5.0
    failures_to_offline: _Count = 3
    """So many failures in a row take a child out of plans, until it answers again."""
    poll_pause_max_s: _Seconds = 300.0
    """Longest time between two questions to a child that is down."""
    offer_hold_s: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    """How long the room of an offer is held in memory; 0 holds nothing."""
    offer_life_s: _Seconds = 60.0
    """How long an offer may be used, whether its room is held or not."""
    held_share_max: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """How much of what is free may be held for one parent."""
    on_gone: LapsedHoldAction = LapsedHoldAction.TAKE
    """What becomes of an offer whose hold has ended: `take`, `other` or `refuse`."""
    select_timeout_s: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """How long a select over the tree may take; children that are later are left out."""
    levels_max: Annotated[int, Meta(ge=1, le=32)] = 4
    """How many levels of zones below this one its own requests reach; offers are as long as that
    takes."""
    build_timeout_s: _Seconds = 30.0
    """How long a child may take to answer a build or a release."""
    attempts_max: _Count = 3
    """How often a request selects before it fails."""
    settle_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """How long a child that did not answer a build is asked what came of it."""

    def __post_init__(self) -> None:
        """Refuse a name that no parent could use, and offers that end before their holds.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if self.name:
            check_zone_name(self.name, "zones.name")
        if self.offer_life_s < self.offer_hold_s:
            raise InvalidInputError(
                "zones.offer_life_s",
                f"is {self.offer_life_s:g}, and room would be held for zones.offer_hold_s = "
                f"{self.offer_hold_s:g}; raise the one, or lower the other",
            )
        _values_by_name(self.capabilities)

    @property
    def is_on(self) -> bool:
        """This deployment is a zone."""
        return bool(self.name)

    @property
    def values_by_name(self) -> Mapping[str, tuple[str, ...]]:
        """The capabilities, read."""
        return _values_by_name(self.capabilities)


def _values_by_name(capabilities: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Read capabilities.

    Raises:
        InvalidInputError: naming the one that is wrong.
    """
    found: dict[str, tuple[str, ...]] = {}
    for one in capabilities:
        name, equals, text = one.partition("=")
        values = tuple(value.strip() for value in text.split(";") if value.strip())
        if not equals or not name.strip() or not values or name.strip() in found:
            raise InvalidInputError(
                "zones.capabilities", f"{one[:80]!r} must be NAME=VALUE;VALUE, each name once"
            )
        found[name.strip()] = values
    return found
