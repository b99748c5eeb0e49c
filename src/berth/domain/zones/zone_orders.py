"""Zone orders: what a parent asks of a zone, and what the zone answers."""

from dataclasses import dataclass, field

from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.zones.offer import OfferRefusalReason

OFFER_BYTES = 512
"""Size of an offer where nobody asks for another: four layers of zones fit."""


@dataclass(frozen=True, slots=True)
class UnusedOffers:
    """The offers of a select beyond its first `keep`: those that nobody will use."""

    select_id: bytes
    keep: int = 0


@dataclass(frozen=True, slots=True)
class SelectOrder:
    """A request for offers, one for each of its instances, or as many as a zone can take.

    `audience` is the name of the parent that asks. `blob_bytes` is how long each blob is to be,
    `deadline_s` the Unix time by which the answer has to be there. `group` is the server group of
    the request, which the zone may not know. Without `hold` no room is kept. `surplus` are offers
    of before that the parent lets go first. `marks` are of the zones that it came through.
    """

    request: Request
    audience: str
    deadline_s: float
    blob_bytes: int = OFFER_BYTES
    group: ServerGroup | None = None
    hold: bool = True
    surplus: tuple[UnusedOffers, ...] = ()
    marks: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Offers:
    """What a zone offers: weights and blobs, best first, each holding only with those before it.

    `select_id` names the select, for its parent to release what it does not use. `late` counts
    zones below that did not answer in time, or not at all; it does not travel.
    """

    select_id: bytes
    weights: tuple[float, ...] = ()
    blobs: tuple[bytes, ...] = ()
    late: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class BuildItem:
    """One instance to be built, with the offer that it is to use.

    `sent_ms` is when the zone that was asked has sent it (Unix time in milliseconds): what was
    withdrawn afterwards is not built.
    """

    instance: Instance
    blob: bytes
    sent_ms: int = 0


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """Instances of one request that are to be built by the offers that come with them.

    The request's `instance_uuids` are those of the items.
    """

    request: Request
    audience: str
    items: tuple[BuildItem, ...]
    group: ServerGroup | None = None


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """What came of one item: it is being built, or its offer was refused and nothing was done."""

    instance_uuid: str
    flaw: OfferRefusalReason | None = None


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server as a child shows it: its virtual CPUs and MiB, and whether they may yet change."""

    size: tuple[int, int]
    is_resizing: bool


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An instance that is not to be built: not by what was sent until `sent_ms`."""

    instance_uuid: str
    sent_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """Offers and instances that a parent does not want (any more).

    What is held for the surplus offers is let go. The instances are deleted where they are there,
    or left alone and named with `keeps_built`, and refused should they come late. `audience` is
    the parent that asks.
    """

    audience: str
    surplus: tuple[UnusedOffers, ...] = ()
    withdrawn: tuple[Withdrawal, ...] = ()
    project_id: str = ""
    keeps_built: bool = False
