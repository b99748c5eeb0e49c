"""Zone commands: what API processes and schedulers of one zone send each other over the bus."""

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
    """What came of each item of a build, in their order."""

    outcomes: tuple[BuildOutcome, ...]


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """Uuids of the instances that are there and stay."""

    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HeldBuildOrder:
    """One instance that is to be built by an offer of this zone's own hosts."""

    request: Request
    instance: Instance
    key: OfferKey
    where: HostTerms
    sent_ms: int


@dataclass(frozen=True, slots=True)
class HeldBuildReply:
    """Why an offer was refused; None when its instance is being built."""

    flaw: OfferRefusalReason | None = None


@dataclass(frozen=True, slots=True)
class OfferRelease:
    """Offers that a parent will not use, of whichever scheduler has made them."""

    surplus: tuple[UnusedOffers, ...]
    audience: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The answer to what has none."""


SELECT: Command[SelectOrder, Offers] = Command(
    _TOPIC, "zone_offers", SelectOrder, Offers, by_one=True
)
"""Make offers, sealed for a parent. One scheduler makes them all: what it holds is in its memory,
so of two no one would know what the other has promised."""

BUILD: Command[BuildOrder, BuildReply] = Command(_TOPIC, "zone_build", BuildOrder, BuildReply)
"""Build by offers, here and below."""

BUILD_HELD: Command[HeldBuildOrder, HeldBuildReply] = Command(
    _TOPIC, "zone_held", HeldBuildOrder, HeldBuildReply
)
"""Build by one offer; the server is the scheduler that holds its room, by `scheduler_name`."""

RELEASE: Command[ReleaseOrder, ReleaseReply] = Command(
    _TOPIC, "zone_release", ReleaseOrder, ReleaseReply
)
"""Let go offers and instances; once it answers, none but the kept ones is there or will be."""

RELEASE_OFFERS: Command[OfferRelease, Acknowledged] = Command(
    _TOPIC, "zone_let_go", OfferRelease, Acknowledged
)
"""Let go offers; a fanout, as nobody else knows which scheduler has made them."""


def scheduler_name(scheduler: bytes) -> str:
    """Return what a scheduler is called on the bus, by the eight bytes that its offers name."""
    return scheduler.hex()
