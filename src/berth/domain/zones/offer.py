"""Offers: what a zone would give to a parent's request, and the terms sealed into each."""

from dataclasses import dataclass
from enum import StrEnum

from berth.domain.errors import BerthError

SELECT_ID_BYTES = 16
DIGEST_BYTES = 16
BLOB_BYTES_MIN = 192
"""Least size of a sealed offer: a local one has to fit."""
BLOB_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Offer:
    """Room for one instance: how good it is (the highest wins), and the sealed terms.

    The n-th offer of a zone holds only together with all those before it.
    """

    weight: float
    blob: bytes


@dataclass(frozen=True, slots=True)
class OfferKey:
    """Which offer: the select that made it (16 random bytes) and its place there, from 0."""

    select_id: bytes
    place: int

    @property
    def claim_key(self) -> str:
        """The key of the claim that uses it, so that the ledger lets it be used once."""
        return f"offer:{self.select_id.hex()}/{self.place}"


@dataclass(frozen=True, slots=True)
class HostTerms:
    """An offer of a host of the zone itself.

    `scheduler` names the process that holds the room, in eight bytes, and `place` which of the
    holds of the select it is, from 0.
    """

    provider_uuid: str
    scheduler: bytes
    place: int


@dataclass(frozen=True, slots=True)
class ChildTerms:
    """An offer that a child zone has made: its number in the ledger here, and the child's blob."""

    zone_id: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """What a zone seals into an offer.

    `audience` is the name of the parent that it is for, `request_digest` the first bytes of the
    digest of what was asked (see `digest_of`), `ends_at_s` the Unix time when it ends.
    """

    key: OfferKey
    zone: str
    audience: str
    request_digest: bytes
    ends_at_s: float
    where: HostTerms | ChildTerms


class LapsedHoldAction(StrEnum):
    """What a zone does with an offer that it holds no room for any more."""

    TAKE = "take"
    """Take the same host, if it still may and has room."""
    OTHER = "other"
    """Take that host, or else the best one."""
    REFUSE = "refuse"
    """Leave it to the parent, which has other offers."""


class OfferRefusalReason(StrEnum):
    """Why an offer is refused, for programs."""

    UNREADABLE = "unreadable"
    """Not sealed by this zone, changed since, or sealed with a key that has been dropped."""
    OTHER_ZONE = "other_zone"
    OTHER_AUDIENCE = "other_audience"
    OTHER_REQUEST = "other_request"
    EXPIRED = "expired"
    USED = "used"
    """By another instance."""
    WITHDRAWN = "withdrawn"
    """The parent has released the instance that comes with it."""
    GONE = "gone"
    """The hold has ended and the room has been given to somebody else."""
    UNSETTLED = "unsettled"
    """A zone below did not answer, so the instance may be there, or come there yet."""


_TEXTS: dict[OfferRefusalReason, str] = {
    OfferRefusalReason.UNREADABLE: "it was not sealed by this zone, or not as it is now",
    OfferRefusalReason.OTHER_ZONE: "another zone has made it",
    OfferRefusalReason.OTHER_AUDIENCE: "it was made for another parent",
    OfferRefusalReason.OTHER_REQUEST: "it was made for another request",
    OfferRefusalReason.EXPIRED: "it has expired",
    OfferRefusalReason.USED: "another instance has used it",
    OfferRefusalReason.WITHDRAWN: "its instance was released before",
    OfferRefusalReason.GONE: "its room is not free any more",
    OfferRefusalReason.UNSETTLED: "a zone below did not say what came of it",
}


class OfferRefusedError(BerthError):
    """An offer is not taken, and nothing was built; take the next one, or select anew.

    Args:
        flaw: why.
    """

    def __init__(self, flaw: OfferRefusalReason) -> None:
        super().__init__(f"the offer is refused: {_TEXTS[flaw]}; take the next one, or select anew")
        self.flaw = flaw
