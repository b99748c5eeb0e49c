"""Offers: capacity that a zone offers for a parent's request, and the terms sealed into each."""

from dataclasses import dataclass
from enum import StrEnum

from berth.domain.errors import BerthError

SELECT_ID_BYTES = 16
"""Length of the random id of a select, in bytes."""
DIGEST_BYTES = 16
"""Length of the truncated digest of a request, in bytes."""
BLOB_BYTES_MIN = 192
"""Smallest size of a sealed offer, in bytes; the terms of a local host fit into it."""
BLOB_BYTES_MAX = 4096
"""Largest size of a sealed offer, in bytes."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer of capacity for one instance: its weight (the highest wins) and its sealed terms.

    The n-th offer of a zone is valid only together with all offers before it, because the zone
    plans the instances one after another.
    """

    weight: float
    blob: bytes


@dataclass(frozen=True, slots=True)
class OfferKey:
    """The identity of an offer: the select that made it, and its position there, from 0."""

    select_id: bytes
    place: int

    @property
    def claim_key(self) -> str:
        """The key of the claim that uses the offer; the ledger commits it at most once."""
        return f"offer:{self.select_id.hex()}/{self.place}"


@dataclass(frozen=True, slots=True)
class HostTerms:
    """The terms of an offer for one of the zone's own hosts.

    `scheduler` identifies the process that holds the capacity, in 8 bytes; `place` is the position
    of the hold within the select, from 0.
    """

    provider_uuid: str
    scheduler: bytes
    place: int


@dataclass(frozen=True, slots=True)
class ChildTerms:
    """The terms of an offer made by a child zone: the id of the child, and the child's own blob."""

    zone_id: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """The content that a zone seals into an offer.

    `audience` is the name of the parent for which the offer was made, `request_digest` a truncated
    digest of the request (see `offer_seals.request_digest`), and `ends_at_s` the expiry time in
    Unix seconds.
    """

    key: OfferKey
    zone: str
    audience: str
    request_digest: bytes
    ends_at_s: float
    where: HostTerms | ChildTerms


class LapsedHoldAction(StrEnum):
    """The response of a zone to an offer that is used after its hold has ended."""

    TAKE = "take"
    """Use the same host, if it still passes the filters and has the capacity."""
    OTHER = "other"
    """Use the same host if possible, and otherwise the best other host."""
    REFUSE = "refuse"
    """Refuse the offer."""


class OfferRefusalReason(StrEnum):
    """The machine-readable reason for refusing an offer."""

    UNREADABLE = "unreadable"
    """Not sealed by this zone, modified, or sealed with a key that has been removed."""
    OTHER_ZONE = "other_zone"
    OTHER_AUDIENCE = "other_audience"
    OTHER_REQUEST = "other_request"
    EXPIRED = "expired"
    USED = "used"
    """Another instance has used the offer."""
    WITHDRAWN = "withdrawn"
    """The parent has withdrawn the instance that was to use the offer."""
    GONE = "gone"
    """The hold has ended, and the capacity has been given to another consumer."""
    UNSETTLED = "unsettled"
    """A child zone did not answer, so the instance may exist there, or may be built later."""


_TEXTS: dict[OfferRefusalReason, str] = {
    OfferRefusalReason.UNREADABLE: "this zone did not seal it, or it was altered",
    OfferRefusalReason.OTHER_ZONE: "another zone made it",
    OfferRefusalReason.OTHER_AUDIENCE: "it was made for another parent",
    OfferRefusalReason.OTHER_REQUEST: "it was made for another request",
    OfferRefusalReason.EXPIRED: "it has expired",
    OfferRefusalReason.USED: "another instance has used it",
    OfferRefusalReason.WITHDRAWN: "its instance has been withdrawn",
    OfferRefusalReason.GONE: "its capacity is no longer free",
    OfferRefusalReason.UNSETTLED: "a child zone did not report the outcome",
}


class OfferRefusedError(BerthError):
    """An offer was refused; unless the reason is `UNSETTLED`, nothing was built for it.

    Args:
        flaw: the reason for the refusal.
    """

    def __init__(self, flaw: OfferRefusalReason) -> None:
        super().__init__(
            f"the offer was refused because {_TEXTS[flaw]}; use the next offer, or select again"
        )
        self.flaw = flaw
