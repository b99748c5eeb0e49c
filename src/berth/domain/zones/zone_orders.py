"""The orders that a parent sends to a zone, and the zone's answers."""

from dataclasses import dataclass, field

from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.zones.offer import OfferRefusalReason

OFFER_BYTES = 512
"""Default size of a sealed offer, in bytes."""


@dataclass(frozen=True, slots=True)
class UnusedOffers:
    """The offers of a select after the first `keep`, which the parent will not use."""

    select_id: bytes
    keep: int = 0


@dataclass(frozen=True, slots=True)
class SelectOrder:
    """A request for one offer per instance, or for as many offers as the zone can make.

    `audience` is the name of the requesting parent. Each blob must have `blob_bytes` bytes, and
    the answer is due at `deadline_s` (Unix seconds). `group` is the server group of the request,
    which the zone may not know. With `hold` the zone reserves the offered capacity. `surplus` are
    earlier offers that the parent releases first. `marks` identify the zones through which the
    request came, so a zone recognises its own request in a loop.
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
    """The offers of a zone as weights and blobs, best first.

    Each offer is valid only together with those before it. `select_id` identifies the select when
    the parent releases unused offers. `late` counts the child zones that did not answer in time; it
    is local and not transmitted. With `is_partial`, offers of zones below may be missing.
    """

    select_id: bytes
    weights: tuple[float, ...] = ()
    blobs: tuple[bytes, ...] = ()
    # Equality ignores `late`, because two answers with the same offers are equal.
    late: int = field(default=0, compare=False)
    is_partial: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ZoneCapacity:
    """The number of further instances of a request that fit in a zone and the zones below it.

    With `is_partial`, `count` is a lower bound, because some hosts were not counted.
    """

    count: int
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class BuildItem:
    """One instance to build, and the offer that it uses.

    `sent_ms` is the time at which the zone that received the tenant's request sent the instance, in
    Unix milliseconds. An instance that was withdrawn at this time or later is not built.
    """

    instance: Instance
    blob: bytes
    sent_ms: int = 0


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """An order to build instances of one request, each with its offer.

    The `instance_uuids` of the request are those of the items' instances.
    """

    request: Request
    audience: str
    items: tuple[BuildItem, ...]
    group: ServerGroup | None = None


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """The outcome of one item; `flaw` is the reason for a refusal, None if the zone accepted it."""

    instance_uuid: str
    flaw: OfferRefusalReason | None = None


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server as its child zone reports it.

    `size` is (virtual CPUs, MiB of memory); with `is_resizing` it may still change.
    """

    size: tuple[int, int]
    is_resizing: bool


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """An instance that must not be built by any order sent up to `sent_ms` (Unix milliseconds)."""

    instance_uuid: str
    sent_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """An order to release offers and to withdraw instances that a parent does not want.

    The holds of the `surplus` offers end. Withdrawn instances that exist are deleted, or with
    `keeps_built` are kept and reported. If a withdrawn instance does not exist, an order to build
    it that arrives later is refused. `audience` is the name of the requesting parent.
    """

    audience: str
    surplus: tuple[UnusedOffers, ...] = ()
    withdrawn: tuple[Withdrawal, ...] = ()
    project_id: str = ""
    keeps_built: bool = False
