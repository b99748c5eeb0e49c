"""Bus commands between the API processes and the schedulers of one zone."""

from dataclasses import dataclass
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.zones.offer import HostTerms, OfferKey, OfferRefusalReason
from berth.domain.zones.zone_orders import (
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    SelectOrder,
    UnusedOffers,
)
from berth.ports.bus import Command

_TOPIC: Final = "scheduler"


@dataclass(frozen=True, slots=True)
class BuildReply:
    """The outcomes of a build order, one for each item and in the order of the items."""

    outcomes: tuple[BuildOutcome, ...]


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """The uuids of the instances that exist and stay."""

    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HeldBuildOrder:
    """One instance to be built from an offer of this zone's own hosts."""

    request: Request
    instance: Instance
    key: OfferKey
    where: HostTerms
    sent_ms: int


@dataclass(frozen=True, slots=True)
class HeldBuildReply:
    """The reason why an offer was refused, or None if its instance is being or has been built."""

    flaw: OfferRefusalReason | None = None


@dataclass(frozen=True, slots=True)
class OfferRelease:
    """Offers that a parent will not use; any scheduler of this zone may have made them.

    `audience` is the name of the parent.
    """

    surplus: tuple[UnusedOffers, ...]
    audience: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The reply to a command that returns nothing."""


SELECT: Command[SelectOrder, Offers] = Command(
    _TOPIC, "zone_offers", SelectOrder, Offers, by_one=True
)
"""Make offers and seal them for a parent. A single scheduler serves this command (`by_one`): holds
are in its memory, so two schedulers could each promise the same room."""

BUILD: Command[BuildOrder, BuildReply] = Command(_TOPIC, "zone_build", BuildOrder, BuildReply)
"""Build instances from offers, on this zone's hosts and in its children."""

BUILD_HELD: Command[HeldBuildOrder, HeldBuildReply] = Command(
    _TOPIC, "zone_held", HeldBuildOrder, HeldBuildReply
)
"""Build an instance from one offer. The command goes to the scheduler that holds the offer's room;
see `scheduler_name`."""

RELEASE: Command[ReleaseOrder, ReleaseReply] = Command(
    _TOPIC, "zone_release", ReleaseOrder, ReleaseReply
)
"""Release offers and withdraw instances; after the reply only the kept instances exist, and no
others will be built."""

RELEASE_OFFERS: Command[OfferRelease, Acknowledged] = Command(
    _TOPIC, "zone_let_go", OfferRelease, Acknowledged
)
"""Release offers. The command is a fanout, because the sender cannot tell which scheduler made the
offers."""


def scheduler_name(scheduler: bytes) -> str:
    """Return a scheduler's server name on the bus for the eight-byte id in its offers."""
    return scheduler.hex()
