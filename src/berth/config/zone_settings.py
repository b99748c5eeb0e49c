"""The settings of a zone in a tree of zones: its name, keys and offers, and its children."""

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
    """The role of this deployment in a tree of zones; see docs/adr/0025-zones.md."""

    name: Annotated[str, Meta(max_length=64)] = ""
    """The name that parents and children use for this zone, in `a-z`, `0-9`, `-`, `_` and `.`, the
    same for all its schedulers and APIs; empty if it is not in a tree."""
    key_file: Path | None = None
    """File of this zone's private keys, shared by all its schedulers and APIs; by default
    `zone-keys` in `ledger.data_dir`, which the first start creates."""
    parents_file: Path | None = None
    """File of the trusted parents with their public keys; by default `zone-parents` in
    `ledger.data_dir`. Without the file no parent is trusted."""
    ca_file: Path | None = None
    """File of CA certificates that verify children with `https` URLs, which replace the
    system's."""
    capabilities: tuple[str, ...] = ()
    """What the zone publishes to its parents about itself, as `NAME=VALUE;VALUE`, such as
    `hypervisor=kvm;qemu`."""
    told_capabilities: tuple[str, ...] = ()
    """Values of hosts whose minimum and maximum the zone publishes to its parents: `free.CLASS`,
    `total.CLASS`, `metric.NAME` and `stat.NAME`."""
    # Three failed polls detect a child that is down within about 90 s. Until then, a select waits
    # for the child until its own deadline at most.
    poll_interval_s: _Seconds = 30.0
    """Seconds between two polls of a child."""
    poll_timeout_s: _Seconds = 5.0
    """Seconds that a child may take to answer a poll."""
    failures_to_offline: _Count = 3
    """Consecutive failed polls after which a child is left out of plans until it answers."""
    poll_pause_max_s: _Seconds = 300.0
    """The longest pause between two polls of a child that is down, in seconds."""
    offer_hold_s: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    """Seconds for which the capacity of an offer is held in memory; 0 means that none is held."""
    offer_life_s: _Seconds = 60.0
    """Seconds for which an offer may be used, whether its capacity is held or not."""
    # The share that one parent may hold also bounds what it can learn about the zone's free
    # capacity (docs/adr/0025-zones.md).
    held_share_max: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """The share of the free capacity that may be held for one parent."""
    on_gone: LapsedHoldAction = LapsedHoldAction.TAKE
    """The treatment of an offer whose hold has ended: `take` the same host if it still has the
    capacity, that one or any `other`, or `refuse`."""
    select_timeout_s: Annotated[float, Meta(gt=0, le=60)] = 2.0
    """Seconds that a select over the tree may take; children that answer later are left out."""
    levels_max: Annotated[int, Meta(ge=1, le=32)] = 4
    """The number of levels of child zones that this zone's own requests reach; each makes offers
    105 bytes longer."""
    build_timeout_s: _Seconds = 30.0
    """Seconds that a child may take to answer a build or a release."""
    attempts_max: _Count = 3
    """Maximum number of selects for one request."""
    settle_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Seconds for which a child that did not answer a build is asked about its outcome."""

    def __post_init__(self) -> None:
        """Reject an invalid name or capability, and offers that expire before their holds.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        if self.name:
            check_zone_name(self.name, "zones.name")
        if self.offer_life_s < self.offer_hold_s:
            raise InvalidInputError(
                "zones.offer_life_s",
                f"is {self.offer_life_s:g} s, but offers are held for zones.offer_hold_s = "
                f"{self.offer_hold_s:g} s; increase offer_life_s or decrease offer_hold_s",
            )
        _values_by_name(self.capabilities)

    @property
    def is_on(self) -> bool:
        """Whether this deployment is a zone of a tree."""
        return bool(self.name)

    @property
    def values_by_name(self) -> Mapping[str, tuple[str, ...]]:
        """The capabilities by name."""
        return _values_by_name(self.capabilities)


def _values_by_name(capabilities: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return capabilities by name.

    Raises:
        InvalidInputError: one is malformed or repeated; the error quotes it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for one in capabilities:
        name, equals, text = one.partition("=")
        values = tuple(value.strip() for value in text.split(";") if value.strip())
        if not equals or not name.strip() or not values or name.strip() in found:
            raise InvalidInputError(
                "zones.capabilities", f"{one[:80]!r} must be NAME=VALUE;VALUE, with each name once"
            )
        found[name.strip()] = values
    return found
